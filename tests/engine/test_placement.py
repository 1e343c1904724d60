"""Gangs get whole slots, together where possible, and stay where they are."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from shockwave.engine.placement import Placer
from shockwave.model.cluster import Node
from shockwave.model.errors import ExecutorError
from shockwave.model.events import Placement


def test_the_tightest_node_that_holds_the_gang_is_taken() -> None:
    placer = Placer((Node("a", 8), Node("b", 2), Node("c", 4)))
    assert placer.place([0], [2]) == {0: (("b", (0, 1)),)}
    assert placer.place([1], [2]) == {1: (("c", (0, 1)),)}
    assert placer.place([2], [5]) == {2: (("a", (0, 1, 2, 3, 4)),)}


def test_large_gangs_are_placed_before_small_ones() -> None:
    placer = Placer((Node("a", 4), Node("b", 4)))
    placed = placer.place([0, 1, 2], [1, 1, 4])
    assert len(placed[2]) == 1
    assert placed[0][0][0] == placed[1][0][0] != placed[2][0][0]


def test_a_gang_that_no_node_can_hold_spans_as_few_as_possible() -> None:
    placer = Placer((Node("a", 2), Node("b", 4), Node("c", 3), Node("d", 1)))
    assert placer.place([0], [6]) == {0: (("b", (0, 1, 2, 3)), ("c", (0, 1)))}


def test_nodes_count_while_they_are_up() -> None:
    placer = Placer((Node("a", 4), Node("b", 8)))
    assert (placer.gpus, placer.largest_node) == (12, 8)
    placer.place([7], [6])
    assert placer.remove("b") == [7]
    assert (placer.gpus, placer.largest_node) == (4, 4)
    placer.release([7])
    placer.add(Node("b", 8))
    assert (placer.gpus, placer.largest_node) == (12, 8)
    assert placer.place([8], [8]) == {8: (("b", tuple(range(8))),)}


def test_a_node_may_come_back_with_another_size() -> None:
    placer = Placer((Node("a", 4),))
    placer.remove("a")
    assert (placer.gpus, placer.largest_node) == (0, 0)
    placer.add(Node("a", 2))
    assert placer.place([0], [2]) == {0: (("a", (0, 1)),)}
    with pytest.raises(ValueError, match="does not fit"):
        placer.place([1], [1])


def test_a_node_that_comes_up_twice_is_an_error() -> None:
    placer = Placer((Node("a", 4),))
    with pytest.raises(ExecutorError, match="node a came up"):
        placer.add(Node("a", 4))


def test_an_unknown_node_that_goes_down_had_no_gangs() -> None:
    assert Placer((Node("a", 4),)).remove("z") == []


class Placing(RuleBasedStateMachine):
    """Gangs and nodes come and go; an own account of the slots is kept beside the placer."""

    @initialize(sizes=st.lists(st.integers(1, 8), min_size=1, max_size=6))
    def set_up(self, sizes: list[int]) -> None:
        self.nodes = {f"n{index}": size for index, size in enumerate(sizes)}
        self.placer = Placer(tuple(Node(name, size) for name, size in self.nodes.items()))
        self.held: dict[int, Placement] = {}
        self.next_handle = 0
        self.next_node = len(sizes)

    def free(self) -> dict[str, set[int]]:
        free = {name: set(range(size)) for name, size in self.nodes.items()}
        for placement in self.held.values():
            for node, slots in placement:
                assert free[node] >= set(slots), "two gangs on one slot"
                free[node] -= set(slots)
        return free

    @rule(sizes=st.lists(st.integers(1, 12), max_size=5))
    def start(self, sizes: list[int]) -> None:
        free = self.free()
        left = sum(map(len, free.values()))
        while sum(sizes) > left:
            sizes = sizes[:-1]
        handles = list(range(self.next_handle, self.next_handle + len(sizes)))
        self.next_handle += len(sizes)
        placed = self.placer.place(handles, sizes)
        assert set(placed) == set(handles)
        size_of = dict(zip(handles, sizes, strict=True))
        for handle in sorted(handles, key=lambda h: (-size_of[h], h)):  # the order of turns
            size, placement = size_of[handle], placed[handle]
            assert sum(len(slots) for _, slots in placement) == size
            assert len({node for node, _ in placement}) == len(placement)
            assert all(slots for _, slots in placement)
            room = sorted((len(slots) for slots in free.values()), reverse=True)
            fewest = next(n for n in range(1, len(room) + 1) if sum(room[:n]) >= size)
            assert len(placement) == fewest
            if fewest == 1:
                tightest = min(len(slots) for slots in free.values() if len(slots) >= size)
                assert len(free[placement[0][0]]) == tightest
            for node, slots in placement:
                assert free[node] >= set(slots)
                free[node] -= set(slots)
        self.held |= placed

    @rule(data=st.data())
    def stop(self, data: st.DataObject) -> None:
        if self.held:
            handle = data.draw(st.sampled_from(sorted(self.held)))
            self.placer.release([handle])
            del self.held[handle]

    @rule(data=st.data())
    def node_down(self, data: st.DataObject) -> None:
        if self.nodes:
            name = data.draw(st.sampled_from(sorted(self.nodes)))
            lost = self.placer.remove(name)
            assert sorted(lost) == sorted(
                handle
                for handle, placement in self.held.items()
                if name in {node for node, _ in placement}
            )
            self.placer.release(lost)
            for handle in lost:
                del self.held[handle]
            del self.nodes[name]

    @rule(size=st.integers(1, 8), back=st.booleans())
    def node_up(self, size: int, back: bool) -> None:
        missing = [f"n{i}" for i in range(self.next_node) if f"n{i}" not in self.nodes]
        name = missing[0] if back and missing else f"n{self.next_node}"
        self.next_node += name == f"n{self.next_node}"
        self.placer.add(Node(name, size))
        self.nodes[name] = size

    @invariant()
    def counts(self) -> None:
        if hasattr(self, "nodes"):
            self.free()
            assert self.placer.gpus == sum(self.nodes.values())
            assert self.placer.largest_node == max(self.nodes.values(), default=0)


TestPlacing = Placing.TestCase
TestPlacing.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)

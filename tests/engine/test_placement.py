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
    assert placer.place([1], [1]) == {}


def test_what_others_hold_is_neither_free_nor_counted() -> None:
    placer = Placer((Node("a", 4), Node("b", 8)))
    placer.occupy("b", 5)
    assert (placer.gpus, placer.largest_node, placer.occupied("b")) == (7, 4, 5)
    assert placer.place([0], [4]) == {0: (("a", (0, 1, 2, 3)),)}
    assert [len(slots) for _, slots in placer.place([1], [3])[1]] == [3]
    placer.occupy("b", 0)
    assert placer.gpus == 12
    assert len(placer.place([2], [5])[2][0][1]) == 5


def test_a_gang_keeps_what_it_holds_whatever_others_say() -> None:
    placer = Placer((Node("a", 4), Node("b", 2)))
    held = placer.place([0], [3])
    placer.occupy("a", 4)
    assert placer.placement(0) == held[0]
    assert placer.gpus == 2
    placer.release([0])
    assert placer.place([1], [3]) == {}  # others have all of a
    assert placer.place([2], [2]) == {2: (("b", (0, 1)),)}


def test_a_node_that_goes_down_is_forgotten_with_its_occupants() -> None:
    placer = Placer((Node("a", 4),))
    placer.occupy("a", 3)
    placer.remove("a")
    placer.occupy("a", 2)  # nobody there
    placer.add(Node("a", 4))
    assert (placer.gpus, placer.occupied("a")) == (4, 0)


def test_gangs_that_may_use_few_nodes_come_first() -> None:
    placer = Placer((Node("a", 2), Node("b", 2)))
    placed = placer.place([0, 1, 2], [2, 1, 1], {1: frozenset("a"), 2: frozenset("a")})
    assert placed[1][0][0] == placed[2][0][0] == "a"
    assert placed[0][0][0] == "b"


def test_of_those_the_ones_with_the_least_room_come_first() -> None:
    placer = Placer((Node("a", 2), Node("b", 2)))
    placed = placer.place([0, 1], [2, 2], {0: frozenset("ab"), 1: frozenset("a")})
    assert placed == {0: (("b", (0, 1)),), 1: (("a", (0, 1)),)}


def test_a_gang_that_does_not_fit_its_nodes_is_left_out() -> None:
    placer = Placer((Node("a", 2), Node("b", 4)))
    allowed = {0: frozenset("a"), 1: frozenset({"a", "gone"}), 2: frozenset({"gone"})}
    placed = placer.place([0, 1, 2, 3], [2, 2, 1, 4], allowed)
    assert set(placed) == {0, 3}
    assert placer.placement(1) == ()
    assert placer.capacity(allowed[1]) == 2


def test_of_gangs_that_do_not_all_fit_their_nodes_the_preferred_ones_are_placed() -> None:
    placer = Placer((Node("a", 4), Node("b", 4)))
    allowed = dict.fromkeys((5, 6, 7), frozenset("a"))
    assert set(placer.place([5, 6, 7], [1, 4, 3], allowed)) == {5, 7}
    assert (placer.room(), placer.room({"a", "gone"})) == (4, 0)


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
        self.occupied: dict[str, int] = {}
        self.next_handle = 0
        self.next_node = len(sizes)

    def free(self) -> dict[str, set[int]]:
        free = {name: set(range(size)) for name, size in self.nodes.items()}
        for placement in self.held.values():
            for node, slots in placement:
                assert free[node] >= set(slots), "two gangs on one slot"
                free[node] -= set(slots)
        return free

    def room(self, free: dict[str, set[int]]) -> dict[str, int]:
        """[node] what a gang can still get there: others may hold any slots that we do not."""
        return {
            name: max(len(slots) - self.occupied.get(name, 0), 0) for name, slots in free.items()
        }

    @rule(sizes=st.lists(st.integers(1, 12), max_size=5))
    def start(self, sizes: list[int]) -> None:
        free = self.free()
        left = sum(self.room(free).values())
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
            room = self.room(free)
            most = sorted(room.values(), reverse=True)
            fewest = next(n for n in range(1, len(most) + 1) if sum(most[:n]) >= size)
            assert len(placement) == fewest
            if fewest == 1:
                assert room[placement[0][0]] == min(r for r in room.values() if r >= size)
            for node, slots in placement:
                assert free[node] >= set(slots)
                free[node] -= set(slots)
        self.held |= placed

    @rule(
        gangs=st.lists(st.tuples(st.integers(1, 12), st.none() | st.sets(st.integers(0, 7)))),
    )
    def start_some_where_they_may(self, gangs: list[tuple[int, set[int] | None]]) -> None:
        """Whoever fits its nodes is placed there; whoever is not placed did not fit."""
        handles = list(range(self.next_handle, self.next_handle + len(gangs)))
        self.next_handle += len(gangs)
        size_of = {handle: size for handle, (size, _) in zip(handles, gangs, strict=True)}
        allowed = {
            handle: frozenset(f"n{i}" for i in names)
            for handle, (_, names) in zip(handles, gangs, strict=True)
            if names is not None
        }
        before = self.room(self.free())
        placed = self.placer.place(handles, list(size_of.values()), allowed)
        self.held |= placed
        taken = dict.fromkeys(self.nodes, 0)
        for handle, placement in placed.items():
            assert sum(len(slots) for _, slots in placement) == size_of[handle]
            for node, slots in placement:
                assert node in allowed.get(handle, self.nodes)
                taken[node] += len(slots)
        assert all(taken[name] <= before[name] for name in self.nodes)
        left = self.room(self.free())
        for handle in set(handles) - set(placed):
            mine = allowed.get(handle, frozenset(self.nodes))
            assert sum(left.get(name, 0) for name in mine) < size_of[handle]

    @rule(data=st.data())
    def occupy(self, data: st.DataObject) -> None:
        if self.nodes:
            name = data.draw(st.sampled_from(sorted(self.nodes)))
            gpus = data.draw(st.integers(0, self.nodes[name]))
            self.placer.occupy(name, gpus)
            self.occupied[name] = gpus

    @rule(data=st.data())
    def stop(self, data: st.DataObject) -> None:
        if self.held:
            handle = data.draw(st.sampled_from(sorted(self.held)))
            self.placer.release([handle])
            del self.held[handle]

    @rule(data=st.data(), sizes=st.lists(st.integers(1, 4), max_size=3))
    def stop_and_take_back(self, data: st.DataObject, sizes: list[int]) -> None:
        """Unless somebody else got one of the slots, or others hold what is left there."""
        if not self.held:
            return
        handle = data.draw(st.sampled_from(sorted(self.held)))
        before = self.held.pop(handle)
        self.placer.release([handle])
        self.start(sizes)
        free = self.free()
        room = self.room(free)
        possible = all(
            free[node] >= set(slots) and room[node] >= len(slots) for node, slots in before
        )
        assert self.placer.take_back(handle, before) == possible
        if possible:
            self.held[handle] = before

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
            self.occupied.pop(name, None)

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
            usable = [size - self.occupied.get(name, 0) for name, size in self.nodes.items()]
            assert self.placer.gpus == sum(usable)
            assert self.placer.largest_node == max(usable, default=0)
            room = self.room(self.free())
            assert self.placer.room() == sum(room.values())
            assert all(self.placer.room([name]) == left for name, left in room.items())
            for handle, placement in self.held.items():
                assert self.placer.placement(handle) == placement


TestPlacing = Placing.TestCase
TestPlacing.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)

"""Two parties speak about nodes, the engine and the operator; the journal makes sense of both."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from shockwave.engine.fleet import Fleet

from shockwave.engine.placement import Placer
from shockwave.model.cluster import Node
from shockwave.model.events import Event, NodeDown, NodeOccupied, NodeUp

A, B = Node("a", 4), Node("b", 2)


class Nodes:
    """A fleet whose events are applied as the scheduler's state applies them."""

    def __init__(self, *nodes: Node) -> None:
        self.placer = Placer(nodes)
        self.fleet = Fleet(self.placer)

    def apply(self, events: list[Event]) -> list[Event]:
        for event in events:
            match event:
                case NodeUp():
                    self.placer.add(event.node)  # raises if it is up already
                case NodeDown():
                    assert self.placer.node(event.node) is not None
                    self.placer.remove(event.node)
                case NodeOccupied():
                    assert self.placer.node(event.node) is not None
                    self.placer.occupy(event.node, event.gpus)
        return events

    def hear(self, event: Event) -> list[Event]:
        return self.apply(self.fleet.news(event))


def test_what_is_known_already_is_no_news() -> None:
    nodes = Nodes(A)
    assert nodes.hear(NodeUp(1.0, A)) == []
    assert nodes.hear(NodeDown(1.0, "b")) == []
    assert nodes.hear(NodeOccupied(1.0, "b", 1)) == []
    assert nodes.hear(NodeOccupied(1.0, "a", 0)) == []
    assert nodes.hear(NodeOccupied(1.0, "a", 3)) == [NodeOccupied(1.0, "a", 3)]
    assert nodes.hear(NodeOccupied(2.0, "a", 3)) == []


def test_a_node_with_another_number_of_gpus_went_down_in_between() -> None:
    nodes = Nodes(A)
    bigger = Node("a", 8)
    assert nodes.hear(NodeUp(5.0, bigger)) == [NodeDown(5.0, "a"), NodeUp(5.0, bigger)]
    assert nodes.placer.gpus == 8


def test_a_drained_node_stays_out_although_the_engine_reports_it() -> None:
    nodes = Nodes(A, B)
    assert nodes.apply(nodes.fleet.drain("a", 1.0)) == [NodeDown(1.0, "a")]
    assert nodes.hear(NodeUp(2.0, A)) == []
    assert nodes.hear(NodeDown(3.0, "a")) == []
    assert nodes.hear(NodeUp(4.0, Node("a", 6))) == []
    assert nodes.hear(NodeOccupied(4.0, "a", 5)) == []
    assert nodes.placer.gpus == 2
    back = nodes.apply(nodes.fleet.resume("a", 5.0))
    assert back == [NodeUp(5.0, Node("a", 6)), NodeOccupied(5.0, "a", 5)]


def test_what_others_held_when_a_node_was_drained_they_hold_when_it_is_resumed() -> None:
    nodes = Nodes(A)
    nodes.hear(NodeOccupied(1.0, "a", 2))
    nodes.apply(nodes.fleet.drain("a", 2.0))
    nodes.apply(nodes.fleet.resume("a", 3.0))
    assert (nodes.placer.gpus, nodes.placer.occupied("a")) == (2, 2)


def test_a_node_that_is_down_is_resumed_when_it_comes_up() -> None:
    nodes = Nodes(A)
    nodes.apply(nodes.fleet.drain("a", 1.0))
    nodes.hear(NodeDown(2.0, "a"))
    assert nodes.fleet.resume("a", 3.0) == []
    assert nodes.hear(NodeUp(4.0, A)) == [NodeUp(4.0, A)]


def test_a_node_may_be_drained_before_it_comes_up() -> None:
    nodes = Nodes()
    assert nodes.fleet.drain("a", 1.0) == []
    assert nodes.hear(NodeUp(2.0, A)) == []
    assert nodes.apply(nodes.fleet.resume("a", 3.0)) == [NodeUp(3.0, A)]


@pytest.mark.parametrize("drained", [frozenset("a"), frozenset()])
def test_after_a_restart_only_drained_nodes_stay_out(drained: frozenset[str]) -> None:
    nodes = Nodes(A, B)
    for event in (NodeDown(1.0, "a"), NodeDown(2.0, "b")):
        nodes.fleet.restore(event)
        nodes.apply([event])
    nodes.fleet.restored(drained)
    nodes.apply(nodes.fleet.fit([A, B], 3.0))
    assert {node.id for node in nodes.placer.nodes()} == {"a", "b"} - drained
    nodes.apply(nodes.fleet.resume("a", 4.0))
    assert {node.id for node in nodes.placer.nodes()} == {"a", "b"}


def test_the_nodes_of_the_engine_replace_those_of_the_journal() -> None:
    nodes = Nodes(A, B, Node("c", 1))
    bigger = Node("b", 4)
    changes = nodes.apply(nodes.fleet.fit([A, bigger, Node("d", 1)], 1.0))
    assert [type(event) for event in changes] == [NodeDown, NodeDown, NodeUp, NodeUp]
    assert {(node.id, node.gpus) for node in nodes.placer.nodes()} == {
        ("a", 4), ("b", 4), ("d", 1),
    }  # fmt: skip


class Talking(RuleBasedStateMachine):
    """Whatever both say, in whatever order: usable is what is up and not drained."""

    @initialize()
    def set_up(self) -> None:
        self.nodes = Nodes()
        self.up: dict[str, int] = {}
        self.occupied: dict[str, int] = {}
        self.drained: set[str] = set()

    @rule(name=st.sampled_from("abc"), gpus=st.integers(1, 3))
    def comes_up(self, name: str, gpus: int) -> None:
        if self.up.get(name) != gpus:
            self.occupied.pop(name, None)
        self.up[name] = gpus
        self.nodes.hear(NodeUp(0.0, Node(name, gpus)))

    @rule(name=st.sampled_from("abc"))
    def goes_down(self, name: str) -> None:
        self.up.pop(name, None)
        self.occupied.pop(name, None)
        self.nodes.hear(NodeDown(0.0, name))

    @rule(name=st.sampled_from("abc"), gpus=st.integers(0, 1))
    def is_occupied(self, name: str, gpus: int) -> None:
        if name in self.up:
            self.occupied[name] = gpus
        self.nodes.hear(NodeOccupied(0.0, name, gpus))

    @rule(name=st.sampled_from("abc"))
    def is_drained(self, name: str) -> None:
        self.drained.add(name)
        self.nodes.apply(self.nodes.fleet.drain(name, 0.0))

    @rule(name=st.sampled_from("abc"))
    def is_resumed(self, name: str) -> None:
        self.drained.discard(name)
        self.nodes.apply(self.nodes.fleet.resume(name, 0.0))

    @invariant()
    def usable_is_what_is_up_and_not_drained(self) -> None:
        if hasattr(self, "nodes"):
            placer = self.nodes.placer
            usable = {n: (g, self.occupied.get(n, 0)) for n, g in self.up.items()}
            assert {n.id: (n.gpus, placer.occupied(n.id)) for n in placer.nodes()} == {
                name: facts for name, facts in usable.items() if name not in self.drained
            }


TestTalking = Talking.TestCase
TestTalking.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)

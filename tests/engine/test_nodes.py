"""Two parties speak about nodes, the backend and the operator; the state makes sense of both."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.engine.runs import ListJournal

from shockwave.engine.executor import Executor, Launch
from shockwave.engine.feed import OpenDoor
from shockwave.engine.intake import Intake
from shockwave.engine.log import Log
from shockwave.engine.retry import Retries
from shockwave.engine.state import SchedulerState
from shockwave.model.cluster import Node
from shockwave.model.events import (
    Event,
    NodeDown,
    NodeDrained,
    NodeOccupied,
    NodeResumed,
    NodeUp,
)
from shockwave.model.progress import Progressed
from shockwave.model.view import Ints
from shockwave.predict.reactive import Reactive

A, B = Node("a", 4), Node("b", 2)


class Telling(Executor):
    """A backend without jobs that tells what it is told to."""

    def __init__(self) -> None:
        self.news: list[Event] = []
        self.has: tuple[Node, ...] | None = None

    def launch(self, launches: Sequence[Launch]) -> None:
        raise AssertionError("there are no jobs")

    def stop(self, handles: Ints) -> None:
        raise AssertionError("there are no jobs")

    def poll(self, until: float) -> list[Event]:
        news, self.news = self.news, []
        return news

    def progress(self, handles: Ints | None = None) -> Progressed:
        return Progressed.nothing(0.0)

    def nodes(self) -> tuple[Node, ...] | None:
        return self.has

    def unusable(self, now: float) -> list[tuple[Node, NodeDown]]:
        return [(B, NodeDown(now, B.id, "new fans", withheld=True))]


class Nodes:
    """What the journal gets of what both say, and which nodes may be used then."""

    def __init__(self, *nodes: Node) -> None:
        self.backend = Telling()
        self.journal = ListJournal()
        self.log = Log(SchedulerState(), self.journal)
        self.intake = Intake(self.log, self.backend, OpenDoor(), Reactive(), Retries())
        for node in nodes:
            self.hear(NodeUp(0.0, node))

    @property
    def placer_nodes(self) -> dict[str, tuple[int, int]]:
        """GPUs of every node that may be used, and how many of them others hold."""
        placer = self.log.state.placer
        return {node.id: (node.gpus, placer.occupied(node.id)) for node in placer.nodes()}

    def hear(self, event: Event) -> list[Event]:
        """What is written down when the backend says this."""
        self.backend.news.append(event)
        return self._written()

    def ask(self, request: NodeDrained | NodeResumed) -> None:
        self.log.request(lambda: [request])
        self._written()

    def _written(self) -> list[Event]:
        before = len(self.journal.events)
        self.intake.collect(0.0)
        return self.journal.events[before:]


def test_what_is_known_already_is_no_news() -> None:
    nodes = Nodes(A)
    assert nodes.hear(NodeUp(1.0, A)) == []
    assert nodes.hear(NodeDown(1.0, "b")) == []
    assert nodes.hear(NodeOccupied(1.0, "b", 1)) == []
    assert nodes.hear(NodeOccupied(1.0, "a", 0)) == []
    assert nodes.hear(NodeOccupied(1.0, "a", 3)) == [NodeOccupied(1.0, "a", 3)]
    assert nodes.hear(NodeOccupied(2.0, "a", 3)) == []


def test_a_node_that_is_out_of_use_at_the_first_look_is_listed_once() -> None:
    nodes = Nodes()
    nodes.backend.has = (A,)
    out_of_use = [NodeUp(0.0, B), NodeDown(0.0, "b", "new fans", withheld=True)]
    nodes.intake.fit_nodes(0.0)
    nodes._written()
    assert nodes.journal.events == [NodeUp(0.0, A), *out_of_use]
    assert nodes.placer_nodes == {"a": (4, 0)}
    nodes.intake.fit_nodes(1.0)  # as after a restart of the scheduler
    assert len(nodes.journal.events) == 3


def test_a_node_with_another_number_of_gpus_went_down_in_between() -> None:
    nodes = Nodes(A)
    bigger = Node("a", 8)
    assert nodes.hear(NodeUp(5.0, bigger)) == [NodeDown(5.0, "a"), NodeUp(5.0, bigger)]
    assert nodes.placer_nodes == {"a": (8, 0)}


def test_a_drained_node_stays_out_although_the_backend_reports_it() -> None:
    nodes = Nodes(A, B)
    nodes.ask(NodeDrained(1.0, "a"))
    nodes.hear(NodeUp(2.0, A))
    nodes.hear(NodeDown(3.0, "a"))
    nodes.hear(NodeUp(4.0, Node("a", 6)))
    nodes.hear(NodeOccupied(4.0, "a", 5))
    assert nodes.placer_nodes == {"b": (2, 0)}
    nodes.ask(NodeResumed(5.0, "a"))
    assert nodes.placer_nodes == {"b": (2, 0), "a": (6, 5)}


def test_what_others_held_when_a_node_was_drained_they_hold_when_it_is_resumed() -> None:
    nodes = Nodes(A)
    nodes.hear(NodeOccupied(1.0, "a", 2))
    nodes.ask(NodeDrained(2.0, "a"))
    nodes.ask(NodeResumed(3.0, "a"))
    assert nodes.log.state.placer.gpus == 2
    assert nodes.placer_nodes == {"a": (4, 2)}


def test_a_node_that_is_down_is_resumed_when_it_comes_up() -> None:
    nodes = Nodes(A)
    nodes.ask(NodeDrained(1.0, "a"))
    nodes.hear(NodeDown(2.0, "a"))
    nodes.ask(NodeResumed(3.0, "a"))
    assert nodes.placer_nodes == {}
    nodes.hear(NodeUp(4.0, A))
    assert nodes.placer_nodes == {"a": (4, 0)}


def test_a_node_may_be_drained_before_it_comes_up() -> None:
    nodes = Nodes()
    nodes.ask(NodeDrained(1.0, "a"))
    nodes.hear(NodeUp(2.0, A))
    assert nodes.placer_nodes == {}
    nodes.ask(NodeResumed(3.0, "a"))
    assert nodes.placer_nodes == {"a": (4, 0)}


@pytest.mark.parametrize("drained", [frozenset("a"), frozenset()])
def test_after_a_restart_only_drained_nodes_stay_out(drained: frozenset[str]) -> None:
    nodes = Nodes(A, B)
    for name in sorted(drained):
        nodes.ask(NodeDrained(1.0, name))
    nodes.hear(NodeDown(1.0, "a"))
    nodes.hear(NodeDown(2.0, "b"))
    nodes.backend.has = (A, B)
    nodes.intake.fit_nodes(3.0)
    assert nodes.placer_nodes.keys() == {"a", "b"} - drained
    nodes.ask(NodeResumed(4.0, "a"))
    assert nodes.placer_nodes.keys() == {"a", "b"}


def test_the_nodes_of_the_backend_replace_those_of_the_journal() -> None:
    nodes = Nodes(A, B, Node("c", 1))
    before = len(nodes.journal.events)
    nodes.backend.has = (A, Node("b", 4), Node("d", 1))
    nodes.intake.fit_nodes(1.0)
    nodes.log.flush()
    changes = nodes.journal.events[before:]
    assert [type(event) for event in changes] == [NodeDown, NodeDown, NodeUp, NodeUp]
    assert nodes.placer_nodes == {"a": (4, 0), "b": (4, 0), "d": (1, 0)}


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
        self.nodes.ask(NodeDrained(0.0, name))

    @rule(name=st.sampled_from("abc"))
    def is_resumed(self, name: str) -> None:
        self.drained.discard(name)
        self.nodes.ask(NodeResumed(0.0, name))

    @invariant()
    def usable_is_what_is_up_and_not_drained(self) -> None:
        if hasattr(self, "nodes"):
            usable = {n: (g, self.occupied.get(n, 0)) for n, g in self.up.items()}
            assert self.nodes.placer_nodes == {
                name: facts for name, facts in usable.items() if name not in self.drained
            }


TestTalking = Talking.TestCase
TestTalking.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)

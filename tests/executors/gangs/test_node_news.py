"""What is told of nodes, and what is not."""

from __future__ import annotations

from dataclasses import replace

from shockwave.executors.gangs.nodes import Health, NodeNews, SeenNode
from shockwave.model.cluster import Node
from shockwave.model.events import NodeDown, NodeOccupied, NodeUp

NODE = Node("n0", 4, "v100")
IDLE = SeenNode(NODE, "n0")
UNSURE = replace(IDLE, health=Health.UNCLEAR)  # its controller has just come back


def held(gpus: int, *, settled: bool = True) -> SeenNode:
    return replace(IDLE, occupied=gpus, settled=settled)


def test_a_node_is_told_once() -> None:
    news = NodeNews()
    assert news.tell([IDLE], 1.0) == [NodeUp(1.0, NODE)]
    assert news.tell([IDLE], 2.0) == []


def test_nodes_that_were_asked_for_are_told() -> None:
    news = NodeNews()
    assert news.begin([IDLE]) == (NODE,)
    assert news.tell([IDLE], 1.0) == []
    assert news.tell([], 2.0) == [NodeDown(2.0, "n0")]


def test_a_node_that_the_backend_is_not_sure_of_stays_what_it_was() -> None:
    news = NodeNews()
    assert news.tell([UNSURE], 1.0) == []
    assert news.begin([UNSURE]) is None
    news.tell([IDLE], 2.0)
    assert news.tell([UNSURE], 3.0) == []
    assert news.begin([UNSURE]) == (NODE,)


def test_a_node_that_is_down_or_withheld_or_not_there_any_more_is_gone() -> None:
    down, withheld = (
        replace(IDLE, health=health, reason="new fans") for health in (Health.DOWN, Health.WITHHELD)
    )
    for later, told in (
        ([down], NodeDown(2.0, "n0", "new fans")),
        ([withheld], NodeDown(2.0, "n0", "new fans", withheld=True)),
        ([], NodeDown(2.0, "n0")),
    ):
        news = NodeNews()
        news.tell([IDLE], 1.0)
        assert news.tell(later, 2.0) == [told]
        assert news.begin(later) == ()
        assert news.tell([IDLE], 3.0) == [NodeUp(3.0, NODE)]


def test_a_node_with_other_gpus_is_another_node_and_so_is_one_that_was_restarted() -> None:
    more = Node("n0", 8, "v100")
    for now in (replace(IDLE, node=more), replace(IDLE, incarnation="second")):
        news = NodeNews()
        news.tell([IDLE], 1.0)
        assert news.tell([now], 2.0) == [NodeDown(2.0, "n0"), NodeUp(2.0, now.node)]


def test_what_others_hold_is_told_when_it_changes_and_again_when_the_node_is_back() -> None:
    news = NodeNews()
    assert news.tell([held(3)], 1.0)[1:] == [NodeOccupied(1.0, "n0", 3)]
    assert news.tell([held(3)], 2.0) == []
    assert news.tell([held(0)], 3.0) == [NodeOccupied(3.0, "n0", 0)]
    news.tell([held(2)], 4.0)
    news.tell([], 5.0)
    assert news.tell([held(2)], 6.0)[1:] == [NodeOccupied(6.0, "n0", 2)]


def test_gpus_that_may_turn_out_to_be_ours_are_not_told_as_taken() -> None:
    news = NodeNews()
    news.tell([held(2)], 1.0)
    assert news.tell([held(3, settled=False)], 2.0) == []
    assert news.tell([held(1, settled=False)], 3.0) == [NodeOccupied(3.0, "n0", 1)]


def test_whether_a_node_is_contested_is_told_when_it_changes() -> None:
    news = NodeNews()
    news.tell([IDLE], 1.0)
    contested = replace(IDLE, contested=True)
    assert news.tell([contested], 2.0) == [NodeOccupied(2.0, "n0", 0, contested=True)]
    assert news.tell([contested], 3.0) == []
    assert news.tell([IDLE], 4.0) == [NodeOccupied(4.0, "n0", 0)]

"""What is told of nodes, and what is not."""

from __future__ import annotations

from dataclasses import replace

from shockwave.executors.slurm.news import NodeNews
from shockwave.executors.slurm.nodes import SlurmNode
from shockwave.model.cluster import Node
from shockwave.model.events import NodeDown, NodeOccupied, NodeUp

IDLE = SlurmNode("n0", "n0", "IDLE", 4, "v100", 0, frozenset(), frozenset(), "")
NODE = Node("n0", 4, "v100")


def test_a_node_is_told_once() -> None:
    news = NodeNews()
    assert news.tell([IDLE], {}, 1.0) == [NodeUp(1.0, NODE)]
    assert news.tell([IDLE], {}, 2.0) == []


def test_a_node_that_slurm_is_not_sure_of_stays_what_it_was() -> None:
    unsure = replace(IDLE, state="UNKNOWN")  # its controller has just come back
    news = NodeNews()
    assert news.tell([unsure], {}, 1.0) == []
    assert news.known([unsure]) is None
    news.tell([IDLE], {}, 2.0)
    assert news.tell([unsure], {}, 3.0) == []
    assert news.known([unsure]) == (NODE,)


def test_a_node_that_is_down_or_not_there_any_more_is_gone() -> None:
    for later in ([replace(IDLE, state="DOWN")], [replace(IDLE, state="IDLE+DRAIN")], []):
        news = NodeNews()
        news.tell([IDLE], {}, 1.0)
        assert news.tell(later, {}, 2.0) == [NodeDown(2.0, "n0")]
        assert news.known(later) == ()
        assert news.tell([IDLE], {}, 3.0) == [NodeUp(3.0, NODE)]


def test_a_node_with_other_gpus_is_another_node() -> None:
    news = NodeNews()
    news.tell([IDLE], {}, 1.0)
    more = replace(IDLE, gpus=8)
    assert news.tell([more], {}, 2.0) == [NodeDown(2.0, "n0"), NodeUp(2.0, Node("n0", 8, "v100"))]


def test_what_others_hold_is_told_when_it_changes_and_again_when_the_node_is_back() -> None:
    news = NodeNews()
    assert news.tell([IDLE], {"n0": 3}, 1.0)[1:] == [NodeOccupied(1.0, "n0", 3)]
    assert news.tell([IDLE], {"n0": 3}, 2.0) == []
    assert news.tell([IDLE], {"n0": 0}, 3.0) == [NodeOccupied(3.0, "n0", 0)]
    news.tell([IDLE], {"n0": 2}, 4.0)
    news.tell([], {}, 5.0)
    assert news.tell([IDLE], {"n0": 2}, 6.0)[1:] == [NodeOccupied(6.0, "n0", 2)]

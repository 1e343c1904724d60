"""What people see of the journal, and what time it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from shockwave.engine.table import JobTable
from shockwave.model.cluster import Node
from shockwave.model.events import (
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeDown,
    NodeDrained,
    NodeOccupied,
    NodeUp,
    RoundDecided,
    StopReason,
)
from shockwave.model.job import JobSpec
from shockwave.model.progress import Progressed
from shockwave.policies.base import Decision
from shockwave.policies.las import Las
from shockwave.predict.reactive import Reactive
from shockwave.server.archive import Archive
from shockwave.server.board import Board
from shockwave.server.clock import Interrupted, RealClock
from shockwave.server.projection import Projection
from shockwave.server.records import JobRecord
from shockwave.server.store import Store

ORIGIN = 1_000_000.0


def spec(number: int, arrival: float = 0.0) -> JobSpec:
    return JobSpec(f"j-{number}", arrival, 1, 10, (32, 64), (2.0, 1.0))


@pytest.fixture
def board_of(tmp_path: Path) -> Iterator[Callable[[int], Board]]:
    """A board on which so many jobs were submitted."""
    with closing(Store(f"sqlite:///{tmp_path / 'x.db'}", Archive(tmp_path / "archive"))) as store:

        def make(count: int) -> Board:
            board = Board(Projection(ORIGIN), store)
            if count:
                board.write([JobSubmitted(0.0, spec(number)) for number in range(1, count + 1)])
            return board

        yield make


def everything(board: Board) -> dict[str, JobRecord]:
    return {record.id: record for record in board.page([], None, None, 10**9)[0]}


def progressed(
    time: float, handle: int, *, epochs_done: float, productive: float, held: float
) -> Progressed:
    ints = np.array([handle]), np.array([0])
    floats = (np.array([value]) for value in (epochs_done, np.nan, productive, held))
    epochs, epoch_seconds, worked, all_seconds = floats
    return Progressed(time, ints[0], epochs, ints[1], epoch_seconds, worked, all_seconds)


def started(job: str, attempt: int = 1, slot: int = 0) -> JobStarted:
    return JobStarted(10.0, job, (("n0", (slot,)),), attempt)


def test_an_event_makes_one_record_anew_and_leaves_the_others(
    board_of: Callable[[int], Board],
) -> None:
    board = board_of(500)
    before = everything(board)
    board.write([started("j-7")])
    after = everything(board)
    assert [job for job in before if before[job] is not after[job]] == ["j-7"]
    assert after["j-7"].state == "running"
    assert after["j-7"].started == ORIGIN + 10.0
    assert after["j-7"].nodes == ["n0"]


def test_the_life_of_a_job_is_counted(board_of: Callable[[int], Board]) -> None:
    board = board_of(2)
    board.write(
        [
            RoundDecided(10.0, 1, 1, 2, 1, 1, 1, 0, 0.0),
            started("j-1"),
            progressed(20.0, 0, epochs_done=3.0, productive=6.0, held=10.0),
            JobStopped(20.0, "j-1", 3.0, StopReason.PREEMPTED),
            RoundDecided(20.0, 2, 1, 2, 1, 1, 1, 0, 0.0),
            started("j-1", 2),
            JobStopped(25.0, "j-1", 3.0, StopReason.CRASHED, "rank 0 exited with code 1\nboom"),
        ],
    )
    waiting = everything(board)["j-1"]
    assert (waiting.starts, waiting.crashes, waiting.preemptions) == (2, 1, 1)
    assert (waiting.epochs_done, waiting.configuration) == (3.0, 32)
    assert "crashed (rank 0 exited with code 1)" in waiting.why.reason
    assert waiting.why.last_log_lines == ["boom"]
    assert board.tenants()[0].gpu_seconds == 10.0
    board.write([started("j-1", 3), JobFinished(60.0, "j-1", 20.0)])
    done = everything(board)["j-1"]
    assert done.finished == ORIGIN + 60.0
    assert done.epochs_done == 10
    assert done.why.ftf == pytest.approx(60.0 / (20.0 * 2))  # two jobs on one GPU


def test_a_decision_is_told_for_every_job_in_it(board_of: Callable[[int], Board]) -> None:
    board = board_of(3)
    table = JobTable()
    for number in (1, 2, 3):
        table.submit(spec(number))
    view = table.view(
        np.arange(3),
        now=100.0,
        round_index=10,
        gpus_total=1,
        round_seconds=10.0,
        restart_seconds=1.0,
        changed=True,
    )
    forecast = Reactive().forecast(view)
    decision = Las().decide(view, forecast)
    board.decided(view, forecast, decision)
    before = everything(board)
    assert len(decision.run) == 1
    assert any(record.why.reason.startswith("waits: ") for record in before.values())
    assert all(record.why.ftf is not None for record in before.values())
    board.decided(view, forecast, Decision(run=np.arange(0)))
    assert all(everything(board)[job] is not before[job] for job in before)


def test_nodes_are_up_down_or_drained(board_of: Callable[[int], Board]) -> None:
    board = board_of(1)
    board.write([NodeUp(0.0, Node("n0", 2)), NodeUp(0.0, Node("n1", 2)), started("j-1")])
    assert [(node.id, node.gpus_busy, node.state) for node in board.nodes()] == [
        ("n0", 1, "up"),
        ("n1", 0, "up"),
    ]
    board.write([NodeOccupied(0.5, "n1", 2), NodeOccupied(0.5, "n9", 1)])
    assert [node.gpus_others for node in board.nodes()] == [0, 2]
    board.write([NodeDown(1.0, "n0"), NodeDown(1.0, "n1")])
    assert [node.gpus_others for node in board.nodes()] == [0, 0]
    assert board.gpus_known() == {"gpu": 4}
    board.write([NodeDrained(2.0, "n1")])
    assert [node.state for node in board.nodes()] == ["down", "drained"]


def test_rounds_come_in_order_after_a_number(board_of: Callable[[int], Board]) -> None:
    board = board_of(0)
    board.write([RoundDecided(float(n), n, 1, 0, 0, 1, 0, 0, 0.0) for n in range(5, 12)])
    assert [record.round for record in board.rounds(after=6, limit=3)] == [7, 8, 9]
    assert [record.round for record in board.rounds(after=-1, limit=2)] == [5, 6]
    assert board.rounds(after=11, limit=5) == []


def test_time_goes_on_although_the_wall_clock_was_set_back() -> None:
    monotonic = 50.0
    clock = RealClock(
        1000.0, not_before=400.0, unix_time=lambda: 1100.0, monotonic=lambda: monotonic
    )
    assert clock.now() == 400.0
    monotonic = 53.0
    assert clock.wait_until(402.0) == 403.0
    clock.interrupt()
    with pytest.raises(Interrupted):
        clock.wait_until(0.0)

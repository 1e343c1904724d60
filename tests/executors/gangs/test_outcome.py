"""Whose fault an end is, from what the supervisors wrote down."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.outcome import Ending, Outcome, judge
from shockwave.protocol.records import ExitRecord

KILLED, TERMINATED, SEGMENTATION = -signal.SIGKILL, -signal.SIGTERM, -signal.SIGSEGV


def ended(folder: JobFolder, *parts: ExitRecord) -> Outcome:
    folder.create()
    for part, record in enumerate(parts):
        record.write(folder.exit_file(1, part))
    return judge(folder, 1, "epoch", parts=len(parts), adopted=False).outcome


@pytest.mark.parametrize(
    ("record", "outcome"),
    [
        (ExitRecord(1, "n0", 1.0, [0, 0]), Outcome.FINISHED),
        (ExitRecord(1, "n0", 1.0, [0, 3], {1: 3}), Outcome.CRASHED),
        (ExitRecord(1, "n0", 1.0, [KILLED], {0: KILLED}), Outcome.KILLED),
        (ExitRecord(1, "n0", 1.0, [TERMINATED], {0: TERMINATED}), Outcome.KILLED),
        (ExitRecord(1, "n0", 1.0, [SEGMENTATION], {0: SEGMENTATION}), Outcome.CRASHED),
        # The supervisor has killed the second one itself, because the first one failed.
        (ExitRecord(1, "n0", 1.0, [3, KILLED], {0: 3}), Outcome.CRASHED),
        (ExitRecord(1, "n0", 1.0, [1, KILLED], {0: 1, 1: KILLED}), Outcome.KILLED),
        (ExitRecord(1, "n0", 1.0, [KILLED], {0: KILLED}, out_of_memory=True), Outcome.CRASHED),
        (ExitRecord(1, "n0", 1.0, unwatched="killed by signal 9"), Outcome.KILLED),
        (ExitRecord(1, "n0", 1.0, error="no such program"), Outcome.CRASHED),
        (ExitRecord(1, "n0", 1.0, [KILLED], asked=True, killed=True), Outcome.STOPPED),
    ],
)
def test_only_a_fault_of_its_own_is_a_crash(
    tmp_path: Path, record: ExitRecord, outcome: Outcome
) -> None:
    assert ended(JobFolder(tmp_path), record) is outcome


def test_a_rank_that_was_killed_on_one_node_explains_what_failed_on_the_others(
    tmp_path: Path,
) -> None:
    lost_its_peer = ExitRecord(1, "n0", 1.0, [1], {0: 1})
    killed = ExitRecord(1, "n1", 2.0, [KILLED], {1: KILLED})
    assert ended(JobFolder(tmp_path), lost_its_peer, killed) is Outcome.KILLED


def test_what_is_withdrawn_in_the_moment_of_its_start_was_not_stopped_by_others(
    tmp_path: Path,
) -> None:
    """It never had a rank; why it was taken back, and for how long it waits, is known."""
    folder = JobFolder(tmp_path)
    folder.create()
    ExitRecord(1, "n0", 7.0, asked=True).write(folder.exit_file(1, 0))
    withdrawn = Ending(Outcome.KILLED, "Slurm did not start it in 20 s", back_off_seconds=20.0)
    ending = judge(folder, 1, None, adopted=False, fate=withdrawn)
    assert ending == replace(withdrawn, time=7.0)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"generation": 1, "ended": "late"}'])
def test_a_record_that_makes_no_sense_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "exit-1-0.json").write_text(text)
    assert JobFolder(tmp_path).exit_record(1) is None

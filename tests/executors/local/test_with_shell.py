"""A job needs no library of ours: the one in plain shell speaks the protocol."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.executors.local import harness

from shockwave.executors.gangs.folder import JobFolder
from shockwave.model.command import Command
from shockwave.model.events import JobStopped
from shockwave.protocol.lease import Lease
from shockwave.protocol.reports import Report, ReportReader

JOB = Path(__file__).resolve().parents[3] / "examples" / "plain_shell_job.sh"
EPOCHS = 6


def command(tmp_path: Path) -> Command:
    return Command(("sh", str(JOB), str(EPOCHS)), str(tmp_path), {"SECONDS_PER_EPOCH": "0.4"})


def said(folder: JobFolder, generation: int) -> list[Report]:
    return list(ReportReader(folder.reports(generation)).new())


def test_a_job_in_plain_shell_is_preempted_resumed_and_does_exactly_its_epochs(
    tmp_path: Path,
) -> None:
    folder = JobFolder.of(tmp_path / "root", "a")
    with harness.executor(tmp_path / "root", {"a": command(tmp_path)}) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", slots=(0, 1), epochs=EPOCHS)])
        watch.until(lambda: watch.epochs(0) >= 2)
        executor.stop(np.array([0]))
        watch.until(lambda: folder.exit_record(1) is not None)
        assert said(folder, 1)[-1].event == "stopped"
        watch.launch([harness.order("a", slots=(0, 1), attempt=2, epochs=EPOCHS)])
        watch.until_finished([harness.spec("a")])
        assert executor.log("a").read_text().endswith("91\n")  # 1 + 4 + 9 + 16 + 25 + 36
    assert not watch.of(JobStopped)
    trained = [r.epoch for g in (1, 2) for r in said(folder, g) if r.event == "epoch"]
    assert trained == list(range(1, EPOCHS + 1)), "every epoch once"
    assert folder.saved_epochs() == EPOCHS


def test_a_launch_in_plain_shell_that_was_replaced_saves_nothing(tmp_path: Path) -> None:
    folder = JobFolder.of(tmp_path / "root", "a")
    with harness.executor(tmp_path / "root", {"a": command(tmp_path)}) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", epochs=EPOCHS)])
        watch.until(lambda: watch.epochs(0) >= 1)
        folder.write_lease(Lease(2))
        watch.until(lambda: bool(watch.of(JobStopped)))
    last = said(folder, 1)[-1]
    assert last.event != "stopped"
    assert folder.saved_epochs() == last.epoch

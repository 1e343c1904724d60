"""The examples under a real scheduler: exactly their epochs, and losses that go on."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live.schedulers import JOB, Scheduler, kill_process, reports

from shockwave.measure import fold_history
from shockwave.model.events import JobStopped, StopReason


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Scheduler]:
    scheduler = Scheduler(tmp_path, policy="gavel", round_seconds=2.0)
    try:
        yield scheduler
    finally:
        scheduler.stop()
        for pid in scheduler.rank_processes():
            kill_process(pid)


def test_preempted_jobs_end_as_if_they_had_run_alone(scheduler: Scheduler, tmp_path: Path) -> None:
    scheduler.start()
    for number in range(8):
        scheduler.submit(f"job-{number}", 10, epoch_seconds=0.6)
    jobs = scheduler.wait_until_done()
    scheduler.stop()
    events = scheduler.events()
    stops = [e for e in events if isinstance(e, JobStopped)]
    assert sum(stop.reason is StopReason.PREEMPTED for stop in stops) >= len(jobs)
    assert not any(stop.reason is StopReason.CRASHED for stop in stops)
    for job in jobs:
        assert job["state"] == "finished"
        said = [line for lines in reports(scheduler.folder(job["id"])).values() for line in lines]
        losses = [line["loss"] for line in said if line["event"] == "epoch"]
        assert len(losses) == 10, "no epoch is trained twice, none is left out"
        assert losses == alone(job["name"].rsplit("-", 1)[-1], tmp_path)
    assert fold_history(events).jobs.finished.all()


def alone(seed: str, folder: Path) -> list[float]:
    """The losses of the same job without a scheduler and without a break."""
    script = (
        "import runpy, sys, json\n"
        "from shockwave.train import session\n"
        f"job = runpy.run_path({str(JOB)!r})\n"
        f"with session({str(folder / f'alone-{seed}')!r}, epochs=10, batch_size=32) as me:\n"
        f"    job['train'](me, 10, {seed}, 0.0)\n"
        "    print(json.dumps([r['loss'] for r in me.reports if r['event'] == 'epoch']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    losses: list[float] = json.loads(re.findall(r"^\[.*\]$", done.stdout, re.MULTILINE)[-1])
    return losses

"""Nothing is lost: the scheduler, jobs and a checkpoint are killed while a dozen jobs run."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live.audit import audit
from tests.live.schedulers import Scheduler, kill_process, wait_for

from shockwave.model.events import JobStopped, StopReason


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Scheduler]:
    scheduler = Scheduler(tmp_path, policy="gavel")  # time-sharing: preempts all the time
    try:
        yield scheduler
    finally:
        scheduler.stop()
        for pid in scheduler.rank_processes():
            kill_process(pid)


def damage_a_checkpoint(scheduler: Scheduler) -> str:
    """Flips a byte in the newest checkpoint of a job that has two; returns the job."""

    def damage() -> str | None:
        for job in scheduler.jobs():
            if job["state"] in ("waiting", "running"):
                saved = sorted((scheduler.folder(job["id"]) / "checkpoints").glob("ckpt-*"))
                with contextlib.suppress(FileNotFoundError):  # the job saves meanwhile
                    if len(saved) >= 2:
                        newest = max(saved, key=lambda path: path.stat().st_mtime_ns)
                        content = bytearray(newest.read_bytes())
                        content[len(content) // 2] ^= 0xFF
                        newest.write_bytes(content)
                        return str(job["id"])
        return None

    damaged: str = wait_for(damage, "a job with two checkpoints")
    return damaged


def test_everything_completes_although_everything_is_killed(scheduler: Scheduler) -> None:
    rng = random.Random(7)
    epochs = {f"job-{number}": 8 + 3 * (number % 5) for number in range(12)}
    scheduler.start()
    for number, (name, count) in enumerate(epochs.items()):
        scheduler.submit(name, count, gpus=2 if number % 4 == 0 else 1)
    damaged = ""
    for strike in range(5):
        time.sleep(rng.uniform(1.0, 4.0))
        # However fast the machine is, there is somebody left to hit.
        epochs[f"job-{len(epochs)}"] = 20
        scheduler.submit(f"job-{len(epochs) - 1}", 20)
        running = wait_for(scheduler.rank_processes, "a job to run")
        kill_process(rng.choice(running))
        if strike == 2:
            damaged = damage_a_checkpoint(scheduler)
        time.sleep(rng.uniform(0.0, 2.0))
        scheduler.kill()
        time.sleep(rng.uniform(0.0, 1.0))
        scheduler.start()
    jobs = scheduler.wait_until_done()
    scheduler.stop()
    events = audit(scheduler, jobs, epochs, damaged=damaged)
    stops = [event for event in events if isinstance(event, JobStopped)]
    assert any(stop.reason is StopReason.KILLED for stop in stops)
    crashed = [stop.detail for stop in stops if stop.reason is StopReason.CRASHED]
    assert not crashed, "who is killed by others has not crashed"

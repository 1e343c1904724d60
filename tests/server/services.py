"""Live schedulers for tests: short rounds, tiny jobs, a state directory of their own."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from shockwave.cli.journals import open_store
from shockwave.model.events import Event
from shockwave.server.check import differences
from shockwave.server.config import ServeConfig, load_config
from shockwave.server.records import JobRecord, Submission
from shockwave.server.service import Service
from shockwave.server.snapshots import Snapshots

TINY_JOB = Path(__file__).with_name("tiny_job.py")
_PATIENCE_SECONDS = 90.0  # how long a test waits for what must happen


def config(state_dir: Path, **settings: Any) -> ServeConfig:
    quick = {
        "state_dir": state_dir,
        "slots": 2,
        "policy": "las",
        "round_seconds": 0.25,
        "restart_seconds": 0.05,
        "grace_seconds": 20.0,
        "first_back_off_seconds": 0.0,
    }
    return load_config(flags=quick | settings, environment={}).config


def slow(state_dir: Path, **settings: Any) -> ServeConfig:
    """Rounds so long that nothing is decided while a test looks."""
    return config(state_dir, **({"round_seconds": 3600.0, "starts": "rounds"} | settings))


@contextmanager
def running(settings: ServeConfig, **options: Any) -> Iterator[Service]:
    service = Service(settings, **options)
    service.start()
    try:
        yield service
    finally:
        service.stop()


def tiny(epochs: int = 2, seconds: float = 0.05, crash_at: int = -1, **fields: Any) -> Submission:
    command = [sys.executable, "-I", "-S", str(TINY_JOB), str(epochs), str(seconds), str(crash_at)]
    return Submission(command=command, epochs=epochs, workdir="/", **fields)


def submit(service: Service, submission: Submission) -> str:
    return service.desk.submit(submission, None)[0].id


def all_jobs(service: Service) -> list[JobRecord]:
    return service.desk.jobs(states=[], tenant=None, after=None, limit=1_000_000)[0]


def known(service: Service, job: str) -> JobRecord:
    record = service.desk.job(job)
    assert record is not None
    return record


def journal(state_dir: Path) -> list[Event]:
    """What a scheduler has written so far; it may be running."""
    with closing(open_store(str(state_dir))) as store:
        return [event for _, event in store.events()]


def simply_die(service: Service) -> None:
    """As SIGKILL would, short of ending the test: nothing is written or told any more."""
    service._notifications.stop()
    service._clock.interrupt()
    service._thread.join()
    service._recovery.release(stop_jobs=False)
    service._store.close()
    service._lock.release()


def check(state_dir: Path) -> list[str]:
    """What is not as the journal says; empty if all is well."""
    with closing(open_store(str(state_dir))) as store:
        snapshots = Snapshots(state_dir / "snapshots", store)
        return list(differences(store, snapshots, store.started_unix()))


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.02)

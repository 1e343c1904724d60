"""The journal is the truth: whatever kills the scheduler, the next one goes on from it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.server.services import (
    all_jobs,
    check,
    config,
    journal,
    known,
    running,
    simply_die,
    slow,
    submit,
    tiny,
    wait_for,
)

from shockwave.model.events import (
    Event,
    JobCancelled,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
)
from shockwave.model.progress import Progressed
from shockwave.protocol.paths import JobPaths
from shockwave.server.service import Service

ROOT = Path(__file__).resolve().parents[2]
EPOCHS = 8


@contextmanager
def scheduler_process(state_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """Yields when it schedules; kills it, if the test has not."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.server.serve_process", str(state_dir)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def finished(state_dir: Path) -> int:
    return sum(isinstance(event, JobFinished) for event in journal(state_dir))


def test_a_scheduler_that_is_killed_loses_no_job_and_counts_no_epoch_twice(
    tmp_path: Path,
) -> None:
    with running(slow(tmp_path)) as service:
        jobs = [submit(service, tiny(EPOCHS, 0.25)) for _ in range(4)]
    rng = random.Random(4)
    for _ in range(3):
        with scheduler_process(tmp_path) as process:
            seen = len(journal(tmp_path)) + rng.randrange(12)
            wait_for(
                lambda seen=seen: len(journal(tmp_path)) >= seen or finished(tmp_path) == len(jobs),  # type: ignore[misc]
                "more events",
            )
            time.sleep(rng.uniform(0.0, 0.2))
            process.kill()
    with scheduler_process(tmp_path):
        wait_for(lambda: finished(tmp_path) == len(jobs), "the jobs")

    events = journal(tmp_path)
    check_that_no_gpu_was_given_twice(events)
    for job in jobs:
        folder = JobPaths.of(tmp_path, job).path
        assert not (folder / "ran-twice").exists()
        ran = [int(line.split()[1]) for line in (folder / "epochs.log").read_text().splitlines()]
        assert ran == list(range(1, EPOCHS + 1))
        starts = [e.attempt for e in events if isinstance(e, JobStarted) and e.job == job]
        assert starts == list(range(1, len(starts) + 1))
        done = progress_of(events, job)
        assert done == sorted(done)
        assert done[-1] == EPOCHS
    assert check(tmp_path) == []


def progress_of(events: list[Event], job: str) -> list[float]:
    """What was told of its epochs, in order."""
    submitted = [event.job.id for event in events if isinstance(event, JobSubmitted)]
    handle = submitted.index(job)
    progress = [event for event in events if isinstance(event, Progressed)]
    return [float(done) for e in progress for done in e.epochs_done[e.handle == handle]]


def check_that_no_gpu_was_given_twice(events: list[Event]) -> None:
    held: dict[str, set[tuple[str, int]]] = {}
    for event in events:
        match event:
            case JobStarted():
                slots = {(node, slot) for node, numbers in event.placement for slot in numbers}
                assert not slots & set().union(*held.values())
                held[event.job] = slots
            case JobStopped() | JobFinished() | JobCancelled():
                held.pop(event.job, None)


def test_a_running_job_is_adopted_without_a_restart(tmp_path: Path) -> None:
    service = Service(config(tmp_path))
    service.start()
    job = submit(service, tiny(epochs=30, seconds=0.1))
    wait_for(lambda: known(service, job).epochs_done > 0, "some progress")
    simply_die(service)
    with running(config(tmp_path)) as again:
        wait_for(lambda: known(again, job).state == "finished", "the end")
        record = known(again, job)
        assert (record.starts, record.crashes, record.preemptions) == (1, 0, 0)
        assert len(all_jobs(again)) == 1


def test_what_was_asked_before_the_crash_is_done_after_it(tmp_path: Path) -> None:
    """No round has seen any of it: the journal remembers."""
    service = Service(slow(tmp_path, gpus_per_node=1))
    service.start()
    kept, unwanted = submit(service, tiny(name="kept")), submit(service, tiny(name="unwanted"))
    service.desk.cancel(unwanted)
    service.desk.drain("n1", resume=False)
    simply_die(service)

    with running(config(tmp_path, gpus_per_node=1)) as again:
        wait_for(lambda: known(again, kept).state == "finished", "the job")
        wait_for(lambda: known(again, unwanted).state == "cancelled", "the cancellation")
        assert [node.state for node in again.desk.nodes()] == ["up", "drained"]
    starts = [event for event in journal(tmp_path) if isinstance(event, JobStarted)]
    assert [(start.job, start.placement[0][0]) for start in starts] == [(kept, "n0")]


def test_a_drained_node_stays_drained_until_it_is_resumed(tmp_path: Path) -> None:
    settings = config(tmp_path, gpus_per_node=1)
    with running(settings) as service:
        service.desk.drain("n1", resume=False)
    with running(settings) as service:
        assert [node.state for node in service.desk.nodes()] == ["up", "drained"]
        wide = submit(service, tiny(gpus=2))
        small = submit(service, tiny())
        wait_for(lambda: known(service, small).state == "finished", "a job on the other node")
        assert known(service, wide).starts == 0
        service.desk.drain("n1", resume=True)
        assert service.desk.nodes()[1].state == "up"
        wait_for(lambda: known(service, wide).state == "finished", "a job on both nodes")


def test_the_cluster_may_change_between_two_starts(tmp_path: Path) -> None:
    service = Service(config(tmp_path, slots=1))
    service.start()
    job = submit(service, tiny(epochs=20, seconds=0.1))
    wait_for(lambda: known(service, job).epochs_done > 0, "some progress")
    simply_die(service)
    with running(config(tmp_path, slots=3)) as again:
        assert [node.gpus for node in again.desk.nodes()] == [3]
        gang = submit(again, tiny(gpus=3))
        wait_for(lambda: known(again, gang).state == "finished", "the gang")
        wait_for(lambda: known(again, job).state == "finished", "the job")
        assert known(again, job).preemptions >= 1
        epochs = JobPaths.of(tmp_path, job).path / "epochs.log"
        assert len(epochs.read_text().splitlines()) == 20

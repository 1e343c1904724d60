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
    config,
    known,
    running,
    slow,
    submit,
    tiny,
    wait_for,
)

from shockwave.executors.gangs.folder import JobFolder
from shockwave.model.events import (
    Event,
    JobCancelled,
    JobFinished,
    JobProgressed,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeDown,
    NodeUp,
)
from shockwave.server.service import Service
from shockwave.server.store import Store
from shockwave.server.submissions import new_job_id

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


def journal(state_dir: Path) -> list[Event]:
    store = Store(f"sqlite:///{state_dir / 'shockwave.db'}", only_read=True)
    try:
        return [event for _, event in store.events()]
    finally:
        store.close()


def finished(state_dir: Path) -> int:
    return sum(isinstance(event, JobFinished) for event in journal(state_dir))


def simply_die(service: Service) -> None:
    """As SIGKILL would, short of ending the test: nothing is written or told any more."""
    service._clock.interrupt()
    service._thread.join()
    service._recovery.release(stop_jobs=False)
    service._store.close()
    service._lock.release()


def test_a_scheduler_that_is_killed_loses_no_job_and_counts_no_epoch_twice(
    tmp_path: Path,
) -> None:
    store = Store(f"sqlite:///{tmp_path / 'shockwave.db'}")
    origin = store.origin_unix(time.time() - 10.0)
    jobs = [
        store.add_job(tiny(EPOCHS, 0.25).model_dump_json(), origin + i, None, new_job_id)[0].id
        for i in range(4)
    ]
    store.close()
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
        folder = JobFolder.of(tmp_path, job).path
        assert not (folder / "ran-twice").exists()
        ran = [int(line.split()[1]) for line in (folder / "epochs.log").read_text().splitlines()]
        assert ran == list(range(1, EPOCHS + 1))
        starts = [e.attempt for e in events if isinstance(e, JobStarted) and e.job == job]
        assert starts == list(range(1, len(starts) + 1))
        done = [e.epochs_done for e in events if isinstance(e, JobProgressed) and e.job == job]
        assert done == sorted(done)
        assert done[-1] == EPOCHS


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
    """Nothing of this has reached the journal: the store remembers it."""
    service = Service(slow(tmp_path, gpus_per_node=1))
    service.start()
    kept, unwanted = submit(service, tiny(name="kept")), submit(service, tiny(name="unwanted"))
    service.desk.cancel(unwanted)
    service.desk.drain("n1", resume=False)
    simply_die(service)
    assert not any(isinstance(event, JobSubmitted) for event in journal(tmp_path))

    again = Service(slow(tmp_path, gpus_per_node=1))
    again.start()
    assert "being cancelled" in known(again, unwanted).why.reason
    simply_die(again)
    loop = again._loop
    assert [spec.id for spec in again._inbox.due(float("inf"))] == [kept, unwanted]
    assert len(again._inbox.requests()) == 2
    assert loop.state.placer.gpus == 2  # the drain waits for the first round


def test_a_drained_node_stays_drained_until_it_is_resumed(tmp_path: Path) -> None:
    settings = config(tmp_path, gpus_per_node=1)
    with running(settings) as service:
        service.desk.drain("n1", resume=False)
        wait_for(lambda: any(isinstance(e, NodeDown) for e in journal(tmp_path)), "the drain")
    with running(settings) as service:
        assert [node.state for node in service.desk.nodes()] == ["up", "drained"]
        assert service._loop.state.placer.gpus == 1
        service.desk.drain("n1", resume=True)
        wait_for(lambda: any(isinstance(e, NodeUp) for e in journal(tmp_path)), "the return")
        wait_for(lambda: service.desk.nodes()[1].state == "up", "the node")


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
        epochs = JobFolder.of(tmp_path, job).path / "epochs.log"
        assert len(epochs.read_text().splitlines()) == 20

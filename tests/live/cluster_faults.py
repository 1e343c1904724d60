"""A dozen jobs on a cluster of which everything is killed once: for every backend the same."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tests.live.audit import audit
from tests.live.schedulers import Scheduler, kill_process, wait_for

from shockwave.model.events import Event, JobFinished, JobStopped, NodeDown, NodeUp, StopReason

EPOCHS = {f"job-{number}": 12 + 4 * (number % 5) for number in range(12)}
MANY_EPOCHS = 10  # left: enough for a loss to be noticed before the job ends
ROUND_SECONDS = 4.0


class Cluster(Protocol):
    """What a test can do to a cluster of either backend."""

    def kill_node(self, name: str, *, with_jobs: bool) -> None: ...

    def start_node(self, name: str) -> None: ...

    def kill_controller(self) -> None: ...

    def start_controller(self) -> None: ...


def everything_is_killed_once(
    cluster: Cluster,
    folder: Path,
    *,
    where: Sequence[str],
    environment: Mapping[str, str] | None = None,
    with_jobs: bool,
) -> None:
    """A node, the backend's controller and the scheduler, while a dozen jobs run.

    ``where`` are the flags of ``serve`` that lead to the cluster. If the node is not lost
    ``with_jobs``, it only looks lost: a second copy of each lives on.
    """
    scheduler = Scheduler(
        folder,
        policy="shockwave",
        round_seconds=ROUND_SECONDS,
        where=where,
        environment=environment,
    )
    epochs = dict(EPOCHS)
    try:
        scheduler.start()
        for number, (name, count) in enumerate(epochs.items()):
            scheduler.submit(name, count, gpus=2 if number % 4 == 0 else 1, epoch_seconds=1.0)
        lost = _lose_a_node(scheduler, cluster, epochs, with_jobs=with_jobs)
        cluster.kill_controller()
        time.sleep(1.5 * ROUND_SECONDS)  # the outage lasts for more than a round
        cluster.start_controller()
        cluster.start_node(lost)
        _wait_for_node(scheduler, lost)
        scheduler.kill()
        time.sleep(0.5 * ROUND_SECONDS)
        scheduler.start()
        jobs = scheduler.wait_until_done()
        scheduler.stop()
        assert any(map(_lost_its_node, audit(scheduler, jobs, epochs)))
    finally:
        scheduler.stop()
        for pid in scheduler.rank_processes():
            kill_process(pid)


def _lose_a_node(
    scheduler: Scheduler, cluster: Cluster, epochs: dict[str, int], *, with_jobs: bool
) -> str:
    """Kills a node under a job, and another if that job was gone before the loss was noticed.

    Whoever is submitted for that is added to ``epochs``.
    """
    while True:
        node = _kill_under_a_job(scheduler, cluster, with_jobs=with_jobs)
        if any(map(_lost_its_node, scheduler.events())):
            return node
        cluster.start_node(node)
        _wait_for_node(scheduler, node)
        name = f"job-{len(epochs)}"
        epochs[name] = max(EPOCHS.values())
        scheduler.submit(name, epochs[name], epoch_seconds=1.0)


def _kill_under_a_job(scheduler: Scheduler, cluster: Cluster, *, with_jobs: bool) -> str:
    """The node, when it is known to be down and its job is off it."""
    job: str
    node: str
    job, node = wait_for(lambda: _job_on_a_node(scheduler), "a job to make progress on a node")
    ends_before = _ends(scheduler.events(), job)
    cluster.kill_node(node, with_jobs=with_jobs)
    wait_for(lambda: _is_down(scheduler.events(), node), "the loss to be noticed")
    wait_for(lambda: _ends(scheduler.events(), job) > ends_before, "its job to be off it")
    return node


def _wait_for_node(scheduler: Scheduler, node: str) -> None:
    wait_for(lambda: not _is_down(scheduler.events(), node), "the node to be used again")


def _job_on_a_node(scheduler: Scheduler) -> tuple[str, str] | None:
    for job in scheduler.jobs():
        done = job["epochs_done"]
        if job["state"] == "running" and 1 <= done <= job["epochs"] - MANY_EPOCHS:
            return str(job["id"]), str(job["nodes"][0])
    return None


def _ends(events: list[Event], job: str) -> int:
    """How often a job has left its GPUs."""
    return sum(isinstance(event, JobStopped | JobFinished) and event.job == job for event in events)


def _lost_its_node(event: Event) -> bool:
    return isinstance(event, JobStopped) and event.reason is StopReason.NODE_LOST


def _is_down(events: list[Event], node: str) -> bool:
    down = False
    for event in events:
        if isinstance(event, NodeDown) and event.node == node:
            down = True
        elif isinstance(event, NodeUp) and event.node.id == node:
            down = False
    return down

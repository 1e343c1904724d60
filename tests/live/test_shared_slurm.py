"""A Slurm cluster that others run too: one bad job stops nobody, and GPUs are not given away."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live.schedulers import Scheduler, wait_for

from shockwave.model.errors import InputError
from shockwave.model.events import (
    JobFailed,
    JobFinished,
    JobNoted,
    JobStarted,
    JobStopped,
    NodeDown,
    NodeOccupied,
    StopReason,
)
from shockwave.testing.slurm_cluster import SlurmCluster, why_slurm_cannot_run

PARTITIONS = (
    "gpus Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
    "capped Nodes=ALL MaxTime=INFINITE MaxNodes=1 State=UP",
)


@pytest.fixture
def cluster() -> Iterator[SlurmCluster]:
    problem = why_slurm_cannot_run()
    if problem is not None:
        pytest.skip(problem)
    settings = {"PartitionName": "\nPartitionName=".join(PARTITIONS)}
    with (
        tempfile.TemporaryDirectory(prefix="slurm-") as folder,  # a short path: sockets are in it
        SlurmCluster(Path(folder), nodes=2, gpus=2, settings=settings) as made,
    ):
        yield made


@pytest.fixture
def scheduler(cluster: SlurmCluster, tmp_path: Path) -> Iterator[Scheduler]:
    where = (
        "--executor", "slurm", "--start-seconds", "3", "--first-back-off-seconds", "1",
        "--most-failed-starts", "3",
    )  # fmt: skip
    made = Scheduler(tmp_path, policy="shockwave", where=where, environment=cluster.environment)
    made.start()
    yield made
    made.stop()


def reason_of(scheduler: Scheduler, name: str) -> str:
    return next(str(job["why"]["reason"]) for job in scheduler.jobs() if job["name"] == name)


def test_a_job_that_slurm_never_starts_delays_nobody_and_is_given_up(
    cluster: SlurmCluster, scheduler: Scheduler
) -> None:
    # A gang over both nodes in a partition that gives a job one: accepted, and pending for ever.
    scheduler.submit("stuck-0", 4, gpus=4, slurm={"partition": "capped"})
    wait_for(lambda: "PartitionNodeLimit" in reason_of(scheduler, "stuck-0") or None, "the reason")
    for number in range(1, 5):
        scheduler.submit(f"good-{number}", 6, gpus=2)
    states = {job["name"]: job["state"] for job in scheduler.wait_until_done()}
    assert states.pop("stuck-0") == "failed"
    assert set(states.values()) == {"finished"}
    events = scheduler.events()
    (failed,) = [event for event in events if isinstance(event, JobFailed)]
    assert failed.reason.startswith("cannot start: ")
    assert "PartitionNodeLimit" in failed.reason
    stops = [e for e in events if isinstance(e, JobStopped) and e.job == failed.job]
    assert sum(stop.reason is StopReason.NOT_STARTED for stop in stops) == 3
    waits = [stop.back_off_seconds for stop in stops if stop.reason is StopReason.NOT_STARTED]
    assert waits == sorted(set(waits)), "it waits longer each time"
    log = scheduler.log()
    assert "PartitionNodeLimit" in log


def test_gpus_that_others_wait_for_are_not_given_up(
    cluster: SlurmCluster, scheduler: Scheduler
) -> None:
    for number in range(2):
        scheduler.submit(f"long-{number}", 40, gpus=2)
    wait_for(
        lambda: [job for job in scheduler.jobs() if job["epochs_done"] >= 1][1:], "both to train"
    )
    foreign = cluster.run(
        "sbatch", "--parsable", "--gres=gpu:2", "--output=/dev/null", "--wrap=sleep 1"
    ).strip()
    wait_for(
        lambda: [e for e in scheduler.events() if isinstance(e, NodeOccupied) and e.contested],
        "the scheduler to see that others wait",
    )
    for number in range(3):  # short and new: they bid more
        scheduler.submit(f"new-{number}", 2, gpus=2)
    scheduler.wait_until_done()
    events = scheduler.events()
    wait_for(lambda: not cluster.run("squeue", "--noheader", f"--jobs={foreign}").strip(), "theirs")
    assert sum(isinstance(event, JobFinished) for event in events) == 5
    first = [event.job for event in events if isinstance(event, JobStarted)][:2]
    contested = [n for n, e in enumerate(events) if isinstance(e, NodeOccupied) and e.contested]
    leaves = (JobFinished, JobStopped)
    ends = [n for n, e in enumerate(events) if isinstance(e, leaves) and e.job in first]
    assert contested[0] < ends[0], "they ran when others came to wait"
    # What one of them leaves is theirs, and then nobody waits any more.
    assert isinstance(events[ends[0]], JobFinished), "what ran when others waited ran on"


def test_what_happens_from_outside_is_told_everywhere(
    cluster: SlurmCluster, scheduler: Scheduler
) -> None:
    scheduler.submit("long-0", 60, gpus=1)
    (job,) = wait_for(
        lambda: [job for job in scheduler.jobs() if job["epochs_done"] >= 1], "it to train"
    )
    assert not job["starting"]
    (number,) = cluster.run("squeue", "--noheader", "--format=%A").split()
    cluster.run("scontrol", "suspend", number)
    wait_for(lambda: "suspended in Slurm" in reason_of(scheduler, "long-0") or None, "the note")
    cluster.run("scontrol", "resume", number)
    wait_for(lambda: "suspended" not in reason_of(scheduler, "long-0") or None, "the resumption")
    cluster.run("scancel", number)
    wait_for(
        lambda: [j for j in scheduler.jobs() if j["starts"] == 2 and not j["starting"]],
        "its second start",
    )
    (idle,) = {"n0", "n1"} - set(scheduler.jobs()[0]["nodes"])
    cluster.run("scontrol", "update", f"NodeName={idle}", "State=DRAIN", "Reason=new fans")
    drained = wait_for(
        lambda: [node for node in scheduler.nodes() if node["state"] == "drained"], "the drain"
    )
    assert drained[0]["id"] == idle
    assert "new fans" in drained[0]["reason"]
    events = scheduler.events()
    assert "suspended in Slurm" in [e.note for e in events if isinstance(e, JobNoted)]
    assert any("new fans" in e.reason for e in events if isinstance(e, NodeDown))
    log = scheduler.log()
    for words in ("suspended in Slurm", "somebody cancelled its Slurm job", "new fans"):
        assert words in log
    with pytest.raises(InputError, match="no such partition"):
        scheduler.submit("bad-0", 2, slurm={"partition": "nosuch"})

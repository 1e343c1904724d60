"""A cluster that others run: limits, other people's queues, drains, and what Slurm says of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.executors.local import harness as local
from tests.executors.slurm import harness
from tests.executors.slurm.test_gangs import foreign_job, own_jobs, state_of

from shockwave.executors.live import Site
from shockwave.executors.slurm.executor import SlurmExecutor
from shockwave.executors.slurm.options import SlurmSiteOptions
from shockwave.model.cluster import Node
from shockwave.model.command import Command
from shockwave.model.errors import InputError
from shockwave.model.events import (
    JobFinished,
    JobNoted,
    JobRunning,
    JobStopped,
    NodeDown,
    NodeOccupied,
    Placement,
    StopReason,
)
from shockwave.testing.executors import Watch
from shockwave.testing.slurm_cluster import SlurmCluster

ALL_OF_N1: Placement = (("n1", (0, 1, 2, 3)),)


def wanting(command: Command, **options: str) -> Command:
    return replace(command, options=options)


def waiting_job(cluster: SlurmCluster, *options: str) -> str:
    """Somebody else's job that finds no room."""
    number = cluster.run(
        "sbatch", "--parsable", "--output=/dev/null", *options, "--wrap=sleep 1000"
    ).strip()
    cluster.wait_for(
        lambda: (
            cluster.run("squeue", "--noheader", f"--jobs={number}", "--format=%r").strip()
            in ("Resources", "Priority")
        ),
        "a job that waits",
    )
    return number


def notes(watch: Watch) -> list[str]:
    return [event.note for event in watch.of(JobNoted)]


# Ordered, started, over.


def test_a_gang_beyond_a_limit_is_withdrawn_with_slurms_own_reason(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    commands = {
        "long": wanting(local.tiny(tmp_path), partition="brief", time="60"),
        "good": local.tiny(tmp_path),
    }
    with harness.executor(cluster, tmp_path, commands) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("long", (("n0", (0,)),))])
        with local.impatient(executor, 2.0):
            watch.until(lambda: bool(watch.of(JobStopped)))
        (stop,) = watch.of(JobStopped)
        assert stop.reason is StopReason.NOT_STARTED
        assert "PartitionTimeLimit" in stop.detail
        assert any("PartitionTimeLimit" in note for note in notes(watch))
        assert not watch.of(JobRunning)
        cluster.wait_for(lambda: not own_jobs(cluster), "the end of the withdrawn job")
        watch.launch([harness.order("good", (("n0", (0,)),), handle=1)])
        watch.until(lambda: bool(watch.of(JobFinished)))
        assert [event.job for event in watch.of(JobRunning)] == ["good"]


def test_others_that_were_faster_are_no_fault_of_the_job(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    foreign_job(cluster, "n1", 4)
    commands = {"a": local.tiny(tmp_path)}
    with harness.executor(cluster, tmp_path, commands, start_seconds=5.0) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", (("n1", (0,)),))])
        watch.until(lambda: bool(watch.of(JobStopped)))
        (stop,) = watch.of(JobStopped)
        assert stop.reason is StopReason.KILLED
        assert stop.back_off_seconds > 0
        assert "Resources" in stop.detail


def test_a_suspended_job_is_told_as_such(cluster: SlurmCluster, tmp_path: Path) -> None:
    commands = {"a": local.tiny(tmp_path, epochs=1000)}
    with harness.executor(cluster, tmp_path, commands) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", (("n0", (0,)),), epochs=1000)])
        watch.until(lambda: bool(watch.of(JobRunning)))
        (number,) = own_jobs(cluster)
        cluster.run("scontrol", "suspend", number)
        watch.until(lambda: notes(watch)[-1:] == ["suspended in Slurm"])
        cluster.run("scontrol", "resume", number)
        watch.until(lambda: notes(watch)[-1] == "")
        assert not watch.of(JobStopped)
        assert len(watch.of(JobRunning)) == 1


def test_a_job_that_somebody_puts_back_on_hold_starts_again(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    commands = {"a": local.tiny(tmp_path, epochs=1000)}
    with harness.executor(cluster, tmp_path, commands) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", (("n0", (0,)),), epochs=1000)])
        watch.until(lambda: watch.epochs(0) >= 1)
        (number,) = own_jobs(cluster)
        cluster.run("scontrol", "update", f"JobId={number}", "Requeue=1")
        cluster.run("scontrol", "requeuehold", number)
        watch.until(lambda: bool(watch.of(JobStopped)))
        watch.until(lambda: not own_jobs(cluster))
        watch.launch([harness.order("a", (("n0", (0,)),), attempt=2, epochs=1000)])
        before = watch.epochs(0)
        watch.until(lambda: watch.epochs(0) > before)


# What others have and want.


def test_a_node_without_processors_has_no_room(cluster: SlurmCluster, tmp_path: Path) -> None:
    foreign = foreign_job(cluster, "n1", 0, "--cpus-per-task=64")
    with harness.executor(cluster, tmp_path, {}) as executor:
        watch = harness.watch(executor)
        executor.nodes()
        watch.until(lambda: bool(watch.of(NodeOccupied)))
        assert [(e.node, e.gpus) for e in watch.of(NodeOccupied)] == [("n1", 4)]
        cluster.run("scancel", foreign)
        watch.until(lambda: watch.of(NodeOccupied)[-1].gpus == 0)


def test_processors_and_memory_that_a_gpu_needs_limit_how_many_can_be_used(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    foreign_job(cluster, "n2", 0, "--cpus-per-task=40")
    with harness.executor(
        cluster, tmp_path, {}, options=SlurmSiteOptions(cpus_per_gpu=10)
    ) as executor:
        watch = harness.watch(executor)
        executor.nodes()
        watch.until(lambda: bool(watch.of(NodeOccupied)))
        assert [(e.node, e.gpus) for e in watch.of(NodeOccupied)] == [("n2", 2)]


def test_nodes_that_others_wait_for_are_contested(cluster: SlurmCluster, tmp_path: Path) -> None:
    commands = {"a": local.tiny(tmp_path, epochs=1000)}
    with harness.executor(cluster, tmp_path, commands) as executor:
        watch = harness.watch(executor)
        executor.nodes()
        watch.launch([harness.order("a", ALL_OF_N1, epochs=1000)])
        watch.until(lambda: bool(watch.of(JobRunning)))
        rival = waiting_job(cluster, "--nodelist=n1", "--gres=gpu:1")
        watch.until(lambda: bool(watch.of(NodeOccupied)))
        assert {event.node for event in watch.of(NodeOccupied) if event.contested} == {
            "n0", "n1", "n2", "n3",
        }  # fmt: skip
        cluster.run("scancel", rival)
        watch.until(lambda: not watch.of(NodeOccupied)[-1].contested)


def test_a_partition_of_a_higher_tier_is_not_contested(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    commands = {"a": local.tiny(tmp_path, epochs=1000)}
    options = SlurmSiteOptions(partition="first")
    with harness.executor(cluster, tmp_path, commands, options=options) as executor:
        watch = harness.watch(executor)
        executor.nodes()
        watch.launch([harness.order("a", ALL_OF_N1, epochs=1000)])
        watch.until(lambda: bool(watch.of(JobRunning)))
        waiting_job(cluster, "--nodelist=n1", "--gres=gpu:1")
        for _ in range(20):
            watch.poll()
        assert not watch.of(NodeOccupied)


def test_nothing_is_planned_in_a_partition_that_is_closed(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    with harness.executor(
        cluster, tmp_path, {}, options=SlurmSiteOptions(partition="shut")
    ) as executor:
        watch = harness.watch(executor)
        executor.nodes()
        watch.until(lambda: bool(watch.of(NodeOccupied)))
        assert [(e.node, e.gpus) for e in watch.of(NodeOccupied)] == [("n3", 4)]


def test_a_drained_node_says_who_withholds_it_and_why(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    with harness.executor(cluster, tmp_path, {}) as executor:
        watch = harness.watch(executor)
        executor.nodes()
        cluster.run("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=new fans on Monday")
        watch.until(lambda: bool(watch.of(NodeDown)))
        (down,) = watch.of(NodeDown)
        assert (down.node, down.withheld) == ("n2", True)
        assert "new fans on Monday" in down.reason
        # A scheduler that is new here lists it with the rest.
        assert [node.id for node in executor.nodes() or ()] == ["n0", "n1", "n3"]
        ((node, why),) = executor.unusable(1.0)
        assert (node, why) == (Node("n2", 4, "v100"), replace(down, time=1.0))


def test_what_slurm_only_believes_to_run_is_cancelled_and_counts_as_used(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    """The controller dies before it has written down that a job ended."""
    hurry = tmp_path / "hurry"
    commands = {"a": local.tiny(tmp_path, seconds=0.5, epochs=500, hurry=hurry)}
    with harness.executor(cluster, tmp_path, commands) as executor:
        watch = harness.watch(executor)
        executor.nodes()
        watch.launch([harness.order("a", ALL_OF_N1, epochs=500)])
        watch.until(lambda: bool(watch.of(JobRunning)))
        (number,) = own_jobs(cluster)
        cluster.wait_until_saved()
        cluster.kill_controller()
        watch.until(lambda: executor.away() is not None)
        hurry.touch()  # so that the controller is back before it is told again
        watch.until(lambda: bool(watch.of(JobFinished)))
        cluster.start_controller()
        if state_of(cluster, number) != "RUNNING":
            pytest.skip("Slurm has found out by itself, as newer releases may")
        # They may also find out before our patience ends.
        watch.until(lambda: bool(watch.of(NodeOccupied)) or not own_jobs(cluster))
        if watch.of(NodeOccupied):
            assert (watch.of(NodeOccupied)[0].node, watch.of(NodeOccupied)[0].gpus) == ("n1", 4)
            watch.until(lambda: watch.of(NodeOccupied)[-1].gpus == 0)
        cluster.wait_for(lambda: not own_jobs(cluster), "the end of the phantom")


# Before a job is queued.


def checked(executor: SlurmExecutor, gpus: int = 1, **options: str) -> list[str]:
    placement: Placement = (("n0", tuple(range(gpus))),)
    job = harness.order("a", placement).job
    return executor.check(job, Command(("true",), "/", {}, options))


@pytest.fixture
def asked(cluster: SlurmCluster, tmp_path: Path) -> Iterator[SlurmExecutor]:
    options = SlurmSiteOptions(allow="nice,signal")
    with harness.executor(cluster, tmp_path, {}, options=options) as executor:
        executor.nodes()
        yield executor


@pytest.mark.parametrize(
    ("gpus", "options", "says"),
    [
        (1, {"partition": "nosuch"}, "no such partition"),
        (17, {}, "16 GPUs in all"),
        (5, {"partition": "gpus", "exclude": "n[0-2]"}, "4 GPUs in all"),
        (1, {"partition": "brief", "time": "6"}, "5 minutes at most"),
        (1, {"gpu_type": "a100"}, "0 GPUs in all"),
        (1, {"constraint": "nvlink"}, "0 GPUs in all"),
        (1, {"reservation": "nosuch"}, "reservation"),
        (1, {"extra": "uid=0"}, "does not allow uid"),
    ],
)
def test_what_could_never_start_is_refused_at_once(
    asked: SlurmExecutor, gpus: int, options: dict[str, str], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        checked(asked, gpus, **options)


def test_what_can_start_is_taken_and_what_cannot_now_with_a_warning(asked: SlurmExecutor) -> None:
    assert checked(asked, 16) == []
    assert checked(asked, 2, gpu_type="v100", exclude="n1", extra="nice=5") == []
    assert "starts no jobs" in checked(asked, 1, partition="shut")[0]


def test_options_reach_slurm(cluster: SlurmCluster, tmp_path: Path) -> None:
    command = wanting(
        local.tiny(tmp_path, epochs=1000), gpu_type="v100", exclude="n3", extra="nice=5"
    )
    options = SlurmSiteOptions(allow="nice")
    with harness.executor(cluster, tmp_path, {"a": command}, options=options) as executor:
        executor.nodes()
        order = harness.order("a", (("n0", (0, 1)),), epochs=1000)
        assert executor.nodes_for(order.job) == frozenset({"n0", "n1", "n2"})
        watch = harness.watch(executor)
        watch.launch([order])
        watch.until(lambda: bool(watch.of(JobRunning)))
        (number,) = own_jobs(cluster)
        said = cluster.run("scontrol", "--oneliner", "show", "job", number)
        assert "Nice=5" in said
        assert "gpu:v100:2" in said
        assert "ExcNodeList=n3" in said


def test_an_unknown_partition_is_refused_before_anything_starts(
    cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    site = Site(
        tmp_path, (), lambda job: Command((job,), "/"), 0.0, lambda: 0.0, 5.0,
        options=SlurmSiteOptions(partition="nosuch"),
    )  # fmt: skip
    with pytest.raises(InputError, match=r"no such partition.*nosuch.*There are"):
        SlurmExecutor.at(site)

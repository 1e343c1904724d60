"""Nodes that are held: Slurm is not asked for a start, and what it takes back is noticed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.executors.local import harness as local
from tests.executors.slurm import harness
from tests.executors.slurm.test_gangs import own_jobs
from tests.executors.slurm.test_ordinary_life import waiting_job

from shockwave.executors.slurm.allocation import SlurmAllocationExecutor
from shockwave.model.events import (
    JobFinished,
    JobRunning,
    JobStopped,
    NodeDown,
    NodeOccupied,
    StopReason,
)
from shockwave.testing.slurm_cluster import SlurmCluster


def holders(cluster: SlurmCluster) -> dict[str, str]:
    """Numbers of the jobs that hold nodes, by node."""
    rows = cluster.run("squeue", "--noheader", "--states=RUNNING", "--format=%A %N %k").split("\n")
    fields = [row.split() for row in rows if "shockwave-holder/" in row]
    return {node: number for number, node, _ in fields}


def test_gangs_start_stop_and_share_a_node_without_a_job_of_slurms(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    commands = {
        "long": local.tiny(tmp_path, epochs=1000),
        "wide": local.tiny(tmp_path, seconds=0.2),
        "short": local.tiny(tmp_path),
    }
    with harness.executor(
        cluster, tmp_path, commands, kind=SlurmAllocationExecutor, start_seconds=30.0
    ) as executor:
        watch = harness.watch(executor)
        executor.nodes()
        watch.until(lambda: len(holders(cluster)) == 4)
        watch.launch(
            [
                harness.order("long", (("n0", (0, 1)),), epochs=1000),
                harness.order("wide", (("n0", (2,)), ("n1", (0, 1, 2))), handle=1),
            ]
        )
        watch.until(lambda: len(watch.of(JobRunning)) == 2)
        assert not own_jobs(cluster), "Slurm knows of allocations only"
        # Others that wait get nothing of what we give up, so nothing is contested.
        waiting_job(cluster, "--nodelist=n0", "--gres=gpu:1")
        executor.stop(np.array([0]))
        watch.launch([harness.order("short", (("n0", (0,)),), handle=2)])
        watch.until(lambda: len(watch.of(JobFinished)) == 2)
        assert not any(event.contested for event in watch.of(NodeOccupied))
        assert not watch.of(JobStopped)
    cluster.wait_for(lambda: not holders(cluster), "the nodes to be given back")


def test_an_allocation_that_is_taken_away_is_made_again(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    commands = {"a": local.tiny(tmp_path, epochs=1000, save_every=1)}
    with harness.executor(
        cluster, tmp_path, commands, kind=SlurmAllocationExecutor, start_seconds=60.0
    ) as executor:
        watch = harness.watch(executor)
        executor.nodes()
        watch.until(lambda: len(holders(cluster)) == 4)
        watch.launch([harness.order("a", (("n2", (0,)),), epochs=1000)])
        watch.until(lambda: watch.epochs(0) >= 1)
        first = holders(cluster)["n2"]
        cluster.run("scancel", first)
        watch.until(lambda: bool(watch.of(JobStopped)))
        (stop,) = watch.of(JobStopped)
        assert stop.reason in (StopReason.NODE_LOST, StopReason.KILLED, StopReason.PREEMPTED)
        watch.launch([harness.order("a", (("n2", (0,)),), attempt=2, epochs=1000)])
        watch.until(lambda: len(watch.of(JobRunning)) == 2)
        assert holders(cluster)["n2"] != first


def test_a_node_that_is_drained_is_given_back(cluster: SlurmCluster, tmp_path: Path) -> None:
    commands = {"a": local.tiny(tmp_path, epochs=1000)}
    with harness.executor(cluster, tmp_path, commands, kind=SlurmAllocationExecutor) as executor:
        watch = harness.watch(executor)
        executor.nodes()
        watch.until(lambda: len(holders(cluster)) == 4)
        watch.launch([harness.order("a", (("n1", (0,)),), epochs=1000)])
        watch.until(lambda: watch.epochs(0) >= 1)
        cluster.run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=new fans")
        watch.until(lambda: bool(watch.of(NodeDown)))
        (stop,) = watch.of(JobStopped)
        assert "new fans" in stop.detail
        watch.until(lambda: "n1" not in holders(cluster))

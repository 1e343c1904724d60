"""What is killed, and what becomes of the jobs."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import numpy as np
from tests.executors.local import harness as local
from tests.executors.ray import harness

from shockwave.executors.ray.executor import RayExecutor
from shockwave.executors.ray.look import look
from shockwave.model.cluster import Node
from shockwave.model.events import (
    JobFinished,
    JobStopped,
    NodeDown,
    NodeOccupied,
    NodeUp,
    Placement,
    StopReason,
)
from shockwave.protocol.processes import start_ticks
from shockwave.testing.executors import Watch
from shockwave.testing.ray_cluster import RayCluster

ACROSS: Placement = (("n0", (0,)), ("n1", (0,)))


def only_stop(watch: Watch) -> JobStopped:
    watch.until(lambda: bool(watch.of(JobStopped)))
    (stop,) = watch.of(JobStopped)
    return stop


def epochs_reported(executor: RayExecutor, job: str, generation: int) -> int:
    path = executor.folder(job) / f"reports-{generation}.jsonl"
    return path.read_text().count('"event": "epoch"') if path.exists() else 0


# Processes on a node.


def test_when_an_actor_is_killed_its_job_saves_and_goes_on(
    cluster: RayCluster, tmp_path: Path
) -> None:
    # It saves only when it is asked to.
    job = local.tiny(tmp_path, seconds=0.5, epochs=6, save_every=100)
    with harness.executor(cluster, tmp_path / "root", {"a": job}) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", epochs=6)])
        watch.until(lambda: watch.epochs(0) >= 1)
        harness.kill(harness.actors(cluster, "n0"))
        stop = only_stop(watch)
        assert stop.reason is StopReason.PREEMPTED
        assert stop.epochs_done >= 1
        watch.launch([harness.order("a", attempt=2, epochs=6)])
        watch.until_finished([local.spec("a")])
        assert watch.epochs_done(0) == sorted(watch.epochs_done(0))


def test_a_killed_supervisor_takes_its_ranks_along(cluster: RayCluster, tmp_path: Path) -> None:
    with harness.executor(
        cluster, tmp_path / "root", {"a": local.tiny(tmp_path, seconds=30)}
    ) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", (("n0", (0, 1)),))])
        watch.until(lambda: bool(harness.supervisor_and_ranks(executor, "a")))
        supervisor, *ranks = harness.supervisor_and_ranks(executor, "a")
        assert len(ranks) == 2
        harness.kill([supervisor])
        stop = only_stop(watch)
        assert stop.reason is StopReason.KILLED
        assert "watches over it" in stop.detail
        assert not any(map(_lives, ranks))


# Nodes.


def test_a_gang_over_two_nodes_ends_when_one_is_lost(cluster: RayCluster, tmp_path: Path) -> None:
    with harness.executor(
        cluster, tmp_path / "root", {"a": local.tiny(tmp_path, seconds=0.5, epochs=200)}
    ) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", ACROSS, epochs=200)])
        watch.until(lambda: watch.epochs(0) >= 1)
        cluster.kill_node("n1")
        stop = only_stop(watch)
        assert (stop.reason, stop.detail) == (StopReason.NODE_LOST, "node n1 was lost")
        local.wait_until(lambda: not harness.job_processes(cluster, "n0"))
        watch.until(lambda: bool(watch.of(NodeDown)))
        assert [event.node for event in watch.of(NodeDown)] == ["n1"]


def test_a_node_that_ray_drains_is_left(cluster: RayCluster, tmp_path: Path) -> None:
    job = local.tiny(tmp_path, seconds=0.3, epochs=300)
    with harness.executor(cluster, tmp_path / "root", {"a": job}) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", (("n2", (0,)),), epochs=300)])
        watch.until(lambda: watch.epochs(0) >= 1)
        cluster.drain_node(executor._look.nodes["n2"].incarnation)
        stop = only_stop(watch)
        assert (stop.job, stop.reason) == ("a", StopReason.PREEMPTED)
        assert stop.detail.startswith("Ray withholds n2: Ray drains it and ends by ")
        watch.until(lambda: bool(watch.of(NodeDown)))
        assert [(event.node, event.withheld) for event in watch.of(NodeDown)] == [("n2", True)]
        watch.launch([harness.order("a", (("n1", (0,)),), attempt=2, epochs=300)])
        watch.until(lambda: watch.epochs(0) > stop.epochs_done)
    cluster.kill_node("n2")  # Ray takes nothing of it back


def test_a_node_that_comes_back_is_used_again(cluster: RayCluster, tmp_path: Path) -> None:
    with harness.executor(cluster, tmp_path / "root", {"a": local.tiny(tmp_path)}) as executor:
        watch = harness.watch(executor)
        watch.poll()
        cluster.kill_node("n2")
        watch.until(lambda: bool(watch.of(NodeDown)))
        cluster.start_node("n2")
        watch.until(lambda: bool(watch.of(NodeUp)))
        assert [event.node for event in watch.of(NodeUp)] == [Node("n2", 4, "A100")]
        watch.launch([harness.order("a", (("n2", (0, 1, 2, 3)),))])
        watch.until_finished([local.spec("a")])


def test_a_copy_that_was_only_cut_off_ends_and_saves_nothing_any_more(
    cluster: RayCluster, tmp_path: Path
) -> None:
    # It saves only when it is asked to: what stands still is not in the middle of a checkpoint.
    job = local.tiny(tmp_path, seconds=0.3, epochs=30, save_every=100)
    with harness.executor(cluster, tmp_path / "root", {"a": job}) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", epochs=30)])
        watch.until(lambda: watch.epochs(0) >= 2)
        copy = harness.supervisor_and_ranks(executor, "a")
        harness.kill(copy, signal.SIGSTOP)
        cluster.kill_node("n0", with_jobs=False)
        assert only_stop(watch).reason is StopReason.NODE_LOST
        watch.launch([harness.order("a", (("n1", (0,)),), attempt=2, epochs=30)])
        watch.until(lambda: epochs_reported(executor, "a", 2) >= 2)
        with suppress(ProcessLookupError):  # Linux may have ended what stood still without a parent
            harness.kill(copy, signal.SIGCONT)
        local.wait_until(lambda: not any(map(_lives, copy)))
        assert not list(executor.folder("a").glob("checkpoints/ckpt-g1-*"))
        watch.until_finished([local.spec("a")])
        assert len(watch.of(JobStopped)) == 1


# Ray itself.


def test_jobs_run_on_while_the_head_is_away(cluster: RayCluster, tmp_path: Path) -> None:
    commands = {
        "long": local.tiny(tmp_path, seconds=0.5, epochs=300),
        "short": local.tiny(tmp_path, seconds=0.5, epochs=8),
        "stopped": local.tiny(tmp_path, seconds=0.5, epochs=300),
        "new": local.tiny(tmp_path, seconds=0.5, epochs=300),
    }
    with harness.executor(cluster, tmp_path / "root", commands, request_seconds=5.0) as executor:
        watch = harness.watch(executor)
        watch.launch(
            [
                harness.order("long", ACROSS, epochs=300),
                harness.order("short", (("n2", (0,)),), handle=1, epochs=8),
                harness.order("stopped", (("n2", (1,)),), handle=2, epochs=300),
            ]
        )
        watch.until(lambda: all(watch.epochs(handle) >= 1 for handle in range(3)))
        cluster.kill_controller()
        watch.until(lambda: executor.away() is not None)
        assert executor.nodes() is None
        before = watch.epochs(0)
        executor.stop(np.array([2]))  # through its lease
        watch.launch([harness.order("new", (("n2", (2,)),), handle=3, epochs=300)])
        stop = only_stop(watch)
        assert (stop.job, stop.reason) == ("new", StopReason.KILLED)
        assert "not connected to Ray" in stop.detail
        watch.until_finished([local.spec("short")])  # although Ray cannot tell
        watch.until(lambda: watch.epochs(0) > before)
        watch.until(lambda: not harness.job_processes(cluster, "n2"))
        assert executor.away() is not None

        cluster.start_controller()
        watch.until(lambda: executor.away() is None)
        executor.stop(np.array([0]))
        watch.launch(
            [
                harness.order("long", ACROSS, attempt=2, epochs=300),
                harness.order("new", (("n2", (2,)),), handle=3, attempt=2, epochs=300),
            ]
        )
        before = watch.epochs(0)
        watch.until(lambda: watch.epochs(0) > before and watch.epochs(3) >= 1)
        assert watch.of(JobStopped) == [stop]
        assert not watch.of(NodeDown)


# The bridge.


def test_another_bridge_takes_the_place_of_one_that_was_killed_or_hangs(
    cluster: RayCluster, tmp_path: Path
) -> None:
    job = local.tiny(tmp_path, seconds=0.5, epochs=40)
    commands = {"a": job}
    with harness.executor(cluster, tmp_path / "root", commands, request_seconds=5.0) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", epochs=40)])
        watch.until(lambda: watch.epochs(0) >= 1)
        for number in (signal.SIGKILL, signal.SIGSTOP):
            before = executor.client.bridge_pid
            assert before is not None
            os.kill(before, number)
            watch.until(lambda: executor.away() is not None)
            watch.until(lambda: executor.away() is None)
            assert executor.client.bridge_pid != before
            assert not _lives(before)
        done = watch.epochs(0)
        watch.until(lambda: watch.epochs(0) > done)
        assert not watch.of(JobStopped)


# Others.


def test_gpus_that_others_hold_are_told(cluster: RayCluster, tmp_path: Path) -> None:
    with harness.executor(cluster, tmp_path / "root", {"a": local.tiny(tmp_path)}) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a")])
        with harness.somebody_else(cluster, "n0", 2), harness.somebody_else(cluster, "n1", 0.5):
            watch.until(lambda: len(watch.of(NodeOccupied)) == 2)
        watch.until(lambda: len(watch.of(NodeOccupied)) == 4)
        told = sorted((event.node, event.gpus) for event in watch.of(NodeOccupied))
        assert told == [("n0", 0), ("n0", 2), ("n1", 0), ("n1", 1)]  # none of them is ours
        watch.until_finished([local.spec("a")])


def test_no_gpus_stay_reserved_for_a_scheduler_that_has_ended(
    cluster: RayCluster, tmp_path: Path
) -> None:
    commands = {"a": local.tiny(tmp_path)}
    with harness.executor(cluster, tmp_path / "first", commands) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", ACROSS)])
        watch.until_finished([local.spec("a")])
    with harness.executor(cluster, tmp_path / "second", commands) as another:

        def nobody_holds_any() -> bool:
            return {node.occupied for node in look(another.client).nodes.values()} == {0}

        local.wait_until(nobody_holds_any)


def test_a_gang_whose_gpus_others_took_is_withdrawn(cluster: RayCluster, tmp_path: Path) -> None:
    with harness.executor(cluster, tmp_path / "root", {"a": local.tiny(tmp_path)}) as executor:
        watch = harness.watch(executor)
        with harness.somebody_else(cluster, "n0", 4):
            watch.launch([harness.order("a")])
            with local.impatient(executor, 3.0):
                stop = only_stop(watch)
            assert stop.reason is StopReason.NOT_STARTED
            assert stop.detail == "Ray did not start it in 3 s"
            # Who decides next must know already that the GPUs are gone.
            assert [(event.node, event.gpus) for event in watch.of(NodeOccupied)] == [("n0", 4)]
            assert not look(executor.client).gangs
            watch.launch([harness.order("a", (("n1", (0,)),), attempt=2)])
            watch.until_finished([local.spec("a")])


def test_a_gang_that_waits_is_stopped_before_it_has_started(
    cluster: RayCluster, tmp_path: Path
) -> None:
    with harness.executor(cluster, tmp_path / "root", {"a": local.tiny(tmp_path)}) as executor:
        watch = harness.watch(executor)
        with harness.somebody_else(cluster, "n0", 4):
            watch.launch([harness.order("a")])
            watch.poll()
            executor.stop(np.array([0]))
            watch.launch([harness.order("a", (("n1", (0,)),), attempt=2)])
            watch.until_finished([local.spec("a")])
            assert epochs_reported(executor, "a", 1) == 0


def test_gangs_that_nobody_knows_are_ended(cluster: RayCluster, tmp_path: Path) -> None:
    commands = {name: local.tiny(tmp_path, seconds=0.5, epochs=300) for name in ("a", "b")}
    with harness.executor(cluster, tmp_path / "root", commands) as first:
        watch = harness.watch(first)
        watch.launch(
            [harness.order("a", epochs=300), harness.order("b", ACROSS, handle=1, epochs=300)]
        )
        watch.until(lambda: watch.epochs(0) >= 1 and watch.epochs(1) >= 1)
        first.shutdown(stop_jobs=False)
        # A scheduler that fails before it has asked for its jobs leaves them alone.
        RayExecutor(tmp_path / "root", commands.__getitem__, 0.0, address=cluster.address).shutdown(
            stop_jobs=False
        )
        with harness.executor(cluster, tmp_path / "root", commands) as second:
            assert len(look(second.client).gangs) == 2
            again = harness.watch(second)
            second.adopt([harness.order("a", epochs=300)])
            again.until(lambda: not harness.job_processes(cluster, "n1"))
            again.until(lambda: len(look(second.client).gangs) == 1)
            done = again.epochs(0)
            again.until(lambda: again.epochs(0) > done)
            assert not again.of(JobStopped)
            assert not again.of(JobFinished)


def _lives(pid: int) -> bool:
    return start_ticks(pid) is not None

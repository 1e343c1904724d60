"""What a user, an operator and other users of a Slurm cluster can rely on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.executors.local import harness as local
from tests.executors.slurm import harness

from shockwave.executors.slurm.options import SlurmSiteOptions
from shockwave.model.cluster import Node
from shockwave.model.command import Command
from shockwave.model.events import (
    JobFinished,
    JobStopped,
    NodeDown,
    NodeOccupied,
    NodeUp,
    Placement,
    StopReason,
)
from shockwave.testing.slurm_cluster import SlurmCluster

WHO_AM_I = """
import json, os
names = "RANK CUDA_VISIBLE_DEVICES SLURMD_NODENAME MASTER_ADDR MASTER_PORT WORLD_SIZE SLURM_NTASKS"
path = os.environ["SHOCKWAVE_DIR"] + "/rank-" + os.environ["RANK"] + ".json"
with open(path, "w") as file:
    json.dump({name: os.environ.get(name) for name in names.split()}, file)
"""


def foreign_job(cluster: SlurmCluster, node: str, gpus: int, *options: str) -> str:
    """Somebody else's job, running."""
    number = cluster.run(
        "sbatch", "--parsable", f"--nodelist={node}", f"--gres=gpu:{gpus}", "--output=/dev/null",
        "--comment=mine, hands off", *options, "--wrap=sleep 1000",
    ).strip()  # fmt: skip
    cluster.wait_for(lambda: state_of(cluster, number) == "RUNNING", "the start of a job")
    return number


def state_of(cluster: SlurmCluster, number: str) -> str:
    return cluster.run("squeue", "--noheader", f"--jobs={number}", "--format=%T").strip()


def own_jobs(cluster: SlurmCluster, field: str = "%A") -> list[str]:
    """Of the jobs that schedulers have here and that have not ended."""
    rows = cluster.run("squeue", "--noheader", f"--format={field}|%k").splitlines()
    return [row.partition("|")[0] for row in rows if "|shockwave/" in row]


# What is there.


def test_the_nodes_of_slurm_are_told(cluster: SlurmCluster, tmp_path: Path) -> None:
    with harness.executor(cluster, tmp_path, {}) as executor:
        expected = (*(Node(name, 4, "v100") for name in ("n0", "n1", "n2")), Node("n3", 4, "t4"))
        assert executor.nodes() == expected
        watch = harness.watch(executor)
        watch.poll()
        watch.poll()
        assert not watch.of(NodeUp)  # who has asked knows them


def test_jobs_of_others_are_counted_and_never_touched(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    foreign = foreign_job(cluster, "n1", 3)
    with harness.executor(cluster, tmp_path, {"a": local.tiny(tmp_path, seconds=0.3)}) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", (("n1", (0,)),))])
        watch.until(lambda: watch.epochs(0) >= 1)
        assert [(e.node, e.gpus) for e in watch.of(NodeOccupied)] == [("n1", 3)]  # and not 4
        watch.until(lambda: bool(watch.of(JobFinished)))
        assert state_of(cluster, foreign) == "RUNNING"
        cluster.run("scancel", foreign)
        watch.until(lambda: watch.of(NodeOccupied)[-1].gpus == 0)
    assert len(watch.of(NodeOccupied)) == 2


def test_every_rank_of_an_uneven_gang_has_one_gpu_of_its_node(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    placement: Placement = (("n3", (0, 1, 2)), ("n1", (0,)), ("n2", (2, 3, 0)))
    command = _with(local.script(tmp_path, WHO_AM_I), cpus_per_gpu="2", mem_per_gpu="100M")
    with harness.executor(cluster, tmp_path, {"a": command}) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", placement)])
        watch.until(lambda: bool(watch.of(JobFinished)))
        paths = [executor.folder("a") / f"rank-{rank}.json" for rank in range(7)]
    ranks = [json.loads(path.read_text()) for path in paths]
    assert [rank["SLURMD_NODENAME"] for rank in ranks] == ["n3"] * 3 + ["n1"] + ["n2"] * 3
    devices = {(rank["SLURMD_NODENAME"], rank["CUDA_VISIBLE_DEVICES"]) for rank in ranks}
    assert len(devices) == 7
    assert all(rank["CUDA_VISIBLE_DEVICES"] in "0123" for rank in ranks)
    assert len({(rank["MASTER_ADDR"], rank["MASTER_PORT"]) for rank in ranks}) == 1
    assert {rank["WORLD_SIZE"] for rank in ranks} == {"7"}
    assert {rank["SLURM_NTASKS"] for rank in ranks} == {None}  # or frameworks believe Slurm


def test_names_and_folders_may_hold_anything(cluster: SlurmCluster, tmp_path: Path) -> None:
    name = "team/100% sure: $HOME 'ä' \n|"
    root = tmp_path / "a 'folder' with %n"
    with harness.executor(cluster, root, {name: local.tiny(tmp_path)}) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order(name, (("n0", (0,)), ("n1", (0,))))])
        watch.until(lambda: bool(watch.of(JobFinished)))
        assert not watch.of(JobStopped)
        assert (executor.folder(name) / "logs" / "supervisor-0.log").exists()


# Options.


def test_options_of_the_site_and_of_the_job(cluster: SlurmCluster, tmp_path: Path) -> None:
    cluster.run("scontrol", "create", "PartitionName=short", "Nodes=n[2-3]")
    cluster.run("scontrol", "update", "NodeName=n3", "AvailableFeatures=nvlink,fast")
    try:
        slow = local.tiny(tmp_path, seconds=0.3)
        commands = {
            "plain": slow,
            "short": _with(slow, partition="short", account="vision", cpus_per_gpu="3"),
            "fast": _with(slow, constraint="nvlink"),
        }
        site = SlurmSiteOptions(account="everybody", partition="gpus")
        with harness.executor(cluster, tmp_path, commands, options=site) as executor:
            assert executor.nodes() is not None
            assert executor.nodes_for(local.spec("plain")) is None
            assert executor.nodes_for(local.spec("short")) == frozenset({"n2", "n3"})
            assert executor.nodes_for(local.spec("fast")) == frozenset({"n3"})
            watch = harness.watch(executor)
            orders = [
                harness.order(name, (("n3", (slot,)),), handle=slot)
                for slot, name in enumerate(commands)
            ]
            watch.launch(orders)
            watch.until(lambda: len(watch.of(JobFinished)) == 3)
        rows = cluster.run("squeue", "--noheader", "--states=all", "--format=%j %P %a %f %C")
        told = {row.split()[0]: row.split()[1:] for row in rows.splitlines()}
        assert told["plain"] == ["gpus", "everybody", "(null)", "1"]
        assert told["short"] == ["short", "vision", "(null)", "3"]
        assert told["fast"] == ["gpus", "everybody", "nvlink", "1"]
    finally:
        cluster.run("scontrol", "delete", "PartitionName=short")
        cluster.run("scontrol", "update", "NodeName=n3", "AvailableFeatures=", "ActiveFeatures=")


def test_what_slurm_refuses_is_told_in_its_words(cluster: SlurmCluster, tmp_path: Path) -> None:
    wrong = _with(local.tiny(tmp_path), partition="nosuch")
    with harness.executor(cluster, tmp_path, {"a": wrong}) as executor:
        assert executor.nodes() is not None
        assert executor.nodes_for(local.spec("a")) is None  # so that it is launched, and refused
        watch = harness.watch(executor)
        watch.launch([harness.order("a", (("n0", (0,)),))])
        watch.poll()
    (stop,) = watch.of(JobStopped)
    assert stop.reason is StopReason.CRASHED
    assert "nosuch" in stop.detail


def test_a_node_without_the_right_python_is_told(cluster: SlurmCluster, tmp_path: Path) -> None:
    wrong = SlurmSiteOptions(python="/nowhere/python3")
    commands = {"a": local.tiny(tmp_path)}
    with harness.executor(cluster, tmp_path, commands, options=wrong) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", (("n0", (0,)),))])
        watch.until(lambda: bool(watch.of(JobStopped)))
    (stop,) = watch.of(JobStopped)
    assert stop.reason is StopReason.CRASHED
    assert "/nowhere/python3" in stop.detail
    assert "n0" in stop.detail


# People.


def test_a_job_that_somebody_cancels_counts_as_stopped(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    with harness.executor(cluster, tmp_path, {"a": local.tiny(tmp_path, epochs=1000)}) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", (("n0", (0,)),), epochs=1000)])
        watch.until(lambda: watch.epochs(0) >= 1)
        cluster.run("scancel", *own_jobs(cluster))
        watch.until(lambda: bool(watch.of(JobStopped)))
        (stop,) = watch.of(JobStopped)
        assert stop.reason is StopReason.PREEMPTED
        assert "somebody cancelled its Slurm job" in stop.detail
        assert stop.epochs_done >= 1
        watch.launch([harness.order("a", (("n0", (0,)),), attempt=2, epochs=1000)])
        watch.until(lambda: watch.epochs(0) > stop.epochs_done)


def test_a_drained_node_is_left(cluster: SlurmCluster, tmp_path: Path) -> None:
    with harness.executor(cluster, tmp_path, {"a": local.tiny(tmp_path, epochs=30)}) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", (("n0", (0,)),), epochs=30)])
        watch.until(lambda: watch.epochs(0) >= 1)
        cluster.run("scontrol", "update", "NodeName=n0", "State=DRAIN", "Reason=fan broken")
        watch.until(lambda: bool(watch.of(NodeDown)))
        (stop,) = watch.of(JobStopped)
        (down,) = watch.of(NodeDown)
        assert stop.reason is StopReason.PREEMPTED
        assert "fan broken" in stop.detail
        assert down.node == "n0"
        assert watch.events.index(stop) < watch.events.index(down)
        assert [node.id for node in executor.nodes() or ()] == ["n1", "n2", "n3"]
        watch.launch([harness.order("a", (("n1", (0,)),), attempt=2, epochs=30)])
        watch.until(lambda: bool(watch.of(JobFinished)))
        assert watch.epochs_done(0) == sorted(watch.epochs_done(0))  # it had saved
        cluster.run("scontrol", "update", "NodeName=n0", "State=RESUME")
        watch.until(lambda: watch.of(NodeUp)[-1].node.id == "n0")
        assert len(watch.of(NodeUp)) == 5


def test_a_gang_that_slurm_does_not_start_is_withdrawn(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    foreign_job(cluster, "n2", 4)
    commands = {"a": local.tiny(tmp_path), "b": local.tiny(tmp_path)}
    with harness.executor(cluster, tmp_path, commands) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", (("n2", (0,)), ("n1", (0,))))])
        with local.impatient(executor, 1.0):
            watch.until(lambda: bool(watch.of(JobStopped)))
        (stop,) = watch.of(JobStopped)
        assert stop.reason is StopReason.KILLED
        assert "did not start" in stop.detail
        cluster.wait_for(lambda: not own_jobs(cluster), "the end of the withdrawn job")
        watch.launch([harness.order("a", (("n1", (0,)), ("n3", (0,))), attempt=2)])
        watch.until(lambda: bool(watch.of(JobFinished)))
        assert len(watch.of(JobStopped)) == 1


def test_a_gang_waits_for_one_that_is_still_saving(cluster: SlurmCluster, tmp_path: Path) -> None:
    """Longer than Slurm has to start it: it is our own gang that it waits for."""
    commands = {
        "stubborn": local.tiny(tmp_path, epochs=1000, stubborn=1),  # until it is killed
        "next": local.tiny(tmp_path),
    }
    with harness.executor(cluster, tmp_path, commands) as executor:
        watch = harness.watch(executor)
        all_gpus: Placement = (("n0", (0, 1, 2, 3)),)
        watch.launch([harness.order("stubborn", all_gpus, epochs=1000)])
        watch.until(lambda: watch.epochs(0) >= 1)
        executor.stop(np.array([0]))
        (stubborn,) = own_jobs(cluster)
        with local.impatient(executor, 1.5):
            watch.launch([harness.order("next", all_gpus, handle=1)])
            watch.until(lambda: stubborn not in own_jobs(cluster))
        watch.until(lambda: bool(watch.of(JobFinished)))
    assert not watch.of(JobStopped)


def _with(command: Command, **options: str) -> Command:
    return Command(command.argv, command.workdir, command.env, options)


@pytest.fixture(autouse=True)
def _slurm_is_empty_at_first(cluster: SlurmCluster) -> None:
    assert not cluster.run("squeue", "--noheader").strip()

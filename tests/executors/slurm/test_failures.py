"""Slurm's daemons die, answers get lost, and schedulers: no work is done or counted twice."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.executors.local import harness as local
from tests.executors.slurm import harness
from tests.executors.slurm.test_gangs import foreign_job, own_jobs, state_of

from shockwave.executors.gangs.errors import BackendAway
from shockwave.executors.local.accounts import Account
from shockwave.executors.slurm.client import SlurmClient
from shockwave.model.events import JobFinished, JobStopped, NodeDown, StopReason
from shockwave.testing.slurm_cluster import SlurmCluster, why_slurm_cannot_run


def test_jobs_run_on_while_the_controller_is_away(cluster: SlurmCluster, tmp_path: Path) -> None:
    commands = {"a": local.tiny(tmp_path, epochs=1000), "b": local.tiny(tmp_path)}
    with harness.executor(cluster, tmp_path, commands) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", (("n0", (0,)),), epochs=1000)])
        watch.until(lambda: watch.epochs(0) >= 1)
        cluster.wait_for(lambda: own_jobs(cluster, "%T") == ["RUNNING"], "the start of the job")
        cluster.wait_until_saved()
        cluster.kill_controller()
        before = watch.epochs(0)
        watch.until(lambda: executor.away() is not None)
        assert executor.nodes() is None
        watch.until(lambda: watch.epochs(0) > before)
        # Whoever orders all the same is told that nothing came of it, and no crash is counted.
        watch.launch([harness.order("b", (("n1", (0,)),), handle=1)])
        watch.until(lambda: bool(watch.of(JobStopped)))
        (stop,) = watch.of(JobStopped)
        assert (stop.job, stop.reason) == ("b", StopReason.KILLED)
        cluster.start_controller()
        watch.until(lambda: executor.away() is None)
        watch.launch([harness.order("b", (("n1", (0,)),), handle=1, attempt=2)])
        watch.until(lambda: bool(watch.of(JobFinished)))
        assert len(executor.nodes() or ()) == 4
    assert len(watch.of(JobStopped)) == 1  # and none of the one that ran all the time
    assert not watch.of(NodeDown)
    assert watch.epochs_done(0) == sorted(watch.epochs_done(0))
    assert watch.epochs(0) > before


def test_a_controller_that_hangs_is_away_as_well(cluster: SlurmCluster) -> None:
    hasty = SlurmClient(harness.environment(cluster), limit_seconds=1.0)
    with cluster.hanging_controller(), pytest.raises(BackendAway):
        hasty.jobs()
    assert hasty.jobs() is not None


def test_a_copy_that_survives_its_node_does_no_harm(
    hasty_cluster: SlurmCluster, tmp_path: Path
) -> None:
    """Slurm calls the node down, but what ran there runs on, beside its second launch."""
    cluster = hasty_cluster
    epochs = 1000  # it must last until the node is seen to be down
    hurry = tmp_path / "hurry"
    commands = {"a": local.tiny(tmp_path, seconds=0.2, epochs=epochs, save_every=4, hurry=hurry)}
    with harness.executor(cluster, tmp_path, commands) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", (("n0", (0,)),), epochs=epochs)])
        watch.until(lambda: watch.epochs(0) >= 4)
        cluster.kill_node("n0", with_jobs=False, noticed=False)
        watch.until(lambda: bool(watch.of(NodeDown)))
        (stop,) = watch.of(JobStopped)
        assert stop.reason is StopReason.NODE_LOST
        folder = executor.folder("a")
        assert not (folder / "exit-1-0.json").exists(), "the first copy still runs"
        watch.launch([harness.order("a", (("n1", (0,)),), attempt=2, epochs=epochs)])
        local.wait_until(lambda: (folder / "exit-1-0.json").exists())
        newest_of_the_first = max(_saved(folder, 1))
        watch.until(lambda: watch.epochs(0) > newest_of_the_first)
        said = len(_reports(folder, 1))
        hurry.touch()
        watch.until(lambda: bool(watch.of(JobFinished)))
        assert json.loads((folder / "exit-1-0.json").read_text())["asked"]
        assert len(_reports(folder, 1)) == said
        assert max(_saved(folder, 1)) == newest_of_the_first, "an older launch saves no more"
        started = _reports(folder, 2)[0]
        assert started["event"] == "started"
        done = [line["epoch"] for line in _reports(folder, 2) if line["event"] == "epoch"]
        assert done == list(range(started["epoch"] + 1, epochs + 1))
        (finished,) = watch.of(JobFinished)
        counted = watch.total("productive_seconds")
        assert counted == pytest.approx(finished.exclusive_seconds)
        # What the first copy did after its last save is done again, and counted once.
        kept = [line for line in _reports(folder, 1) if line["epoch"] <= started["epoch"]]
        lines = [line for line in (*kept, *_reports(folder, 2)) if line["event"] == "epoch"]
        assert counted == pytest.approx(sum(line["seconds"] for line in lines))


def test_a_gang_that_loses_one_of_its_nodes_is_lost_as_a_whole(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    commands = {"a": local.tiny(tmp_path, epochs=1000)}
    with harness.executor(cluster, tmp_path, commands) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", (("n1", (0,)), ("n0", (0,))), epochs=1000)])
        watch.until(lambda: watch.epochs(0) >= 1)
        cluster.kill_node("n0")
        watch.until(lambda: any(down.node == "n0" for down in watch.of(NodeDown)))
        (stop,) = watch.of(JobStopped)
        assert stop.reason is StopReason.NODE_LOST
        watch.launch([harness.order("a", (("n1", (0,)), ("n2", (0,))), attempt=2, epochs=1000)])
        watch.until(lambda: watch.epochs(0) > stop.epochs_done)


def test_a_submission_without_an_answer_does_not_run_twice(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    class Deaf(SlurmClient):
        """Slurm hears it, but it does not hear Slurm."""

        deaf = True

        def submit(self, arguments: Sequence[str], account: Account | None = None) -> int:
            number = super().submit(arguments, account)
            if self.deaf:
                raise BackendAway("no answer")
            return number

    client = Deaf(harness.environment(cluster))
    commands = {"a": local.tiny(tmp_path, epochs=8)}
    with harness.executor(cluster, tmp_path, commands, client=client) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", (("n0", (0,)),), epochs=8)])
        assert executor.away() is not None
        watch.until(lambda: bool(watch.of(JobStopped)))
        (stop,) = watch.of(JobStopped)
        assert (stop.reason, stop.epochs_done) == (StopReason.KILLED, 0)
        client.deaf = False
        watch.launch([harness.order("a", (("n0", (0,)),), attempt=2, epochs=8)])
        watch.until(lambda: bool(watch.of(JobFinished)))
        assert not _reports(executor.folder("a"), 1), "the unanswered launch never trained"
        cluster.wait_for(lambda: not own_jobs(cluster), "the end of all jobs")


def test_a_launch_is_found_again_by_its_comment_alone(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    """The scheduler is gone the moment after it submitted, without a note of the number."""
    commands = {"a": local.tiny(tmp_path, epochs=8)}
    order = harness.order("a", (("n0", (0,)), ("n1", (0, 1))), epochs=8)
    with harness.executor(cluster, tmp_path, commands) as executor:
        executor.launch([order])
        executor.shutdown(stop_jobs=False)
        with harness.executor(cluster, tmp_path, commands) as back:
            watch = harness.watch(back)
            back.adopt([order])
            watch.until(lambda: bool(watch.of(JobFinished)))
            assert not watch.of(JobStopped)
            assert not (back.folder("a") / "launch-2.json").exists()


def test_a_scheduler_that_comes_back_while_the_controller_is_away(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    commands = {"a": local.tiny(tmp_path, epochs=1000)}
    order = harness.order("a", (("n0", (0,)),), epochs=1000)
    with harness.executor(cluster, tmp_path, commands) as executor:
        executor.launch([order])
        local.wait_until((executor.folder("a") / "reports-1.jsonl").exists)
        cluster.wait_until_saved()
        cluster.kill_controller()
        executor.shutdown(stop_jobs=False)
        with harness.executor(cluster, tmp_path, commands) as back:
            watch = harness.watch(back)
            back.adopt([order])
            assert back.away() is not None
            watch.until(lambda: watch.epochs(0) >= 1)
            before = watch.epochs(0)
            cluster.start_controller()
            watch.until(lambda: back.away() is None)
            watch.until(lambda: watch.epochs(0) > before)
            assert not watch.of(JobStopped)


def test_what_nobody_remembers_is_ended_and_nothing_else(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    commands = {name: local.tiny(tmp_path, epochs=1000) for name in ("kept", "forgotten")}
    foreign = foreign_job(cluster, "n3", 1)
    other = local.tiny(tmp_path, epochs=1000)
    with (
        harness.executor(cluster, tmp_path / "other", {"other": other}) as neighbour,
        harness.executor(cluster, tmp_path / "root", commands) as executor,
    ):
        neighbour.launch([harness.order("other", (("n3", (1,)),), epochs=1000)])
        kept = harness.order("kept", (("n0", (0,)),), epochs=1000)
        executor.launch([kept, harness.order("forgotten", (("n0", (1,)),), handle=1, epochs=1000)])
        executor.shutdown(stop_jobs=False)
        with harness.executor(cluster, tmp_path / "root", commands) as back:
            back.adopt([kept])
            cluster.wait_for(
                lambda: sorted(own_jobs(cluster, "%j")) == ["kept", "other"],
                "the end of the forgotten job",
            )
            watch = harness.watch(back)
            watch.until(lambda: watch.epochs(0) >= 1)
            assert state_of(cluster, foreign) == "RUNNING"
            assert not watch.of(JobStopped)


@pytest.fixture
def hasty_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """Notices in seconds that a node does not answer."""
    problem = why_slurm_cannot_run()
    if problem is not None:
        pytest.skip(problem)
    folder = tmp_path_factory.mktemp("slurm")
    with SlurmCluster(folder, nodes=2, node_timeout_seconds=3) as made:
        yield made


def _reports(folder: Path, generation: int) -> list[dict[str, Any]]:
    path = folder / f"reports-{generation}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _saved(folder: Path, generation: int) -> list[int]:
    names = (folder / "checkpoints").glob(f"ckpt-g{generation}-*.txt")
    return [int(path.read_text()) for path in names]

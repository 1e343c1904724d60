"""The scheduler may be killed at any moment: its jobs run on, and nothing runs or counts twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.executors.local import harness

from shockwave.engine.executor import Known
from shockwave.executors.gangs.folder import JobFolder
from shockwave.model.errors import ExecutorError
from shockwave.model.events import JobFinished, JobStopped, RegimeChanged, StopReason
from shockwave.protocol.lease import Lease
from shockwave.protocol.locks import open_lock, try_lock

REPOSITORY = Path(__file__).resolve().parents[3]


def reported_epochs(root: Path, job: str) -> list[tuple[int, float]]:
    """(epoch, seconds) of all launches, in the order of their reports."""
    epochs = []
    for path in sorted((root / "jobs" / job).glob("reports-*.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if record["event"] == "epoch":
                epochs.append((record["epoch"], record["seconds"]))
    return epochs


def test_jobs_survive_the_scheduler_and_every_epoch_counts_once(tmp_path: Path) -> None:
    root, origin = tmp_path / "root", time.time()
    scheduler = subprocess.Popen(
        [sys.executable, "-m", "tests.executors.local.scheduler", root, tmp_path, str(origin)],
        cwd=REPOSITORY,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": "src:."},
    )
    try:
        harness.wait_until(
            lambda: bool(reported_epochs(root, "long")) and bool(reported_epochs(root, "gang"))
        )
    finally:
        os.killpg(scheduler.pid, signal.SIGKILL)  # with whatever shares its process group
        scheduler.wait()
    # One job ends while nobody looks.
    harness.wait_until((root / "jobs" / "short" / "exit-1-0.json").exists)

    first_epoch_seconds = reported_epochs(root, "long")[0][1]
    known = Known(1.0, 0.0, 32, first_epoch_seconds, 0.1)
    orders = [
        harness.order("long", handle=0, slots=(0,), epochs=8),
        harness.order("gang", handle=1, slots=(1, 2), epochs=8),
        harness.order("short", handle=2, slots=(3,), epochs=2),
    ]
    orders[0] = replace(orders[0], known=known)
    with harness.executor(root, {}, origin=origin) as executor:
        executor.adopt(orders)
        watch = harness.watch(executor)
        watch.until_finished([order.job for order in orders])
    assert not watch.of(JobStopped)
    finished = {event.job: event.exclusive_seconds for event in watch.of(JobFinished)}
    for job, epochs in (("long", 8), ("gang", 8), ("short", 2)):
        reported = reported_epochs(root, job)
        assert [epoch for epoch, _ in reported] == list(range(1, epochs + 1))  # no second run
        assert finished[job] == pytest.approx(sum(seconds for _, seconds in reported))
    productive = sum(
        float(told.productive_seconds[told.handle == 0].sum()) for told in watch.progress
    )
    assert productive == pytest.approx(finished["long"] - first_epoch_seconds)
    # Its first regime was known, the second one was not.
    regimes = [(e.epoch, e.configuration) for e in watch.of(RegimeChanged) if e.job == "long"]
    assert regimes == [(1, 64)]


def test_a_launch_that_was_written_down_but_never_started_is_started_again(tmp_path: Path) -> None:
    folder = JobFolder.of(tmp_path / "root", "a")
    folder.create()
    folder.write_lease(Lease(1))
    with harness.executor(tmp_path / "root", {"a": harness.tiny(tmp_path)}) as executor:
        executor.adopt([harness.order("a")])
        watch = harness.watch(executor)
        watch.poll()
        (stop,) = watch.of(JobStopped)
        assert stop.reason is StopReason.KILLED
        assert "never started" in stop.detail
        watch.launch([harness.order("a", attempt=2)])
        watch.until_finished([harness.spec("a")])


def test_a_gang_that_is_only_just_starting_is_not_given_up(tmp_path: Path) -> None:
    """Its lock is held from the first moment, before it could write who it is."""
    folder = JobFolder.of(tmp_path / "root", "a")
    folder.create()
    lock = open_lock(folder.alive_lock(1))
    assert try_lock(lock)
    with harness.executor(tmp_path / "root", {}) as executor:
        executor.adopt([harness.order("a")])
        watch = harness.watch(executor)
        watch.poll()
        assert not watch.events
        os.close(lock)
        watch.poll()
        assert [event.reason for event in watch.of(JobStopped)] == [StopReason.KILLED]


def test_a_restart_of_the_machine_is_not_the_jobs_fault(tmp_path: Path) -> None:
    folder = JobFolder.of(tmp_path / "root", "a")
    folder.create()
    who = {
        "generation": 1,
        "boot_id": "before",
        "pid": 1,
        "start_ticks": 0,
        "ranks": [],
        "leader_start_ticks": None,
    }
    (folder.path / "process-0.json").write_text(json.dumps(who))
    with harness.executor(tmp_path / "root", {}) as executor:
        executor.adopt([harness.order("a")])
        watch = harness.watch(executor)
        watch.poll()
        assert [event.reason for event in watch.of(JobStopped)] == [StopReason.NODE_LOST]


def test_gangs_that_nobody_knows_of_any_more_are_ended(tmp_path: Path) -> None:
    """As when the scheduler is killed after it wrote "preempted" and before it said so."""
    root = tmp_path / "root"
    commands = {name: harness.tiny(tmp_path, epochs=1000) for name in "ab"}
    with harness.executor(root, commands) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", epochs=1000)])
        watch.until(lambda: watch.epochs(0) >= 1)
        executor.shutdown(stop_jobs=False)
        assert JobFolder.of(root, "a").living_generations() == [1]
    with harness.executor(root, commands) as executor:
        watch = harness.watch(executor)
        # The new job gets the slot as soon as the stray gang has saved.
        watch.launch([harness.order("b", handle=1, epochs=1000)])
        watch.until(lambda: watch.epochs(1) >= 1)
        assert JobFolder.of(root, "a").living_generations() == []
        assert JobFolder.of(root, "a").saved_epochs() >= 1


def test_one_scheduler_at_a_time(tmp_path: Path) -> None:
    with (
        harness.executor(tmp_path / "root", {}),
        pytest.raises(ExecutorError, match=r"root is in use by another scheduler"),
        harness.executor(tmp_path / "root", {}),
    ):
        pass


def test_a_folder_of_another_run_is_left_alone(tmp_path: Path) -> None:
    folder = JobFolder.of(tmp_path / "root", "a")
    folder.create()
    folder.write_lease(Lease(7))
    with harness.executor(tmp_path / "root", {"a": harness.tiny(tmp_path)}) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a")])
        watch.poll()
        (stop,) = watch.of(JobStopped)
        assert "is at launch 7 already" in stop.detail
        assert folder.lease() == Lease(7)


def test_a_second_copy_waits_until_the_first_is_gone(tmp_path: Path) -> None:
    """A scheduler that lost its memory starts a job that still runs."""
    root = tmp_path / "root"
    commands = {"a": harness.tiny(tmp_path, epochs=8, stubborn=1)}
    with harness.executor(root, commands) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", epochs=8)])
        watch.until(lambda: watch.epochs(0) >= 1)
        executor.shutdown(stop_jobs=False)
    with harness.executor(root, commands, grace_seconds=0.1) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", attempt=2, epochs=8)])
        folder = JobFolder.of(root, "a")
        assert folder.exit_record(1) is not None  # gone before the second has its lease
        watch.until_finished([harness.spec("a")])
    epochs = [epoch for epoch, _ in reported_epochs(root, "a")]
    assert epochs == sorted(epochs)


def test_a_copy_that_was_replaced_behind_its_back_ends(tmp_path: Path) -> None:
    """The lease names a newer launch: whoever holds an older one must not go on."""
    command = harness.tiny(tmp_path, epochs=1000, stubborn=1, save_every=2000)
    with harness.executor(tmp_path / "root", {"a": command}, grace_seconds=0.1) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", epochs=1000)])
        watch.until(lambda: watch.epochs(0) >= 1)
        folder = JobFolder.of(tmp_path / "root", "a")
        folder.write_lease(Lease(2))
        watch.until(lambda: bool(watch.of(JobStopped)))
        assert folder.living_generations() == []
        lease = folder.lease()
        assert lease is not None
        assert (lease.generation, lease.stop) == (2, False)  # the newer lease is not touched

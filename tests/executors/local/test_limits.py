"""Limits of memory and processors: kept by real control groups where a test may make them."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from tests.executors.local import harness

from shockwave.executors.local.limits import Groups, Limits, UserScopes, find_keeper
from shockwave.executors.local.options import LocalJob
from shockwave.model.command import Command
from shockwave.model.errors import InputError
from shockwave.model.events import JobFinished, JobStopped, StopReason

SLEEP = "import os, time; open(f'pid-{os.getpid()}', 'w').close(); time.sleep(600)"
EAT = "kept = bytearray(400 * 2**20); print(len(kept))"
needs_groups = pytest.mark.skipif(
    not isinstance(find_keeper(), Groups),
    reason="no control group of memory can be made here (root, or a delegated one, can)",
)


def limited(workdir: Path, text: str, **options: str) -> Command:
    return Command((sys.executable, "-I", "-S", "-c", text), str(workdir), {}, options)


@needs_groups
def test_a_job_that_wants_more_memory_than_it_may_is_ended(tmp_path: Path) -> None:
    commands = {
        "greedy": limited(tmp_path, EAT, memory="100M", cpus="0.5"),
        "modest": limited(tmp_path, EAT, memory="1G"),
    }
    with harness.executor(tmp_path / "root", commands) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("greedy"), harness.order("modest", handle=1, slots=(1,))])
        watch.until(
            lambda: (
                {event.job for event in watch.events if isinstance(event, JobFinished | JobStopped)}
                == {"greedy", "modest"}
            )
        )
    ended = {e.job: e for e in watch.events if isinstance(e, JobFinished | JobStopped)}
    assert isinstance(ended["modest"], JobFinished)
    assert isinstance(ended["greedy"], JobStopped)
    assert "when memory ran out" in ended["greedy"].detail


@needs_groups
def test_nobody_is_blamed_for_the_memory_that_another_wanted(tmp_path: Path) -> None:
    commands = {
        "greedy": limited(tmp_path, EAT, memory="100M"),
        "limited": limited(tmp_path, SLEEP, memory="1G"),
        "free": limited(tmp_path, SLEEP),
    }
    with harness.executor(tmp_path / "root", commands) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("limited"), harness.order("free", handle=1, slots=(1,))])
        watch.until(lambda: len(list(tmp_path.glob("pid-*"))) == 2)
        watch.launch([harness.order("greedy", handle=2, slots=(2,))])
        watch.until(lambda: bool(watch.of(JobStopped)))
        for sleeper in tmp_path.glob("pid-*"):
            os.kill(int(sleeper.name.removeprefix("pid-")), signal.SIGKILL)
        watch.until(lambda: len(watch.of(JobStopped)) == 3)
    reasons = {stop.job: stop.reason for stop in watch.of(JobStopped)}
    assert reasons == {
        "greedy": StopReason.CRASHED,
        "limited": StopReason.KILLED,
        "free": StopReason.KILLED,
    }


def test_where_limits_cannot_be_kept_a_job_that_asks_for_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shockwave.executors.local.executor.find_keeper", lambda: None)
    command = limited(tmp_path, EAT, memory="1G")
    with harness.executor(tmp_path / "root", {"a": command}) as executor:
        with pytest.raises(InputError, match="cannot keep limits"):
            executor.check(harness.spec("a"), command)
        assert executor.check(harness.spec("a"), limited(tmp_path, EAT)) == []
        watch = harness.watch(executor)
        watch.launch([harness.order("a")])
        stop = next(event for event in executor.poll(1.0) if isinstance(event, JobStopped))
        assert "cannot keep limits" in stop.detail


def test_a_delegated_group_of_version_2_is_written(tmp_path: Path) -> None:
    """Plain files stand for the kernel's: what is written where."""
    own = tmp_path / "own"
    own.write_text("0::/service/scheduler\n")
    (tmp_path / "root" / "service" / "scheduler").mkdir(parents=True)
    (tmp_path / "root" / "cgroup.controllers").write_text("cpu memory\n")
    keeper = find_keeper(tmp_path / "root", own)
    assert isinstance(keeper, Groups)
    keeper.admit(77, "job-1", Limits(2**30, 1.5))
    folder = tmp_path / "root" / "service" / "shockwave-jobs" / "job-1"
    assert (folder / "memory.max").read_text() == str(2**30)
    assert (folder / "cpu.max").read_text() == "150000 100000"
    assert (folder / "cgroup.procs").read_text() == "77"


def test_a_scope_of_the_users_manager_says_the_limits() -> None:
    argv = UserScopes("/bin/systemd-run").wrap(["job"], "name", Limits(2**30, 0.5))
    assert argv[-2:] == ["--", "job"]
    assert f"MemoryMax={2**30}" in argv
    assert "CPUQuota=50%" in argv


@pytest.mark.parametrize("wrong", ["8 G", "lots", "-1G", "0"])
def test_memory_is_an_amount(wrong: str) -> None:
    with pytest.raises(ValueError, match="amount of memory"):
        LocalJob(memory=wrong)


def test_no_groups_where_nothing_is_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # where no manager is
    own = tmp_path / "own"
    own.write_text("0::/\n")
    assert find_keeper(tmp_path / "nothing", own) is None

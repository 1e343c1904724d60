"""Gangs as processes: what they are told, what they share, and how they end."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
from tests.executors.local import harness

from shockwave.engine.executor import Launch
from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.launch import GangSettings
from shockwave.executors.local.slots import Slots
from shockwave.model.cluster import Node
from shockwave.model.command import Command
from shockwave.model.errors import ExecutorError, InputError
from shockwave.model.events import JobFinished, JobStopped, StopReason
from shockwave.protocol.processes import start_ticks
from shockwave.protocol.records import Part

DUMP = """
import json, os, time
rank = os.environ["RANK"]
folder = os.environ["SHOCKWAVE_DIR"]
with open(f"{folder}/env-{rank}.json", "w") as file:
    json.dump(dict(os.environ, CWD=os.getcwd(), GROUP=str(os.getpgid(0))), file)
"""


def environments(root: Path, job: str) -> list[dict[str, str]]:
    paths = sorted(JobFolder.of(root, job).path.glob("env-*.json"))
    return [json.loads(path.read_text()) for path in paths]


def last_report(folder: Path) -> str:
    """The last event that the first launch reported."""
    lines = (folder / "reports-1.jsonl").read_text().splitlines()
    return str(json.loads(lines[-1])["event"])


def test_every_rank_is_told_who_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOCKWAVE_TOKEN", "a secret of the scheduler")
    monkeypatch.setenv("RANK", "17")
    monkeypatch.setenv("FROM_OUTSIDE", "yes")
    root = tmp_path / "root"
    dump = harness.script(tmp_path, DUMP)
    command = Command(dump.argv, dump.workdir, {"OWN": "1", "SHOCKWAVE_JOB": "forged"})
    with harness.executor(root, {"a": command}, grace_seconds=7.5) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", slots=(1, 3))])
        watch.until_finished([harness.spec("a")])
    ranks = environments(root, "a")
    assert [rank["RANK"] for rank in ranks] == ["0", "1"]
    assert [rank["LOCAL_RANK"] for rank in ranks] == ["0", "1"]
    assert [rank["CUDA_VISIBLE_DEVICES"] for rank in ranks] == ["1", "3"]
    for rank in ranks:
        told = {
            "WORLD_SIZE": "2",
            "LOCAL_WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "SHOCKWAVE_JOB": "a",
            "SHOCKWAVE_GENERATION": "1",
            "SHOCKWAVE_DIR": str(executor.folder("a")),
            "SHOCKWAVE_GRACE_SECONDS": "7.5",
            "OWN": "1",
            "CWD": str(tmp_path),
        }
        assert {name: rank.get(name) for name in told} == told
        assert not {"SHOCKWAVE_TOKEN", "FROM_OUTSIDE"} & set(rank)
        assert 0 < int(rank["MASTER_PORT"]) < 65536
    assert len({rank["MASTER_PORT"] for rank in ranks}) == 1
    assert len({rank["GROUP"] for rank in ranks}) == 1
    assert ranks[0]["GROUP"] != str(os.getpgid(0))


def test_gangs_that_run_at_once_never_see_the_same_gpu(tmp_path: Path) -> None:
    root = tmp_path / "root"
    command = harness.script(tmp_path, DUMP + "time.sleep(0.3)")
    nodes = (Node("n0", 2), Node("n1", 2))
    orders = [
        Launch(0, harness.spec("a", 3), (("n0", (0, 1)), ("n1", (0,))), 1),
        Launch(1, harness.spec("b", 1), (("n1", (1,)),), 1),
    ]
    with harness.executor(root, {"a": command, "b": command}, nodes=nodes) as executor:
        watch = harness.watch(executor)
        watch.launch(orders)
        watch.until_finished([order.job for order in orders])
    a, b = environments(root, "a"), environments(root, "b")
    devices = [rank["CUDA_VISIBLE_DEVICES"] for rank in (*a, *b)]
    assert devices == ["0", "1", "2", "3"]
    assert [rank["LOCAL_RANK"] for rank in a] == ["0", "1", "0"]
    assert a[0]["MASTER_PORT"] != b[0]["MASTER_PORT"]


def test_slots_may_stand_for_other_devices(tmp_path: Path) -> None:
    slots = Slots(tmp_path, (Node("n0", 1), Node("n1", 2)), ["GPU-a", "GPU-b", "GPU-c"])
    ranks = slots.part((("n1", (1,)), ("n0", (0,))), [Part("n1", [{}]), Part("n0", [{}])]).ranks
    assert [rank["CUDA_VISIBLE_DEVICES"] for rank in ranks] == ["GPU-c", "GPU-a"]
    with pytest.raises(InputError, match="a device for each of 2 GPU slots"):
        Slots(tmp_path, (Node("n0", 2),), ["GPU-a"])


def test_a_slot_that_the_machine_does_not_have_is_refused(tmp_path: Path) -> None:
    slots = Slots(tmp_path, (Node("n0", 2),))
    assert slots.problem((("n0", (0, 1)),)) is None
    assert slots.problem((("n0", (2,)),)) == "node n0 has 2 slots, not (2,)"
    assert slots.problem((("n7", (0,)),)) == "node n7 is not one of this machine (n0)"
    assert slots.problem(()) is None  # a job without GPUs


def test_a_job_can_be_interrupted_like_any_program(tmp_path: Path) -> None:
    """What its supervisor shrugs off must still reach the job."""
    command = harness.script(
        tmp_path, "import signal, sys; sys.exit(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    )
    with harness.executor(tmp_path / "root", {"a": command}) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a")])
        watch.until_finished([harness.spec("a")])


def test_a_slot_is_free_before_the_next_gang_starts_on_it(tmp_path: Path) -> None:
    """The first job needs a while to save; the second must not share its GPU meanwhile."""
    slow = (
        "import signal, sys, time, pathlib\n"
        "def save(*_):\n"
        "    time.sleep(0.5)\n"
        f"    pathlib.Path({str(tmp_path)!r}, 'saved').touch()\n"
        "    sys.exit()\n"
        "signal.signal(signal.SIGTERM, save)\n"
        f"pathlib.Path({str(tmp_path)!r}, 'runs').touch()\n"
        "while True: time.sleep(0.01)\n"
    )
    looks = f"import pathlib, sys; sys.exit(not pathlib.Path({str(tmp_path)!r}, 'saved').exists())"
    commands = {"a": harness.script(tmp_path, slow), "b": harness.script(tmp_path, looks)}
    with harness.executor(tmp_path / "root", commands) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a")])
        harness.wait_until((tmp_path / "runs").exists)
        executor.stop(np.array([0]))
        watch.launch([harness.order("b", handle=1)])
        watch.until_finished([harness.spec("b")])
        assert not watch.of(JobStopped)


def test_a_launch_waits_for_the_last_checkpoint_of_the_one_before(tmp_path: Path) -> None:
    with harness.executor(tmp_path / "root", {"a": harness.tiny(tmp_path)}) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a")])
        watch.until(lambda: watch.epochs(0) >= 1)
        executor.stop(np.array([0]))
        watch.launch([harness.order("a", attempt=2)])
        lease = JobFolder.of(tmp_path / "root", "a").lease()
        assert lease is not None
        assert lease.generation == 2
        assert last_report(executor.folder("a")) == "stopped"  # it was not refused its save
        watch.until_finished([harness.spec("a")])
        assert watch.epochs_done(0) == sorted(watch.epochs_done(0))


def test_a_job_that_ignores_being_asked_is_killed_and_loses_what_it_did_not_save(
    tmp_path: Path,
) -> None:
    stubborn = harness.tiny(tmp_path, epochs=6, seconds=0.1, save_every=2, stubborn=1)
    root = tmp_path / "root"
    with harness.executor(root, {"a": stubborn}, grace_seconds=0.05) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", epochs=6)])
        watch.until(lambda: watch.epochs(0) >= 3)
        executor.stop(np.array([0]))
        folder = JobFolder.of(root, "a")
        harness.wait_until(lambda: folder.exit_record(1) is not None)
        record = folder.exit_record(1)
        assert record is not None
        assert (record.killed, record.codes) == (True, [-signal.SIGKILL])
        watch.until(lambda: watch.epochs(0) % 2 == 0)  # fell back to what was saved
        saved = folder.saved_epochs()
        assert watch.epochs(0) == saved >= 2
        watch.launch([harness.order("a", attempt=2, epochs=6)])
        watch.until_finished([harness.spec("a")])
        assert not watch.of(JobStopped)
        finished = watch.of(JobFinished)[0]
        assert watch.total("productive_seconds") == pytest.approx(finished.exclusive_seconds)
        first_report = json.loads((folder.path / "reports-2.jsonl").read_text().splitlines()[0])
        assert (first_report["event"], first_report["epoch"]) == ("started", saved)


def test_a_rank_that_dies_takes_its_gang_along(tmp_path: Path) -> None:
    command = harness.tiny(tmp_path, epochs=1000, crash="1:1")
    with harness.executor(tmp_path / "root", {"a": command}) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", slots=(0, 1, 2), epochs=1000)])
        watch.until(lambda: bool(watch.of(JobStopped)))
        (stop,) = watch.of(JobStopped)
        assert stop.reason is StopReason.CRASHED
        assert "rank 1 exited with code 3" in stop.detail
        assert "rank 1 runs into a wall" in stop.detail
        assert JobFolder.of(tmp_path / "root", "a").living_generations() == []


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (signal.SIGKILL, StopReason.KILLED),
        (signal.SIGINT, StopReason.KILLED),
        (signal.SIGSEGV, StopReason.CRASHED),
        (signal.SIGABRT, StopReason.CRASHED),
    ],
)
def test_a_rank_that_others_kill_has_not_crashed(
    tmp_path: Path, number: signal.Signals, reason: StopReason
) -> None:
    # What rank 1 does when its peer is gone says nothing about the cause.
    peer = (
        "import os, signal, time\n"
        "if os.environ['RANK'] == '0':\n"
        "    signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        "    open('pid.new', 'w').write(str(os.getpid()))\n"
        "    os.rename('pid.new', 'pid')\n"
        "    time.sleep(600)\n"
        "while not os.path.exists('pid'): time.sleep(0.01)\n"
        "pid = int(open('pid').read())\n"
        f"time.sleep(0.2); os.kill(pid, {int(number)})\n"
        "try:\n"
        "    while open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[0] != 'Z': pass\n"
        "except OSError: pass\n"
        "os._exit(7)"
    )
    commands = {"a": harness.script(tmp_path, peer)}
    with harness.executor(tmp_path / "root", commands) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", slots=(0, 1))])
        watch.until(lambda: bool(watch.of(JobStopped)))
        (stop,) = watch.of(JobStopped)
        assert stop.reason is reason
        assert f"rank 0 was killed by {number.name}" in stop.detail


def test_what_a_job_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    """A helper in a session of its own would keep the GPU."""
    leaves = (
        "import subprocess, sys, pathlib\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],"
        " start_new_session=True)\n"
        f"pathlib.Path({str(tmp_path)!r}, 'pid').write_text(str(child.pid))\n"
    )
    commands = {"a": harness.script(tmp_path, leaves)}
    with harness.executor(tmp_path / "root", commands) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a")])
        watch.until_finished([harness.spec("a")])
        pid = int((tmp_path / "pid").read_text())
        assert start_ticks(pid) is None


def test_a_gang_whose_supervisor_is_killed_does_not_run_on_unseen(tmp_path: Path) -> None:
    command = harness.tiny(tmp_path, epochs=1000)
    with harness.executor(tmp_path / "root", {"a": command}) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", epochs=1000)])
        watch.until(lambda: watch.epochs(0) >= 1)
        folder = JobFolder.of(tmp_path / "root", "a")
        who = folder.processes(1)
        assert who is not None
        os.kill(who.pid, signal.SIGKILL)
        watch.until(lambda: bool(watch.of(JobStopped)))
        (stop,) = watch.of(JobStopped)
        assert stop.reason is StopReason.KILLED
        assert stop.epochs_done >= 1
        assert start_ticks(who.ranks[0]) is None


def test_a_job_stopped_by_somebody_else_is_neither_finished_nor_crashed(tmp_path: Path) -> None:
    command = harness.tiny(tmp_path, epochs=1000)
    with harness.executor(tmp_path / "root", {"a": command}) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", epochs=1000)])
        watch.until(lambda: watch.epochs(0) >= 1)
        who = JobFolder.of(tmp_path / "root", "a").processes(1)
        assert who is not None
        os.kill(who.ranks[0], signal.SIGTERM)
        watch.until(lambda: bool(watch.of(JobStopped)))
        assert [event.reason for event in watch.of(JobStopped)] == [StopReason.PREEMPTED]


def test_a_job_that_is_done_when_it_is_asked_to_stop_is_finished(tmp_path: Path) -> None:
    finishes = (
        "import json, os, signal, sys, time\n"
        "def end(*_):\n"
        "    line = {'time': time.time(), 'event': 'done', 'epoch': 4}\n"
        "    with open(os.environ['SHOCKWAVE_DIR'] + '/reports-1.jsonl', 'a') as file:\n"
        "        file.write(json.dumps(line) + '\\n')\n"
        "    sys.exit()\n"
        "signal.signal(signal.SIGTERM, end)\n"
        f"open({str(tmp_path / 'runs')!r}, 'w').close()\n"
        "while True: time.sleep(0.01)\n"
    )
    commands = {"a": harness.script(tmp_path, finishes)}
    with harness.executor(tmp_path / "root", commands) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a")])
        harness.wait_until((tmp_path / "runs").exists)
        executor.stop(np.array([0]))
        watch.until_finished([harness.spec("a")])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"argv": ("no-such-program",)}, "cannot start 'no-such-program': .*No such file"),
        ({"argv": (__file__,)}, "cannot start .*Permission denied"),
        ({"argv": ("python3", "a\0b")}, "cannot start 'python3': embedded null byte"),
        ({"argv": ()}, "its command is empty"),
        ({"workdir": "/no/such/folder"}, "the working directory does not exist: /no/such/folder"),
        ({"env": {"A=B": "c"}}, "illegal environment variable name"),
    ],
    ids=["missing", "not executable", "nul", "empty", "workdir", "env"],
)
def test_a_command_that_cannot_work_is_that_jobs_crash(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    good = harness.tiny(tmp_path, epochs=1)
    fields = {"argv": good.argv, "workdir": good.workdir, "env": good.env} | change
    bad = Command(**fields)  # type: ignore[arg-type]
    with harness.executor(tmp_path / "root", {"bad": bad, "good": good}) as executor:
        watch = harness.watch(executor)
        orders = [harness.order("bad"), harness.order("good", handle=1, slots=(1,), epochs=1)]
        orders.append(harness.order("unknown", handle=2, slots=(2,)))
        watch.launch(orders)
        watch.until(lambda: len(watch.of(JobStopped)) == 2)
        watch.until_finished([harness.spec("good")])
        stops = {stop.job: stop for stop in watch.of(JobStopped)}
        assert {stop.reason for stop in stops.values()} == {StopReason.CRASHED}
        assert re.search(said, stops["bad"].detail)
        assert "there is no command for it: KeyError('unknown')" in stops["unknown"].detail


def test_a_lease_that_cannot_be_written_names_the_file_and_spares_the_others(
    tmp_path: Path,
) -> None:
    command = harness.tiny(tmp_path, epochs=1)
    with harness.executor(tmp_path / "root", {"a": command, "b": command}) as executor:
        blocked = executor.folder("a") / "lease.json"
        blocked.mkdir(parents=True)  # as unwritable as on a full disk
        watch = harness.watch(executor)
        with pytest.raises(ExecutorError, match=r"'a' was not started: .*/a/lease\.json cannot"):
            watch.launch([harness.order("a"), harness.order("b", handle=1, slots=(1,), epochs=1)])
        watch.until_finished([harness.spec("b")])
        (stop,) = watch.of(JobStopped)
        assert (stop.job, stop.reason) == ("a", StopReason.KILLED)  # not the job's fault


def test_a_shutdown_lets_jobs_save_or_run_on(tmp_path: Path) -> None:
    root = tmp_path / "root"
    command = harness.tiny(tmp_path, epochs=1000)
    folder = JobFolder.of(root, "a")
    with harness.executor(root, {"a": command}) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", epochs=1000)])
        watch.until(lambda: watch.epochs(0) >= 1)
        executor.shutdown(stop_jobs=False)
        assert folder.living_generations() == [1]
    with harness.executor(root, {"a": command}) as executor:
        executor.adopt([harness.order("a", epochs=1000)])
        executor.shutdown(stop_jobs=True)
        assert folder.living_generations() == []
    assert last_report(folder.path) == "stopped"


def test_output_is_bounded(tmp_path: Path) -> None:
    noisy = harness.script(tmp_path, "for i in range(20_000): print('line', i)")
    settings = GangSettings(grace_seconds=5.0, log_bytes=10_000, log_backups=2)
    with harness.executor(tmp_path / "root", {"a": noisy}, settings=settings) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a")])
        watch.until_finished([harness.spec("a")])
        logs = sorted(executor.log("a").parent.glob("rank-*.log*"))
        assert [path.name for path in logs] == ["rank-0.log", "rank-0.log.1", "rank-0.log.2"]
        assert all(path.stat().st_size <= 10_000 for path in logs)
        assert executor.log("a").read_text().endswith("line 19999\n")


@pytest.mark.parametrize(
    "mischief",
    [
        "os.mkfifo(f'{folder}/reports-1.jsonl')",
        "os.symlink('/dev/zero', f'{folder}/reports-1.jsonl')",
        "os.remove(f'{folder}/lease.json'); os.mkfifo(f'{folder}/lease.json')",
        "shutil.rmtree(folder)",
    ],
    ids=["pipe", "link", "lease", "folder"],
)
def test_a_job_that_makes_a_mess_of_its_folder_harms_only_itself(
    tmp_path: Path, mischief: str
) -> None:
    bad = (
        "import os, shutil, time\n"
        "folder = os.environ['SHOCKWAVE_DIR']\n"
        f"{mischief}\n"
        f"open({str(tmp_path / 'done')!r}, 'w').close()\n"
        "time.sleep(600)\n"
    )
    commands = {"bad": harness.script(tmp_path, bad), "good": harness.tiny(tmp_path)}
    with harness.executor(tmp_path / "root", commands) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("bad"), harness.order("good", handle=1, slots=(1,))])
        harness.wait_until((tmp_path / "done").exists)
        watch.until_finished([harness.spec("good")])
        assert not watch.of(JobStopped)
        executor.stop(np.array([0]))
        # Its GPU is free again.
        watch.launch([harness.order("good", handle=1, attempt=2)])
        watch.until_finished([harness.spec("good")])

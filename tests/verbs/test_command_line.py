"""The commands as people type them, against a real scheduler over HTTP."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.verbs.live import (
    Shockwave,
    command_line,
    config,
    known,
    running,
    script,
    state_is,
    still,
    submit,
    until_over,
    wait_for,
)

from shockwave.cli.metrics import sparkline
from shockwave.server.service import Service


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with running(config(tmp_path / "state")) as service:
        yield service


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[Service]:
    """Nothing starts here."""
    with running(still(tmp_path / "state")) as service:
        yield service


@pytest.fixture
def shockwave(service: Service) -> Iterator[Shockwave]:
    with command_line(service) as shockwave:
        yield shockwave


@pytest.fixture
def slowly(quiet: Service) -> Iterator[Shockwave]:
    with command_line(quiet) as shockwave:
        yield shockwave


def ids(output: str) -> list[str]:
    return re.findall(r"j-\d{4}-\w{4}", output)


def test_a_thousand_jobs_of_a_sweep_are_one_request_and_one_line(slowly: Shockwave) -> None:
    result = slowly(
        "sweep", "--name", "big", "--grid", "i=1..1000", "--parallel", "4", "--epochs", "1",
        "--", "echo", "{i}",
    )  # fmt: skip
    assert (result.exit_code, result.stdout) == (0, "big-0001\n"), result.output
    shown = slowly("queue").stdout
    assert "1000 waiting; at most 4 at once" in shown
    assert len(shown.splitlines()) == 2
    assert len(slowly("queue", "--expand", "--limit", "50").stdout.splitlines()) > 50
    jobs = slowly.json("queue", "--group", "big-0001")
    assert [job["name"] for job in jobs[:2]] == ["big-0001", "big-0002"]
    assert len(jobs) == 1000
    assert slowly("set", "--group", "big-0001", "parallel=9").exit_code == 0
    assert "at most 9 at once" in slowly("queue").stdout


def test_a_dry_run_prints_the_commands_and_submits_nothing(slowly: Shockwave) -> None:
    words = ("--list", "lr=0.1 n=1", "--list", "lr=0.2 n=x", "--dry-run", "--epochs", "1")
    result = slowly("sweep", *words, "--", "train", "{lr}", "{n}")
    assert result.stdout.splitlines() == ["train 0.1 1", "train 0.2 x"]
    assert slowly.json("queue") == []
    assert slowly("sweep", "--epochs", "1", "--", "x").exit_code == 2
    bad = slowly("sweep", "--random", "lr=log:0:1", "--count", "3", "--epochs", "1", "--", "{lr}")
    assert bad.exit_code == 2
    assert "matrix.lr" in bad.output


def test_documents_of_one_file_or_standard_input_depend_on_each_other(
    slowly: Shockwave, tmp_path: Path
) -> None:
    text = (
        "name: prepare\ncommand: ['true']\nepochs: 1\n---\n"
        "name: train\ncommand: [echo, '{i}']\nepochs: 1\nafter: [prepare]\n"
        "matrix: {i: [1, 2]}\n---\n"
        "name: report\ncommand: ['true']\nepochs: 1\nafter: [train]\n"
    )
    path = tmp_path / "jobs.yaml"
    path.write_text(text)
    first, sweep, last = slowly.json("submit", str(path))
    (report,) = slowly.json("queue", "--state", "waiting")[-1:]
    assert report["id"] == last["jobs"][0]
    assert report["after"] == sweep["jobs"]
    assert slowly.json("status", sweep["jobs"][0])["after"] == first["jobs"]
    piped = slowly("submit", "-", typed="command: ['true']\nepochs: 1\nworkdir: /\n")
    assert piped.exit_code == 0
    assert len(ids(piped.stdout)) == 1
    bad = slowly("submit", "-", typed="command: ['true']\nepochs: none\n")
    assert bad.exit_code == 2
    assert "standard input, line 2, field epochs" in bad.output


def test_many_jobs_are_cancelled_by_pattern_after_a_question(slowly: Shockwave) -> None:
    for name in ("net-1", "net-2", "other"):
        slowly("submit", "--epochs", "1", "--name", name, "--workdir", "/", "--", "true")
    refused = slowly("cancel", "--name", "net-*")
    assert refused.exit_code == 2
    assert "2 jobs at once need --yes" in refused.output
    assert slowly("cancel", "--name", "net-*", "--yes").exit_code == 0
    assert "no job that is not over fits" in slowly("cancel", "--name", "zzz", "--yes").output
    assert slowly("cancel").exit_code == 2

    def left() -> list[str]:
        return [job["name"] for job in slowly.json("queue")]

    wait_for(lambda: left() == ["other"], "the cancels")
    assert slowly("cancel", "net-1").stdout.endswith(": cancelled\n")
    over = slowly("hold", "net-1")
    assert over.exit_code == 1
    assert "cancelled already" in over.output


def test_a_job_is_held_changed_and_released(slowly: Shockwave) -> None:
    slowly("submit", "--epochs", "1", "--name", "x", "--workdir", "/", "--", "true")
    assert slowly("hold", "x").exit_code == 0
    assert "somebody holds it back" in slowly("why", "x").stdout
    assert slowly("set", "x", "weight=2", "gpus=2").exit_code == 0
    record = slowly.json("status", "x")
    assert (record["weight"], record["gpus"], record["held"]) == (2.0, 2, True)
    assert slowly("set", "x", "gpus=3").exit_code == 2
    assert slowly("set", "x", "colour=red").exit_code == 2
    assert slowly("release", "x").exit_code == 0
    assert not slowly.json("status", "x")["held"]
    assert slowly("requeue", "x").exit_code == 1


def test_an_ambiguous_name_is_an_error_that_lists_who_has_it(slowly: Shockwave) -> None:
    for _ in range(2):
        slowly("submit", "--epochs", "1", "--name", "x", "--workdir", "/", "--", "true")
    for verb in ("status", "why", "logs", "hold", "metrics"):
        result = slowly(verb, "x")
        assert result.exit_code == 2, verb
        assert len(ids(result.output)) == 2
        assert "waiting" in result.output


def test_wait_says_how_it_ended(shockwave: Shockwave, service: Service) -> None:
    good = submit(service, script("print(1)", name="good"))
    bad = submit(service, script("raise SystemExit(3)", name="bad", retries=0))
    assert shockwave("wait", "good").exit_code == 0
    assert shockwave("wait", good, bad).exit_code == 1
    assert [job["state"] for job in _json_of(shockwave, "wait", good, bad)] == [
        "finished", "failed",
    ]  # fmt: skip
    submit(service, script("import time; time.sleep(600)", name="long"))
    late = shockwave("wait", "long", "--timeout", "0.3")
    assert late.exit_code == 1
    assert "not over in time" in late.output
    assert shockwave("wait", "nobody").exit_code == 2
    assert shockwave("wait").exit_code == 2
    assert shockwave("wait", "long", "--timeout", "soon").exit_code == 2


def _json_of(shockwave: Shockwave, *words: str) -> list[dict[str, str]]:
    import json

    found: list[dict[str, str]] = json.loads(shockwave(*words, "--json").stdout)
    return found


def test_run_prints_what_the_job_writes_and_exits_as_it_does(shockwave: Shockwave) -> None:
    result = shockwave("run", "--workdir", "/", "--", "sh", "-c", "echo out; exit 7")
    assert (result.exit_code, result.stdout) == (7, "out\n"), result.output
    assert shockwave("run", "--workdir", "/", "--", "true").exit_code == 0
    assert shockwave("run", "--workdir", "/", "--", "sh", "-c", "kill -9 $$").exit_code == 137
    needs = shockwave("run", "--interactive", "--", "true")
    assert needs.exit_code == 2
    assert "--time-limit" in needs.output


def test_ctrl_c_asks_what_to_do_with_a_job(shockwave: Shockwave, service: Service) -> None:
    """On a real terminal: go on the first time, cancel the second time."""
    import pty

    words = ["run", "--name", "asked", "--workdir", "/", "--", "sh", "-c", "echo up; sleep 600"]
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["SHOCKWAVE_URL"] = shockwave.url
        os.execv(sys.executable, [sys.executable, "-m", "shockwave.cli.main", *words])
    _until(terminal, b"up")
    for answer, then in ((b"g\n", b"Going on."), (b"c\n", b"will be cancelled")):
        os.kill(pid, signal.SIGINT)
        _until(terminal, b"o on? ")
        os.write(terminal, answer)
        _until(terminal, then)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130
    assert until_over(service, "asked").state == "cancelled"


def _until(terminal: int, wanted: bytes) -> bytes:
    shown, deadline = b"", time.monotonic() + 60
    while wanted not in shown:
        ready, _, _ = select.select([terminal], [], [], max(deadline - time.monotonic(), 0))
        assert ready, f"waited in vain for {wanted!r} after {shown!r}"
        try:
            shown += os.read(terminal, 4096)
        except OSError as error:  # its other end is closed
            raise AssertionError(f"no {wanted!r} after {shown!r}") from error
    return shown


def test_a_shell_is_a_job_that_one_can_leave_and_come_back_to(
    shockwave: Shockwave, service: Service
) -> None:
    started = shockwave("shell", "--time-limit", "1h", "--workdir", "/", "--detached", "--", "sh")
    assert started.exit_code == 0, started.output
    environment = os.environ | {"SHOCKWAVE_URL": shockwave.url}
    attach = [sys.executable, "-m", "shockwave.cli.main", "attach", "shell"]

    def talk(typed: bytes) -> tuple[int, bytes]:
        done = subprocess.run(attach, input=typed, env=environment, capture_output=True, timeout=60)
        return done.returncode, done.stdout

    first = subprocess.Popen(
        attach, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    assert first.stdin is not None
    assert first.stdout is not None
    first.stdin.write(b"x=21; echo answer $((x * 2))\n")
    _until(first.stdout.fileno(), b"answer 42")
    first.stdin.write(b"\x1d")  # Ctrl-]
    assert first.wait(60) == 0
    first.stdin.close()
    first.stdout.close()
    assert known(service, "shell").state == "running"
    assert known(service, "shell").preemptible == "never"
    code, shown = talk(b"echo still $x\nexit 5\n")
    assert code == 5
    assert b"still 21" in shown
    assert shockwave("shell", "--", "sh").exit_code == 2  # without a time limit


def test_logs_of_a_preempted_job_tell_its_launches_apart(
    shockwave: Shockwave, service: Service
) -> None:
    says = "import os, time; print('at', os.environ['SHOCKWAVE_GENERATION'], flush=True)"
    job = submit(service, script(says + "; time.sleep(600)"))
    for launch in (1, 2):
        wait_for(lambda n=launch: f"at {n}" in shockwave("logs", job).output, "its output")  # type: ignore[misc]
        if launch == 1:
            assert shockwave("requeue", job).exit_code == 0
    lines = shockwave("logs", job).stdout.splitlines()
    assert [line.partition(",")[0] for line in lines] == [
        "--- launch 1", "at 1", "--- launch 2", "at 2",
    ]  # fmt: skip
    assert shockwave("logs", job, "--tail", "1", "--json").stdout == '{"line": "at 2"}\n'
    assert shockwave("logs", job, "--since", "1h").stdout.count("at ") == 2
    assert re.search(r"^\d{4}-\d\d-\d\d .* at 2$", shockwave("logs", job, "--times").stdout, re.M)
    assert shockwave("logs", job, "--since", "yesterday").exit_code == 2
    shockwave("cancel", job)
    wait_for(state_is(service, job, "cancelled"), "its end")


def test_metrics_are_drawn_as_a_line(shockwave: Shockwave, service: Service) -> None:
    from tests.verbs.test_live_jobs import REPORTS

    job = submit(service, script(REPORTS, epochs=3))
    until_over(service, job)
    shown = shockwave("metrics", job).stdout
    assert re.search(r"loss +\S+ +1 +0.3333 +0.3333 +1 +3", shown), shown
    assert "TensorBoard: http://localhost:6006/" in shown
    only = shockwave.json("metrics", job, "--only", "top1")["metrics"]
    assert [point["value"] for point in only["top1"]] == [1.0, 2.0, 3.0]
    assert "loss" not in only
    assert "http://localhost:6006/" in shockwave("status", job).stdout


def test_a_sparkline_is_as_wide_as_it_may_be() -> None:
    assert sparkline(list(range(100)), width=8) == "▁▂▃▄▅▆▇█"
    assert sparkline([3.0, 3.0]) == "▁▁"


VERBS = (
    "submit", "sweep", "run", "shell", "attach", "queue", "status", "why", "logs", "metrics",
    "wait", "cancel", "hold", "release", "requeue", "set", "nodes", "drain",
)  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_explains_itself(verb: str) -> None:
    result = Shockwave("http://127.0.0.1:1")(verb, "-h")
    assert result.exit_code == 0
    assert "Usage" in result.output

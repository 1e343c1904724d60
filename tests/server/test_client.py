"""The commands that speak to a scheduler, against one that listens."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.server.live import listening
from tests.server.scripted import ScriptedScheduler
from typer.testing import CliRunner, Result

from shockwave.cli.main import app
from shockwave.server.app import create_app
from shockwave.server.records import Submission
from shockwave.server.submissions import command_of, submission_of
from shockwave.server.tokens import hash_token, new_token

OPERATOR = new_token()
Shockwave = Callable[..., Result]


@contextmanager
def client_of(scheduler: ScriptedScheduler) -> Iterator[tuple[Shockwave, ScriptedScheduler]]:
    """Runs a command as a person would, with the address and the token in the environment."""

    def run(*arguments: object, **environment: str) -> Result:
        given = {"SHOCKWAVE_URL": url, "SHOCKWAVE_TOKEN": OPERATOR} | environment
        return CliRunner().invoke(app, [str(item) for item in arguments], env=given)

    with (
        closing(scheduler),
        listening(create_app(scheduler, token_hash=hash_token(OPERATOR))) as url,
    ):
        yield run, scheduler


@pytest.fixture
def client(tmp_path: Path) -> Iterator[tuple[Shockwave, ScriptedScheduler]]:
    state_dir = tmp_path / "state"
    state_dir.mkdir()
    with client_of(ScriptedScheduler(state_dir)) as both:
        yield both


@pytest.fixture
def shockwave(client: tuple[Shockwave, ScriptedScheduler]) -> Shockwave:
    return client[0]


@pytest.fixture
def scheduler(client: tuple[Shockwave, ScriptedScheduler]) -> ScriptedScheduler:
    return client[1]


def submitted(scheduler: ScriptedScheduler, job: str) -> Submission:
    stored = scheduler.store.job(job)
    assert stored is not None
    return submission_of(job, stored.submission)


def parsed(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def one_line(result: Result, code: int) -> str:
    """The error of a command: one line on standard error, nothing else anywhere."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    message = result.stderr.strip()
    assert message.startswith("error: ")
    assert "\n" not in message
    return message


PROFILE = ("--epoch-seconds", "1=60")  # without it nothing is foretold before the first epoch


def test_a_command_is_submitted_with_flags_of_its_own(
    shockwave: Shockwave, scheduler: ScriptedScheduler, tmp_path: Path
) -> None:
    record = parsed(
        shockwave(
            "submit", "--name", "resnet", "--epochs", 20, "--gpus", 2, "--adaptation", "gns",
            "--batch-size", 32, "--batch-size", 64, "--epoch-seconds", "32=4.5",
            "--env", "DATA=/data=x", "--workdir", tmp_path, "--weight", 2, "--json",
            "--notify", "https://a.example.org", "--notify", "https://b.example.org",
            "--notify-on", "late",
            "--", "python", "train.py", "--json", "--", "--gpus", "7",
        )
    )  # fmt: skip
    submission = submitted(scheduler, record["id"])
    assert submission.command == ["python", "train.py", "--json", "--", "--gpus", "7"]
    assert (submission.gpus, submission.epochs, submission.weight) == (2, 20, 2.0)
    assert submission.batch_sizes == [32, 64]
    assert submission.epoch_seconds == {32: 4.5}
    assert submission.env["DATA"] == "", "values stay out of the journal"
    assert scheduler.command_of(record["id"]).env["DATA"] == "/data=x"
    assert submission.workdir == str(tmp_path)
    assert submission.notify == ["https://a.example.org", "https://b.example.org"]
    assert submission.notify_on == ["late"]


def test_a_section_for_an_executor_goes_with_the_job_and_is_refused_by_another(
    tmp_path: Path,
) -> None:
    slurm = ("--slurm", "partition=gpu,debug", "--slurm", "constraint=v100|a100")
    arguments = ("submit", "--epochs", 1, "--json", *slurm, "--", "true")
    with client_of(ScriptedScheduler(tmp_path, executor="slurm")) as (shockwave, scheduler):
        submission = submitted(scheduler, parsed(shockwave(*arguments))["id"])
    options = {"partition": "gpu,debug", "constraint": "v100|a100"}
    assert submission.sections == {"slurm": options}
    command = command_of(submission, environment={}, workdir="/", token="token", user="")
    assert command.options == options
    (tmp_path / "other").mkdir()
    with client_of(ScriptedScheduler(tmp_path / "other")) as (shockwave, _):
        assert "slurm" in one_line(shockwave(*arguments), 2)


def test_a_file_is_submitted_and_flags_win_over_it(
    shockwave: Shockwave, scheduler: ScriptedScheduler, tmp_path: Path
) -> None:
    path = tmp_path / "job.yaml"
    (tmp_path / "code").mkdir()
    path.write_text("command: [python, train.py]\nepochs: 5\nworkdir: code\n")
    result = shockwave("submit", path, "--epochs", 7)
    assert result.exit_code == 0, result.output
    submission = submitted(scheduler, result.stdout.strip())
    assert (submission.epochs, submission.workdir) == (7, str(tmp_path / "code"))
    assert "shockwave why" in result.stderr


def test_a_key_makes_submitting_twice_safe(shockwave: Shockwave) -> None:
    arguments = ("submit", "--epochs", 1, "--key", "trial-9", "--json", "--", "true")
    assert parsed(shockwave(*arguments))["id"] == parsed(shockwave(*arguments))["id"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("submit",), "nothing to submit"),
        (("submit", "--slurm", "gpu", "--", "true"), "--slurm: expected OPTION=VALUE (got 'gpu')"),
        (
            ("submit", "--epochs", 1, "--slurm", "qos=-x", "--", "true"),
            "field slurm.qos: should",
        ),
        (("submit", "missing.yaml"), "missing.yaml: No such file"),
        (("submit", "--", "true"), "field epochs: the field is required"),
        (("submit", "--epochs", 1, "--gpus", -1, "--", "true"), "field gpus"),
        (("submit", "--epochs", 1, "--env", "X", "--", "true"), "say NAME=VALUE"),
        (("submit", "--epochs", 1, "--key", "a b", "--", "true"), "without spaces"),
        (("status", "nobody"), "There is no job 'nobody'"),
        (("status", "../nodes"), "Not Found"),
        (("drain", "moon"), "There is no node 'moon'"),
        (("queue", "--state", "asleep"), "state"),
        (("queue", "--watch", "--json"), "--watch"),
        (("queue", "--url", "nonsense"), "expected a URL"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    shockwave: Shockwave, arguments: tuple[object, ...], said: str
) -> None:
    assert said in one_line(shockwave(*arguments), 2)


def test_the_queue_shows_what_people_ask_about(
    shockwave: Shockwave, scheduler: ScriptedScheduler
) -> None:
    ids = [
        parsed(
            shockwave("submit", "--name", name, "--epochs", 10, *PROFILE, "--json", "--", "true")
        )["id"]
        for name in ("first", "second", "third")
    ]
    scheduler.start("first")
    scheduler.finish("third")
    scheduler.explain(bid=0.1, price=0.2, finish=125.0, fair_finish=100.0)
    result = shockwave("queue")
    rows = [line.split() for line in result.stdout.splitlines()]
    header, first, second = (row for row in rows if row[0] in ("id", *ids))
    assert header == ["id", "name", "state", "GPUs", "progress", "FTF", "start", "finish", "reason"]
    assert first[:6] == [ids[0], "first", "running", "1", "0/10", "0%"]
    assert second[:3] + second[6:7] == [ids[1], "second", "waiting", "1.25"]
    assert "waits: it bids 0.1," in " ".join(result.stdout.split())
    assert "[by others]" in " ".join(result.stdout.split())
    assert "third" not in result.stdout
    assert "third" in shockwave("queue", "--all").stdout
    assert [job["id"] for job in parsed(shockwave("queue", "--json", "--all"))] == ids
    limited = shockwave("queue", "--limit", 1)
    assert "second" not in limited.stdout
    assert "There are more" in limited.stderr


def test_an_empty_queue_says_so(shockwave: Shockwave) -> None:
    result = shockwave("queue")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "No jobs" in result.stderr
    assert parsed(shockwave("queue", "--json")) == []


def test_the_queue_reads_page_after_page(
    shockwave: Shockwave, scheduler: ScriptedScheduler
) -> None:
    submission = Submission(command=["true"], epochs=1)
    ids = [scheduler.submit(submission, None)[0].id for _ in range(2_101)]
    for job in ids[::2]:
        scheduler.finish(job)
    assert [job["id"] for job in parsed(shockwave("queue", "--json", "--all"))] == ids
    assert [job["id"] for job in parsed(shockwave("queue", "--json"))] == ids[1::2]


def test_watching_goes_on_until_it_is_interrupted(
    shockwave: Shockwave, monkeypatch: pytest.MonkeyPatch
) -> None:
    shockwave("submit", "--name", "first", "--epochs", 1, "--", "true")
    pauses: list[float] = []
    sleep = time.sleep

    def pause(seconds: float) -> None:
        if seconds != 3:  # of somebody else, who waits for a process that is slow
            sleep(seconds)
            return
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt
        shockwave("submit", "--name", "second", "--epochs", 1, "--", "true")

    monkeypatch.setattr("shockwave.cli.queue.time.sleep", pause)
    result = shockwave("queue", "--watch", "--every", 3)
    assert result.exit_code == 0
    assert pauses == [3.0, 3.0]
    assert "second" in result.stdout


def test_status_and_why(shockwave: Shockwave, scheduler: ScriptedScheduler) -> None:
    shockwave("submit", "--name", "resnet", "--epochs", 10, *PROFILE, "--", "true")
    shockwave("submit", "--name", "other", "--epochs", 10, *PROFILE, "--", "true")
    scheduler.start("resnet")
    shown = shockwave("status", "resnet").stdout
    assert "1 on node-0" in shown
    assert parsed(shockwave("status", "resnet", "--json"))["state"] == "running"
    scheduler.explain(bid=0.75, price=0.5, finish=200.0, fair_finish=100.0)
    shown = shockwave("why", "resnet").stdout
    assert shown.startswith("runs: it bids 0.75, and a GPU-round costs 0.5 ([by others])")
    assert "2.000 (egalitarian)" in shown
    scheduler.fail("resnet", "Traceback (most recent call last):", "[Errno 12] out of memory")
    shown = shockwave("why", "resnet").stdout
    assert shown.startswith("failed: kept crashing: exit code 1\n")
    assert "[Errno 12] out of memory" in shown
    assert parsed(shockwave("why", "resnet", "--json"))["last_log_lines"][1].startswith("[Errno")


def test_logs_are_printed_as_they_are(shockwave: Shockwave, scheduler: ScriptedScheduler) -> None:
    shockwave("submit", "--name", "only", "--epochs", 1, "--", "true")
    assert "no output of rank 0 yet" in one_line(shockwave("logs", "only"), 2)
    scheduler.write_log("only", "epoch 1 [bold]\nepoch 2\nno end")
    scheduler.write_log("only", "other\n", rank=3)
    assert shockwave("logs", "only").stdout == "epoch 1 [bold]\nepoch 2\nno end"
    assert shockwave("logs", "only", "--rank", 3).stdout == "other\n"
    assert shockwave("logs", "only", "-n", 2).stdout == "epoch 2\nno end"
    objects = [json.loads(line) for line in shockwave("logs", "only", "--json").stdout.splitlines()]
    assert [item["line"] for item in objects] == ["epoch 1 [bold]", "epoch 2", "no end"]
    scheduler.finish("only")
    assert shockwave("logs", "only", "-f").stdout == "epoch 1 [bold]\nepoch 2\nno end"


def test_cancel_nodes_and_drain(shockwave: Shockwave, scheduler: ScriptedScheduler) -> None:
    job = parsed(shockwave("submit", "--epochs", 1, "--json", "--", "true"))["id"]
    assert shockwave("cancel", job).stdout.startswith(f"{job}: will be cancelled")
    scheduler.obey_cancel(job)
    assert shockwave("cancel", job).stdout == f"{job}: cancelled\n"
    done = parsed(shockwave("submit", "--epochs", 1, "--json", "--", "true"))["id"]
    scheduler.finish(done)
    assert "the job has finished already" in one_line(shockwave("cancel", done), 1)
    listing = shockwave("nodes").stdout
    assert "node-1" in listing
    assert "others" not in listing  # there are none
    assert "is being drained" in shockwave("drain", "node-1").stdout
    assert [node["state"] for node in parsed(shockwave("nodes", "--json"))] == ["up", "drained"]
    assert parsed(shockwave("drain", "--resume", "node-1", "--json"))["state"] == "up"


def test_gpus_that_others_hold_are_listed(
    shockwave: Shockwave, scheduler: ScriptedScheduler
) -> None:
    scheduler.occupy("node-1", 3)
    rows = [line.split() for line in shockwave("nodes").stdout.splitlines()]
    assert rows == [
        ["node", "state", "GPUs", "busy", "held", "by", "others"],
        ["node-0", "up", "4", "0", "0"],
        ["node-1", "up", "4", "0", "3"],
    ]


def test_a_wrong_token_says_how_to_give_the_right_one(shockwave: Shockwave) -> None:
    for wrong in ("wrong", ""):
        message = one_line(shockwave("queue", SHOCKWAVE_TOKEN=wrong), 1)
        assert "SHOCKWAVE_TOKEN" in message
        assert wrong not in message or not wrong


def test_no_server_is_one_line_with_the_address_and_the_next_step(shockwave: Shockwave) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    for arguments in (("queue",), ("logs", "only"), ("submit", "--epochs", 1, "--", "true")):
        message = one_line(
            shockwave(*arguments, "--url", url)
            if arguments[0] != "submit"
            else shockwave(*arguments, SHOCKWAVE_URL=url),
            1,
        )
        assert url in message
        assert "Connection refused" in message
        assert "shockwave serve" in message


def test_the_client_needs_no_web_server_and_no_database() -> None:
    speaking = (
        "submit sweep run shell attach queue status why logs metrics wait what-if set cancel hold "
        "release requeue nodes drain tenants open"
    )
    script = (
        "import sys, shockwave.server.jobfile\n"
        "from shockwave.cli.main import Commands\n"
        f"for name in {speaking.split()}: Commands.late[name].load(name)\n"
        "heavy = {'fastapi', 'uvicorn', 'starlette', 'sqlalchemy', 'prometheus_client', 'numpy'}\n"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


class Stranger(BaseHTTPRequestHandler):
    """Some other web server; sends those who ask for jobs elsewhere."""

    def do_GET(self) -> None:
        if "jobs" in self.path:
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:9/")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"<html")

    def log_message(self, *_: Any) -> None:
        pass


def test_another_server_is_recognised_and_its_redirects_are_not_followed(
    shockwave: Shockwave,
) -> None:
    with HTTPServer(("127.0.0.1", 0), Stranger) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            for command in ("nodes", "queue"):
                message = one_line(shockwave(command, "--url", url), 1)
                assert "not a Shockwave scheduler" in message
        finally:
            server.shutdown()
            thread.join()

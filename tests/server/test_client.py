"""The commands that speak to a scheduler, against one that listens."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.server.live import listening
from tests.server.scripted import STARTED_UNIX, MemoryScheduler
from typer.testing import CliRunner, Result

from shockwave.cli.live import register
from shockwave.server.app import create_app
from shockwave.server.submissions import command_of
from shockwave.server.tokens import hash_token, new_token

OPERATOR = new_token()
Shockwave = Callable[..., Result]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MemoryScheduler, str]]:
    scheduler = MemoryScheduler(tmp_path_factory.mktemp("logs"))
    with listening(create_app(scheduler, token_hash=hash_token(OPERATOR))) as url:
        yield scheduler, url


@pytest.fixture
def scheduler(shared: tuple[MemoryScheduler, str]) -> MemoryScheduler:
    shared[0].entries.clear()
    return shared[0]


@pytest.fixture
def shockwave(shared: tuple[MemoryScheduler, str], scheduler: MemoryScheduler) -> Shockwave:
    """Runs a command as a person would, with the address and the token in the environment."""
    app = typer.Typer()
    register(app)

    def run(*arguments: object, **environment: str) -> Result:
        given = {"SHOCKWAVE_URL": shared[1], "SHOCKWAVE_TOKEN": OPERATOR} | environment
        return CliRunner().invoke(app, [str(item) for item in arguments], env=given)

    return run


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


def test_a_command_is_submitted_with_flags_of_its_own(
    shockwave: Shockwave, scheduler: MemoryScheduler, tmp_path: Path
) -> None:
    record = parsed(
        shockwave(
            "submit", "--name", "resnet", "--epochs", 20, "--gpus", 2, "--adaptation", "gns",
            "--batch-size", 32, "--batch-size", 64, "--epoch-seconds", "32=4.5",
            "--env", "DATA=/data=x", "--workdir", tmp_path, "--weight", 2, "--json",
            "--slurm", "partition=gpu,debug", "--slurm", "constraint=v100|a100",
            "--", "python", "train.py", "--json", "--", "--gpus", "7",
        )
    )  # fmt: skip
    submission = scheduler.entries[record["id"]].submission
    assert submission.command == ["python", "train.py", "--json", "--", "--gpus", "7"]
    assert (submission.gpus, submission.epochs, submission.weight) == (2, 20, 2.0)
    assert submission.batch_sizes == [32, 64]
    assert submission.epoch_seconds == {32: 4.5}
    assert submission.env == {"DATA": "/data=x"}
    assert submission.workdir == str(tmp_path)
    options = {"partition": "gpu,debug", "constraint": "v100|a100"}
    assert submission.sections == {"slurm": options}
    assert command_of(submission, "token").options == options


def test_a_file_is_submitted_and_flags_win_over_it(
    shockwave: Shockwave, scheduler: MemoryScheduler, tmp_path: Path
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("command: [python, train.py]\nepochs: 5\nworkdir: code\n")
    result = shockwave("submit", path, "--epochs", 7)
    assert result.exit_code == 0, result.output
    submission = scheduler.entries[result.stdout.strip()].submission
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
        (("submit", "--epochs", 1, "--gpus", 0, "--", "true"), "field gpus"),
        (("submit", "--epochs", 1, "--env", "X", "--", "true"), "expected NAME=VALUE"),
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
    shockwave: Shockwave, scheduler: MemoryScheduler
) -> None:
    for name in ("first", "second", "third"):
        shockwave("submit", "--name", name, "--epochs", 10, "--gpus", 4, "--", "true")
    scheduler.start("1")
    scheduler.forecast("2", reason="waits: outbid [by 1]", rho=1.25, finish=STARTED_UNIX + 1e10)
    scheduler.finish("3")
    result = shockwave("queue")
    header, first, second = [line.split() for line in result.stdout.splitlines()[:3]]
    assert header == ["id", "name", "state", "GPUs", "progress", "rho", "start", "finish", "reason"]
    assert first[:6] == ["1", "first", "running", "4", "0/10", "0%"]
    assert second[:3] + second[6:7] == ["2", "second", "waiting", "1.25"]
    assert "waits: outbid [by 1]" in " ".join(result.stdout.split())
    assert "third" not in result.stdout
    assert "third" in shockwave("queue", "--all").stdout
    assert [job["id"] for job in parsed(shockwave("queue", "--json", "--all"))] == ["1", "2", "3"]
    limited = shockwave("queue", "--limit", 1)
    assert "second" not in limited.stdout
    assert "There are more" in limited.stderr


def test_an_empty_queue_says_so(shockwave: Shockwave) -> None:
    result = shockwave("queue")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "No jobs" in result.stderr
    assert parsed(shockwave("queue", "--json")) == []


def test_the_queue_reads_page_after_page(shockwave: Shockwave, scheduler: MemoryScheduler) -> None:
    shockwave("submit", "--epochs", 1, "--", "true")
    template = scheduler.entries["1"]
    for number in range(2, 2_502):
        record = template.record.model_copy(update={"id": str(number)})
        scheduler.entries[str(number)] = type(template)(record, template.submission, "")
    ids = [job["id"] for job in parsed(shockwave("queue", "--json"))]
    assert ids == [str(number) for number in range(1, 2_502)]


def test_watching_goes_on_until_it_is_interrupted(
    shockwave: Shockwave, monkeypatch: pytest.MonkeyPatch
) -> None:
    shockwave("submit", "--name", "first", "--epochs", 1, "--", "true")
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt
        shockwave("submit", "--name", "second", "--epochs", 1, "--", "true")

    monkeypatch.setattr("shockwave.cli.queue.time.sleep", pause)
    result = shockwave("queue", "--watch", "--every", 3)
    assert result.exit_code == 0
    assert pauses == [3.0, 3.0]
    assert "second" in result.stdout


def test_status_and_why(shockwave: Shockwave, scheduler: MemoryScheduler) -> None:
    shockwave("submit", "--name", "resnet", "--epochs", 10, "--", "true")
    scheduler.start("1")
    shown = shockwave("status", "resnet").stdout
    assert "1 on node-0" in shown
    assert parsed(shockwave("status", "1", "--json"))["state"] == "running"
    scheduler.forecast("1", reason="runs: it bids enough", bid=0.75, ahead=3)
    shown = shockwave("why", "1").stdout
    assert shown.startswith("runs: it bids enough\n")
    assert "0.75" in shown
    scheduler.fail("1", "Traceback (most recent call last):", "[Errno 12] out of memory")
    assert "[Errno 12] out of memory" in shockwave("why", "1").stdout
    assert parsed(shockwave("why", "1", "--json"))["last_log_lines"][1].startswith("[Errno")


def test_logs_are_printed_as_they_are(shockwave: Shockwave, scheduler: MemoryScheduler) -> None:
    shockwave("submit", "--epochs", 1, "--", "true")
    assert "no output of rank 0 yet" in one_line(shockwave("logs", "1"), 2)
    scheduler.write_log("1", "epoch 1 [bold]\nepoch 2\nno end")
    scheduler.write_log("1", "other\n", rank=3)
    assert shockwave("logs", "1").stdout == "epoch 1 [bold]\nepoch 2\nno end"
    assert shockwave("logs", "1", "--rank", 3).stdout == "other\n"
    assert shockwave("logs", "1", "-n", 2).stdout == "epoch 2\nno end"
    objects = [json.loads(line) for line in shockwave("logs", "1", "--json").stdout.splitlines()]
    assert [item["line"] for item in objects] == ["epoch 1 [bold]", "epoch 2", "no end"]
    scheduler.finish("1")
    assert shockwave("logs", "1", "-f").stdout == "epoch 1 [bold]\nepoch 2\nno end"


def test_cancel_nodes_and_drain(shockwave: Shockwave) -> None:
    shockwave("submit", "--epochs", 1, "--", "true")
    assert shockwave("cancel", "1").stdout == "1: cancelled\n"
    assert "the job is over" in one_line(shockwave("cancel", "1"), 1)
    listing = shockwave("nodes").stdout
    assert "node-1" in listing
    assert "others" not in listing  # there are none
    assert "is being drained" in shockwave("drain", "node-1").stdout
    assert [node["state"] for node in parsed(shockwave("nodes", "--json"))] == ["up", "drained"]
    assert parsed(shockwave("drain", "--resume", "node-1", "--json"))["state"] == "up"


def test_gpus_that_others_hold_are_listed(shockwave: Shockwave, scheduler: MemoryScheduler) -> None:
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
    for arguments in (("queue",), ("logs", "1"), ("submit", "--epochs", 1, "--", "true")):
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
    script = (
        "import sys, shockwave.cli.live\n"
        "heavy = {'fastapi', 'uvicorn', 'starlette', 'sqlalchemy', 'prometheus_client', 'yaml'}\n"
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

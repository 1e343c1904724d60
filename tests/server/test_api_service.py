"""The whole way: a command line, HTTP, a live scheduler, a process that writes."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.live import listening, local_client
from tests.server.services import config, running, slow, tiny, wait_for
from typer.testing import CliRunner

from shockwave.cli.main import app
from shockwave.model.errors import InputError
from shockwave.server.app import create_app
from shockwave.server.service import Service
from shockwave.server.submissions import JobTokens


class Shell:
    """Commands against one service."""

    def __init__(self, service: Service, url: str) -> None:
        self.service = service
        self.url = url

    def run(self, *arguments: object) -> str:
        texts = [str(item) for item in arguments]
        result = CliRunner().invoke(app, texts, env={"SHOCKWAVE_URL": self.url})
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, *arguments: object) -> Any:
        return json.loads(self.run(*arguments, "--json"))


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    settings = config(tmp_path_factory.mktemp("state"), stop_jobs=True)
    with (
        running(settings) as service,
        listening(create_app(service.desk, token_hash=None, fairness_seconds=0.0)) as url,
    ):
        yield Shell(service, url)


def test_a_job_goes_all_the_way_from_a_file_to_its_output(shell: Shell, tmp_path: Path) -> None:
    job = tiny(epochs=2)
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps({"name": "whole-way", "command": job.command, "epochs": 2}))
    submitted = shell.run("submit", path).strip()
    assert submitted in [item["id"] for item in shell.json("queue", "--all")]
    wait_for(lambda: shell.json("status", submitted)["state"] == "finished", "the job to finish")
    record = shell.json("status", "whole-way")
    assert (record["id"], record["epochs_done"], record["crashes"]) == (submitted, 2.0, 0)
    assert shell.json("queue") == []
    assert shell.json("why", submitted)["reason"]
    shell.run("logs", submitted, "-f")
    with urllib.request.urlopen(f"{shell.url}/api/v1/events?follow=false") as events:
        kinds = [
            line[7:-1]
            for line in events.read().decode().splitlines(True)
            if line.startswith("event: ")
        ]
    assert kinds[0] == "run-started"
    assert "job-finished" in kinds
    with urllib.request.urlopen(f"{shell.url}/metrics") as metrics:
        text = metrics.read().decode()
    assert 'shockwave_jobs{state="finished"} 1.0' in text
    assert 'shockwave_finish_time_fairness{definition="static",quantile="1"} ' in text
    assert "shockwave_round_overrun_seconds_count" in text


def test_a_command_is_followed_while_it_runs_and_can_be_cancelled(shell: Shell) -> None:
    code = "import time; print('ready', flush=True); time.sleep(600)"
    job = shell.run("submit", "--epochs", 3, "--", sys.executable, "-c", code).strip()
    wait_for(lambda: shell.json("status", job)["state"] == "running", "the job to run")
    with urllib.request.urlopen(f"{shell.url}/api/v1/jobs/{job}/logs?follow=true") as stream:
        assert stream.readline() == b"ready\n"
    report = json.dumps({"generation": 1, "reports": [{"event": "epoch", "epoch": 1}]}).encode()
    token = JobTokens(shell.service.config.state_dir).token(job)
    request = urllib.request.Request(
        f"{shell.url}/api/v1/jobs/{job}/reports",
        report,
        {"Content-Type": "application/json", "Authorization": f"Bearer {token}"},
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 204
    shell.run("cancel", job)
    wait_for(lambda: shell.json("status", job)["state"] == "cancelled", "the cancellation")


def test_the_refusals_of_the_service_are_problems(tmp_path: Path) -> None:
    with running(slow(tmp_path)) as service:
        client = local_client(create_app(service.desk, token_hash=None))
        fields = tiny().model_dump(mode="json")
        too_big = client.post("/api/v1/jobs", json=fields | {"gpus": 99})
        assert too_big.status_code == 422
        assert "99" in too_big.json()["detail"]
        key = {"Idempotency-Key": "k"}
        first = client.post("/api/v1/jobs", json=fields, headers=key).json()
        assert client.post("/api/v1/jobs", json=fields, headers=key).json()["id"] == first["id"]
        other = client.post("/api/v1/jobs", json=fields | {"epochs": 9}, headers=key)
        assert other.status_code == 422
        token = JobTokens(tmp_path).token(first["id"])
        stale = client.post(
            f"/api/v1/jobs/{first['id']}/reports",
            json={"generation": 0, "reports": []},
            headers={"Authorization": f"Bearer {token}"},
        )
        assert stale.status_code == 409
        with pytest.raises(InputError):
            service.desk.drain("moon", resume=False)
        assert client.post("/api/v1/nodes/moon/drain").status_code == 404

"""A real scheduler on this machine, with real processes, and the command line in front of it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.server.live import listening
from typer.testing import CliRunner, Result

from shockwave.cli.journals import open_store
from shockwave.cli.main import app
from shockwave.model.events import Event
from shockwave.server.app import create_app
from shockwave.server.config import ServeConfig, load_config
from shockwave.server.records import JobRecord, Submission
from shockwave.server.service import Service

_PATIENCE_SECONDS = 90.0  # how long a test waits for what must happen


def config(state_dir: Path, **settings: Any) -> ServeConfig:
    quick = {
        "state_dir": state_dir,
        "slots": 2,
        "policy": "las",
        "round_seconds": 0.25,
        "restart_seconds": 0.05,
        "grace_seconds": 5.0,
        "first_back_off_seconds": 0.0,
    }
    return load_config(flags=quick | settings, environment={}).config


def still(state_dir: Path, **settings: Any) -> ServeConfig:
    """Nothing starts: there is one round an hour."""
    return config(state_dir, round_seconds=3600.0, starts="rounds", **settings)


@contextmanager
def running(settings: ServeConfig) -> Iterator[Service]:
    service = Service(settings)
    service.start()
    try:
        yield service
    finally:
        service.stop(stop_jobs=True)


@dataclass
class Shockwave:
    """``shockwave`` as a person types it, against one scheduler."""

    url: str

    def __call__(self, *words: str, typed: str | None = None) -> Result:
        environment = {"SHOCKWAVE_URL": self.url, "COLUMNS": "200"}
        return CliRunner().invoke(app, list(words), env=environment, input=typed)

    def json(self, *words: str) -> Any:
        result = self(*words, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


@contextmanager
def command_line(service: Service) -> Iterator[Shockwave]:
    with listening(create_app(service.desk)) as url:
        yield Shockwave(url)


def script(text: str, *, epochs: int = 1, **fields: Any) -> Submission:
    """A job that runs this Python program."""
    return Submission(
        command=[sys.executable, "-I", "-S", "-c", text], epochs=epochs, workdir="/", **fields
    )


def submit(service: Service, submission: Submission) -> str:
    return service.desk.submit(submission, None)[0].id


def known(service: Service, job: str) -> JobRecord:
    record = service.desk.job(job)
    assert record is not None
    return record


def state_is(service: Service, job: str, *states: str) -> Callable[[], bool]:
    return lambda: known(service, job).state in states


def until_over(service: Service, job: str) -> JobRecord:
    wait_for(state_is(service, job, "finished", "failed", "cancelled"), f"the end of {job}")
    return known(service, job)


def journal(state_dir: Path) -> list[Event]:
    with closing(open_store(str(state_dir))) as store:
        return [event for _, event in store.events()]


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.02)

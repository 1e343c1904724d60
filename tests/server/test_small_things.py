"""What a person meets on the way: documentation, versions, a full disk, tables for programs."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest
from tests.server.live import local_client
from tests.server.scripted import ScriptedScheduler
from tests.server.services import config, known, running, slow, submit, tiny, wait_for

from shockwave.cli import queue, versions
from shockwave.model.errors import JournalError
from shockwave.server.app import create_app
from shockwave.server.tokens import hash_token, new_token
from shockwave.version import __version__

OPERATOR = new_token()


class FullDisk(ScriptedScheduler):
    """Everything works but writing."""

    error: Exception = JournalError("the database or disk is full. Free some space")

    def submit(self, *_: object, **__: object) -> None:  # type: ignore[override]
        raise self.error


def test_the_documentation_needs_no_network_and_has_every_operation(tmp_path: Path) -> None:
    client = local_client(create_app(ScriptedScheduler(tmp_path), token_hash=hash_token(OPERATOR)))
    page = client.get("/docs")
    document = client.get("/api/v1/openapi.json")
    assert (page.status_code, document.status_code) == (200, 200)
    assert not re.search(r"<(script|link|img|iframe)|url\(|@import", page.text)
    for path in document.json()["paths"]:
        assert path.replace("&", "&amp;") in page.text


def test_every_answer_says_its_version(tmp_path: Path) -> None:
    client = local_client(create_app(ScriptedScheduler(tmp_path), token_hash=hash_token(OPERATOR)))
    for path in ("/healthz", "/docs", "/api/v1/jobs", "/no-such-page"):
        assert client.get(path).headers[versions.HEADER] == __version__


@pytest.mark.parametrize(
    ("server", "tells"), [("0.0.1", True), (__version__, False), ("99.0.0", False), (None, False)]
)
def test_a_newer_command_says_so_once(
    server: str | None, tells: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(versions, "note", said.append)
    monkeypatch.setattr(versions, "_told", False)
    versions.tell_if_older(server)
    versions.tell_if_older(server)
    assert len(said) == int(tells)


@pytest.mark.parametrize(
    "error",
    [
        FullDisk.error,
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
    ],
)
def test_a_full_disk_is_told_to_whoever_submits(tmp_path: Path, error: Exception) -> None:
    scheduler = FullDisk(tmp_path)
    scheduler.error = error
    client = local_client(create_app(scheduler, token_hash=hash_token(OPERATOR)), OPERATOR)
    answer = client.post("/api/v1/jobs", json={"command": ["true"], "epochs": 1, "workdir": "/"})
    assert answer.status_code == 503
    assert "nothing was changed" in answer.json()["detail"]
    assert re.search("full|No space", answer.json()["detail"])


def test_a_watched_queue_is_plain_tables_for_a_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = iter(["first", "second"])

    def table() -> str:
        try:
            return next(looks)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr("shockwave.cli.queue.time.sleep", lambda _: None)
    queue._watch(table, 0.1)
    written = capsys.readouterr().out
    assert written.split() == ["first", "second"]
    assert "\x1b" not in written


def test_a_job_that_waits_for_a_decision_says_when_that_will_be(tmp_path: Path) -> None:
    with running(slow(tmp_path)) as service:
        wait_for(lambda: service._now.loop.round > 0, "the first round to be over")
        job = submit(service, tiny())
        why = known(service, job).why
        assert why.expected_start is not None
        ahead = why.expected_start - service.origin_unix - service._clock.now()
        assert 0 < ahead <= 3600.0


def test_nothing_is_said_of_the_finish_of_a_job_that_nobody_knows_yet(tmp_path: Path) -> None:
    with running(config(tmp_path, policy="shockwave", slots=1, stop_jobs=True)) as service:
        unknown = submit(service, tiny(epochs=1, seconds=60.0))
        profiled = submit(service, tiny(epochs=1, seconds=60.0, epoch_seconds={1: 60.0}))
        wait_for(lambda: known(service, profiled).why.finish is not None, "a forecast")
        wait_for(lambda: "not known before" in known(service, unknown).why.reason, "a decision")
        assert known(service, unknown).why.finish_high is None

"""What only a real connection shows: events as they happen, output as it is written, bodies
that never end."""

from __future__ import annotations

import json
import socket
import threading
import tracemalloc
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest
from tests.server.live import listening
from tests.server.scripted import ScriptedScheduler, eventually

from shockwave.server.app import create_app
from shockwave.server.listener import Listener
from shockwave.server.records import Submission

SUBMISSION = Submission(command=["true"], epochs=1)
NAMED = Submission(command=["true"], epochs=1, name="job")


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[ScriptedScheduler]:
    with closing(ScriptedScheduler(tmp_path)) as scheduler:
        yield scheduler


@pytest.fixture
def url(scheduler: ScriptedScheduler) -> Iterator[str]:
    with listening(create_app(scheduler, token_hash=None)) as address:
        yield address


def open_url(url: str, **headers: str) -> HTTPResponse:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    response: HTTPResponse = urllib.request.urlopen(
        urllib.request.Request(url, headers=names), timeout=30
    )
    return response


def next_event(response: HTTPResponse) -> tuple[int, str, dict[str, Any]]:
    fields: dict[str, str] = {}
    while True:
        line = response.readline().decode()
        assert line, "the stream ended"
        if line == "\n" and "data" in fields:
            return int(fields["id"]), fields["event"], json.loads(fields["data"])
        name, _, value = line.rstrip("\n").partition(": ")
        fields[name] = value


def test_events_come_as_they_happen(url: str, scheduler: ScriptedScheduler) -> None:
    with open_url(f"{url}/api/v1/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert next_event(stream)[:2] == (1, "run-started")
        submitted, _ = scheduler.submit(SUBMISSION, None)
        number, kind, record = next_event(stream)
        assert (number, kind, record["job"]["id"]) == (2, "job-submitted", submitted.id)
        scheduler.start(submitted.id)
        assert next_event(stream)[:2] == (3, "job-started")


def test_a_reader_goes_on_where_the_connection_was_lost(
    url: str, scheduler: ScriptedScheduler
) -> None:
    for _ in range(5):
        scheduler.submit(SUBMISSION, None)
    with open_url(f"{url}/api/v1/events?after=1", Last_Event_ID="4") as stream:
        assert next_event(stream)[0] == 5
        assert next_event(stream)[0] == 6
    with open_url(f"{url}/api/v1/events?after=5&follow=false") as stream:
        assert next_event(stream)[0] == 6
        assert stream.read() == b""


def test_many_readers_leave_the_api_responsive(url: str, scheduler: ScriptedScheduler) -> None:
    """More readers wait than there are threads for requests."""
    readers = [open_url(f"{url}/api/v1/events?after=1") for _ in range(60)]
    try:
        with open_url(f"{url}/api/v1/jobs") as answer:
            assert answer.status == 200
        scheduler.submit(SUBMISSION, None)
        assert [next_event(reader)[0] for reader in readers] == [2] * 60
    finally:
        for reader in readers:
            reader.close()


def test_a_reader_with_nothing_to_read_waits_instead_of_asking(
    url: str, scheduler: ScriptedScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    events, wait = scheduler.events, scheduler.wait_for_events

    def counted_events(after: int, limit: int) -> list[tuple[int, dict[str, Any]]]:
        asked.append("events")
        return events(after, limit)

    def counted_wait(after: int, timeout_seconds: float) -> bool:
        asked.append("wait")
        return wait(after, timeout_seconds)

    monkeypatch.setattr(scheduler, "events", counted_events)
    monkeypatch.setattr(scheduler, "wait_for_events", counted_wait)
    with open_url(f"{url}/api/v1/events"):
        eventually(lambda: asked.count("wait") == 2)
    assert asked.count("events") <= 4


def test_output_is_followed_until_the_job_is_over(url: str, scheduler: ScriptedScheduler) -> None:
    scheduler.submit(NAMED, None)
    scheduler.start("job")
    with open_url(f"{url}/api/v1/jobs/job/logs?follow=true") as stream:
        scheduler.write_log("job", "first\n")
        assert stream.readline() == b"first\n"
        path = scheduler.write_log("job", "second\n")
        assert stream.readline() == b"second\n"
        path.rename(path.with_suffix(".log.1"))
        scheduler.write_log("job", "after the rotation\n")
        assert stream.readline() == b"after the rotation\n"
        scheduler.write_log("job", "last\n")
        scheduler.finish("job")
        assert stream.read() == b"last\n"


def test_following_can_begin_at_the_end(url: str, scheduler: ScriptedScheduler) -> None:
    scheduler.submit(NAMED, None)
    scheduler.write_log("job", "old\nrecent\n")
    with open_url(f"{url}/api/v1/jobs/job/logs?follow=true&tail=1") as stream:
        assert stream.readline() == b"recent\n"
        scheduler.finish("job")
        assert stream.read() == b""


def test_what_was_written_before_the_file_vanished_is_not_lost(
    url: str, scheduler: ScriptedScheduler
) -> None:
    scheduler.submit(NAMED, None)
    path = scheduler.write_log("job", "first\n")
    with open_url(f"{url}/api/v1/jobs/job/logs?follow=true") as stream:
        assert stream.readline() == b"first\n"
        scheduler.write_log("job", "last words\n")
        path.unlink()
        scheduler.finish("job")
        assert stream.read() == b"last words\n"


def test_closing_ends_the_streams_that_would_go_on(scheduler: ScriptedScheduler) -> None:
    scheduler.submit(NAMED, None)
    with listening(create_app(scheduler, token_hash=None)) as url:
        events = open_url(f"{url}/api/v1/events?after=2")
        log = open_url(f"{url}/api/v1/jobs/job/logs?follow=true")
        ends: list[bytes] = []
        readers = [
            threading.Thread(target=lambda stream=stream: ends.append(stream.read()))
            for stream in (events, log)
        ]
        for reader in readers:
            reader.start()
    for reader in readers:
        reader.join(timeout=30)
    assert sorted(ends) == [b"", b"retry: 2000\n\n"]
    events.close()
    log.close()


def test_small_answers_do_not_wait_for_acknowledgements(scheduler: ScriptedScheduler) -> None:
    """asyncio turns the waiting off, but only on sockets whose protocol is named."""
    server = Listener(create_app(scheduler, token_hash=None))
    with socket.create_server(("127.0.0.1", 0)) as unnamed:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [unnamed]})
        thread.start()
        eventually(lambda: server.started)
        protocols = [item.proto for each in server.servers for item in each.sockets]
        server.should_exit = True
        thread.join()
    assert protocols == [socket.IPPROTO_TCP]


def raw(url: str) -> socket.socket:
    host, _, port = url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def answer_of(connection: socket.socket) -> bytes:
    received = b""
    while chunk := connection.recv(65536):
        received += chunk
    return received


HEAD = b"POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


def test_a_body_that_declares_100_megabytes_is_refused_unread(url: str) -> None:
    with raw(url) as connection:
        connection.sendall(HEAD + b"Content-Length: 100000000\r\n\r\n")
        answer = answer_of(connection)  # not a byte of the body was sent
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"application/problem+json" in answer
    assert b"urn:shockwave:problem:body-too-large" in answer


def test_a_body_that_never_ends_is_refused_and_not_kept(url: str) -> None:
    tracemalloc.start()
    try:
        with raw(url) as connection:
            connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
            chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
            sent = 0
            try:
                while sent < 100_000_000:
                    connection.sendall(chunk)
                    sent += 65536
            except OSError:
                pass  # the server closed the connection, as it should
            _, peak = tracemalloc.get_traced_memory()
            assert sent < 100_000_000
            assert peak < 20_000_000
    finally:
        tracemalloc.stop()


def test_chunks_above_the_limit_get_an_answer(url: str) -> None:
    with raw(url) as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        connection.sendall(b"110000\r\n" + b" " * 0x110000 + b"\r\n")  # no end follows
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")

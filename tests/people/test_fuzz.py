"""An ordinary user throws everything at the socket: no way leads to somebody else's job."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from tests.people.test_foreign_jobs import SECRET, HerJob, exchange, hers, raw  # noqa: F401
from tests.people.users import Serve, User, needs_root

from shockwave.cli.client import Client
from shockwave.server.app import create_app
from shockwave.server.door import SchedulerDoor

pytestmark = needs_root
VALUES: list[Any] = [
    "", "0", "-1", "1", "true", "false", "null", "../../secret", "%00", "*", "' or 1=1 --", "root",
    "9" * 30, "waiting", "running",
]  # fmt: skip


def routes() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every operation of the document, with what it says about itself."""

    class Nobody(SchedulerDoor):
        """Only to have an application; nothing is asked of it."""

    Nobody.__abstractmethods__ = frozenset()
    document = create_app(Nobody()).openapi()  # type: ignore[abstract]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield method.upper(), path, operation


def requests(name: str, chance: random.Random) -> Iterator[tuple[str, str, bytes | None]]:
    """All operations on the foreign job, with all kinds of parameters and bodies."""
    for method, path, operation in routes():
        parameters = operation.get("parameters", [])
        queries = [item["name"] for item in parameters if item["in"] == "query"]
        for attempt in range(16):
            job = chance.choice([SECRET, f"{name}/../{name}", name.upper(), f"{name}%00"])
            job = name if attempt % 2 else job
            filled = (
                path.replace("{job}", quote(job, safe="%"))
                .replace("{node}", "n0")
                .replace("{group}", SECRET)
            )
            given = {
                query: "false" if query == "follow" else chance.choice([*VALUES, name, SECRET])
                for query in queries
                if chance.random() < 0.6
            }
            if "follow" in queries:
                given["follow"] = "false"
            address = f"{filled}?{urlencode(given)}" if given else filled
            yield method, address, _body(chance, name) if method in ("POST", "PATCH") else None


def _body(chance: random.Random, name: str) -> bytes:
    reports = [{"time": 1.0, "event": "done", "epoch": 1}]
    fields = {
        "generation": chance.choice([0, 1, 2]),
        "reports": reports,
        "command": ["true"],
        "epochs": 1,
        "owner": "root",
        "tenant": chance.choice(["default", "root", None]),
        "name": SECRET,
        "action": chance.choice(["cancel", "hold", "requeue"]),
        "jobs": chance.choice([[name], [SECRET], [{"command": ["true"], "epochs": 1}]]),
        "parallel": 1,
        "weight": chance.choice([1, 100, -1]),
        "workdir": chance.choice(["/", "/root", "../..", "~root"]),
    }
    chosen = {name: value for name, value in fields.items() if chance.random() < 0.7}
    return json.dumps(chosen).encode()


def test_every_route_keeps_its_secrets(
    serve: Serve,
    hers: HerJob,  # noqa: F811
    bob: User,
) -> None:
    sent = list(requests(hers.name, random.Random(1)))
    assert {path.split("?")[0] for _, path, _ in sent} >= {f"/api/v1/jobs/{hers.name}/logs"}

    def throw() -> list[tuple[str, str, int, bool]]:
        results = []
        for method, path, body in sent:
            answer = exchange(serve.url, method, path, body=body)
            status = int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP") else 0
            # A refusal may repeat the address that was asked for, and no more.
            told = answer.replace(path.split("?")[0].encode(), b"")
            results.append((method, path, status, _leaks(told, path, body)))
        return results

    results = bob.do(throw)
    assert [item for item in results if item[3]] == []
    assert [item for item in results if item[2] >= 500 or item[2] == 0] == []
    acted = [item for item in results if item[1].startswith("/api/v1/jobs/actions")]
    assert {status for _, _, status, _ in acted} <= {400, 403, 404, 422}
    on_hers = [item for item in results if f"/jobs/{hers.name}" in item[1].split("?")[0]]
    assert {status for method, _, status, _ in on_hers if method != "GET"} <= {401, 403, 404, 422}
    record = Client(serve.url).get("jobs", hers.name)
    assert (record["state"], record["starts"], record["epochs_done"]) == ("running", 1, 0.0)


def _leaks(answer: bytes, path: str, body: bytes | None) -> bool:
    """Whether the answer has what he did not say himself."""
    said = SECRET in path or (body is not None and SECRET.encode() in body)
    return SECRET.encode() in answer and not said


def test_noise_on_the_socket_leads_nowhere(
    serve: Serve,
    hers: HerJob,  # noqa: F811
    bob: User,
) -> None:
    chance = random.Random(2)
    good = f"DELETE /api/v1/jobs/{hers.name} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    pieces = [chance.randbytes(chance.randrange(1, 200)) for _ in range(20)]
    for _ in range(60):  # a request that is nearly right
        changed = bytearray((good + "\r\n").encode())
        for _ in range(chance.randrange(1, 4)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        pieces.append(bytes(changed) + b"\r\n\r\n")
    headers = (
        "X-Remote-User: root", "X-Forwarded-For: 127.0.0.1", "Peer-Uid: 0", "peer_uid: 0",
        "Authorization: Bearer ", "Authorization: Basic cm9vdDo=", "Cookie: user=root",
        "X-Forwarded-User: root\r\nVia: unix", "Transfer-Encoding: chunked\r\nContent-Length: 4",
        "Upgrade: websocket\r\nConnection: Upgrade",
    )  # fmt: skip
    pieces += [f"{good}{header}\r\n\r\n".encode() for header in headers]

    def throw() -> bytes:
        return b"".join(raw(serve.url, piece, patience_seconds=0.3)[:4096] for piece in pieces)

    answers = bob.do(throw)
    assert b"HTTP/1.1 2" not in answers
    assert SECRET.encode() not in answers
    assert Client(serve.url).get("jobs", hers.name)["state"] == "running"


@pytest.mark.parametrize("name", ["operator", "root", "uid"])
def test_nothing_that_is_said_makes_one_another(serve: Serve, bob: User, name: str) -> None:
    answer = bob.do(lambda: exchange(serve.url, "GET", f"/api/v1/me?{name}=true&user=root"))
    me = json.loads(answer.split(b"\r\n\r\n", 1)[1])
    assert (me["user"], me["operator"], me["runs_as"]) == (bob.name, False, bob.name)

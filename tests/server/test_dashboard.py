"""What the dashboard asks for: sessions of browsers, the present as it changes, stories, days."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.server.live import listening, local_client
from tests.server.scripted import STARTED_UNIX, ScriptedScheduler

from shockwave.cli.client import Client
from shockwave.model.events import JobStarted, StopReason
from shockwave.server.app import create_app
from shockwave.server.archive import Archive
from shockwave.server.listener import unix_socket
from shockwave.server.people import Credential
from shockwave.server.present import Present, Viewer
from shockwave.server.prospects import prices_ahead
from shockwave.server.records import Submission
from shockwave.server.sessions import CODE_SECONDS, KEY_HEADER, SESSION_SECONDS, Sessions
from shockwave.server.store import Store
from shockwave.server.tokens import hash_token, new_token

TOKEN = new_token()
OPERATOR = Viewer("", operator=True, private_queue=False)
ALICE = Viewer("alice", operator=False, private_queue=False)
BOB = Viewer("bob", operator=False, private_queue=False)


def named(name: str) -> Submission:
    return Submission(command=["true"], epochs=4, name=name, model=f"{name}-model")


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[ScriptedScheduler]:
    with closing(ScriptedScheduler(tmp_path)) as scheduler:
        yield scheduler


@pytest.fixture
def browser(scheduler: ScriptedScheduler) -> TestClient:
    return local_client(create_app(scheduler, token_hash=hash_token(TOKEN)))


# Sessions.


def test_a_session_needs_both_of_its_halves(browser: TestClient) -> None:
    assert browser.get("/api/v1/session").json()["me"] is None
    signed_in = browser.post("/api/v1/session", json={"token": TOKEN})
    cookie = signed_in.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    key = signed_in.json()["key"]
    assert key not in cookie
    assert browser.get("/api/v1/me").status_code == 401, "the cookie alone"
    assert browser.get("/api/v1/me", headers={KEY_HEADER: new_token()}).status_code == 401
    assert browser.get("/api/v1/me", headers={KEY_HEADER: key}).json()["operator"]
    halves = dict(browser.cookies)
    browser.cookies.clear()
    assert browser.get("/api/v1/me", headers={KEY_HEADER: key}).status_code == 401, "the key alone"
    browser.cookies.update(halves)
    browser.delete("/api/v1/session")  # without the key it is somebody else
    assert browser.get("/api/v1/me", headers={KEY_HEADER: key}).status_code == 200
    assert browser.delete("/api/v1/session", headers={KEY_HEADER: key}).status_code == 204
    browser.cookies.update(halves)
    assert browser.get("/api/v1/me", headers={KEY_HEADER: key}).status_code == 401


def test_codes_work_once_and_not_for_long_and_sessions_end() -> None:
    now = [0.0]
    sessions = Sessions(clock=lambda: now[0])
    code, late = sessions.new_code(Credential(7)), sessions.new_code(Credential(8))
    assert sessions.redeem(code) == Credential(7)
    assert sessions.redeem(code) is None
    assert sessions.redeem("guessed") is None
    now[0] = CODE_SECONDS
    assert sessions.redeem(late) is None
    session, other = sessions.begin(Credential(7)), sessions.begin(Credential(8))
    assert sessions.find(session.cookie, session.key) == Credential(7)
    assert sessions.find(session.cookie, other.key) is None
    now[0] += SESSION_SECONDS
    assert sessions.find(session.cookie, session.key) is None


def test_a_link_opens_a_port_where_there_is_none(
    scheduler: ScriptedScheduler, tmp_path: Path, browser: TestClient
) -> None:
    """Over the real socket; whoever opens the link is signed in as its maker, once."""
    assert browser.post("/api/v1/links", headers=bearer(TOKEN)).status_code == 409
    app = create_app(scheduler, token_hash=hash_token(TOKEN))
    with (
        unix_socket(tmp_path / "s", open_to_all=False) as socket,
        listening(app, socket),
    ):
        urls = [Client(f"unix:{tmp_path / 's'}").post("links")["url"] for _ in range(2)]
        place, _, code = urls[0].partition("/#code=")
        assert place == urls[1].partition("/#code=")[0]
        assert place.startswith("http://127.0.0.1:")
        Client(place, TOKEN).post("session", body={"code": code})
        with pytest.raises(Exception, match="used before"):
            Client(place, TOKEN).post("session", body={"code": code})


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_pages_are_for_everybody_and_run_nothing_of_others(browser: TestClient) -> None:
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    for path in ("/", "/queue", "/jobs/j-1", "/plan", "/fairness", "/history"):
        page = browser.get(path, headers={**followed, "Sec-Fetch-Dest": "document"})
        assert page.status_code == 200
        assert '<script type="module" src="/assets/app.js">' in page.text
        assert "default-src 'none'; script-src 'self'" in page.headers["content-security-policy"]
        assert (
            browser.get(path, headers={**followed, "Sec-Fetch-Dest": "iframe"}).status_code == 403
        )
    refused = browser.get("/api/v1/me", headers={**followed, "Sec-Fetch-Dest": "document"})
    assert refused.status_code == 403
    style = browser.get("/assets/report.css")
    assert "--p0:" in style.text
    assert (
        browser.get(
            "/assets/report.css", headers={"If-None-Match": style.headers["etag"]}
        ).status_code
        == 304
    )
    assert browser.get("/assets/..%2fauth.py").status_code == 404


# The present.


@dataclass
class Looking:
    """Somebody who looks, and what they have seen."""

    present: Present
    viewer: Viewer
    version: int = -1

    def next(self) -> dict[str, Any]:
        self.present.look()
        self.version, text = self.present.changes(self.viewer, self.version)
        told: dict[str, Any] = json.loads(text)
        return told


def test_everybody_is_told_what_changed_for_them_and_no_more(scheduler: ScriptedScheduler) -> None:
    hers, his = (scheduler.submit(named(who), None, who)[0].id for who in ("alice", "bob"))
    present = Present(scheduler, create_app(scheduler).state.closing)
    alice, operator = Looking(present, ALICE), Looking(present, OPERATOR)
    hidden = Looking(present, Viewer("bob", operator=False, private_queue=True))
    first = {job["id"]: job for job in alice.next()["jobs"]}
    assert (first[hers]["name"], first[his]["name"], first[his]["owner"]) == ("alice", "", "bob")
    assert "bob-model" not in json.dumps(first)
    assert {job["name"] for job in operator.next()["jobs"]} == {"alice", "bob"}
    assert [job["id"] for job in hidden.next()["jobs"]] == [his]

    scheduler.start(hers)
    changed = alice.next()
    assert [(job["id"], job["state"]) for job in changed["jobs"]] == [(hers, "running")]
    assert sum(map(len, changed["jobs"][0]["slots"].values())) == 1
    assert "nodes" in changed
    assert "totals" in changed
    assert not hidden.next()["jobs"]

    scheduler.finish(hers)
    assert alice.next()["gone"] == [hers]
    assert hidden.next()["gone"] == []
    assert operator.next()["gone"] == [hers]
    nothing = alice.next()
    assert not nothing["jobs"]
    assert not nothing["gone"]
    assert "nodes" not in nothing
    late = Looking(present, BOB)
    assert [job["id"] for job in late.next()["jobs"]] == [his]


def test_a_job_that_anybody_names_stays_text(scheduler: ScriptedScheduler) -> None:
    """A line of the stream is one line, whatever users wrote."""
    evil = "</script>\n\ndata: {}\n"
    scheduler.submit(Submission(command=["true"], epochs=1, model=evil), None, "alice")
    looking = Looking(Present(scheduler, create_app(scheduler).state.closing), OPERATOR)
    looking.present.look()
    _, text = looking.present.changes(OPERATOR, -1)
    assert b"\n" not in text
    assert looking.next()["jobs"][0]["model"] == evil


# Stories and days.


def test_the_price_ahead_is_the_highest_bid_of_those_that_wait() -> None:
    now, early, late = 100.0, 200.0, 300.0
    starts = np.array([[now, early, late], [now, late, early]])  # two futures, three jobs
    bid = np.array([9.0, 4.0, 1.0])
    prices = prices_ahead(now, starts, starts + 50.0, bid)
    assert (prices[0].time, prices[0].low, prices[0].high) == (now, 4.0, 4.0)
    between = next(one for one in prices if early < one.time < late - 60.0)
    assert between.middle == pytest.approx(2.5)  # 1 in the one and 4 in the other
    assert (prices[-1].time, prices[-1].high) == (late, 0.0)
    assert prices_ahead(now, starts[:, :1], starts[:, :1] + 50.0, bid[:1]) == []


def test_the_story_of_a_job_has_its_runs_and_what_ended_them(
    scheduler: ScriptedScheduler, browser: TestClient
) -> None:
    job = scheduler.submit(named("a"), None, "alice")[0].id
    for start, stop in ((10.0, 20.0), (30.0, 45.0)):
        scheduler.now = start
        scheduler.start(job)
        scheduler.now = stop
        if stop < 40:
            scheduler.stop(job, StopReason.PREEMPTED)
    scheduler.finish(job)
    story = browser.get(f"/api/v1/jobs/{job}/story", headers=bearer(TOKEN)).json()
    assert story["runs"] == [
        {"start": STARTED_UNIX + 10, "stop": STARTED_UNIX + 20, "end": "preempted"},
        {"start": STARTED_UNIX + 30, "stop": STARTED_UNIX + 45, "end": "finished"},
    ]


def test_a_day_tells_who_ran_when_and_how_fairly(
    scheduler: ScriptedScheduler, browser: TestClient
) -> None:
    done, runs = (scheduler.submit(named(name), None, "alice")[0].id for name in ("a", "b"))
    scheduler.now = 60.0
    scheduler.start(done)
    scheduler.start(runs)
    scheduler.decide(gpus_busy=2, price=7.0)
    scheduler.now = 180.0
    scheduler.finish(done, exclusive_seconds=120.0)
    scheduler.now = 240.0
    record = browser.get("/api/v1/days/last", headers=bearer(TOKEN)).json()
    jobs = {job["id"]: job for job in record["jobs"]}
    assert jobs[done]["state"] == "finished"
    assert jobs[done]["ftf"]["static"] == pytest.approx(180 / 120)
    assert jobs[runs]["gpu_seconds"] == pytest.approx(180)
    assert sum(record["tenants"].values()) == pytest.approx(300)
    part = (record["end"] - record["begin"]) / len(record["gpus_busy"])
    assert sum(record["gpus_busy"]) * part == pytest.approx(300, rel=1e-3)
    assert {lease["job"] for lease in record["leases"]} == {done, runs}
    assert [price for price in record["price"] if price is not None] == [7.0]
    day = record["first_day"]
    assert (
        browser.get(f"/api/v1/days/{day}", headers=bearer(TOKEN)).json()["jobs"] == record["jobs"]
    )
    assert browser.get("/api/v1/days/1999-01-01", headers=bearer(TOKEN)).status_code == 404
    assert browser.get("/api/v1/days/2024-02-31", headers=bearer(TOKEN)).status_code == 404


def test_a_part_of_the_journal_is_found_in_the_archive_and_after_it(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive", segment_events=10)
    with closing(Store(f"sqlite:///{tmp_path / 'db'}", archive)) as store:
        events = [JobStarted(float(second), f"j{second}", (), 1) for second in range(50)]
        store.append(1, events, 0, [])
        store.archive_events(35.0, 50)
        assert archive.last == 30
        for begin, end in ((0, 50), (7, 23), (15, 41), (33, 36), (48, 90)):
            found = [event.time for _, event in store.events_between(begin, end, ["job-started"])]
            assert found == [float(second) for second in range(begin, min(end, 50))]
        assert list(store.events_between(0, 50, ["job-stopped"])) == []

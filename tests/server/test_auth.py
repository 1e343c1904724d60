"""Who gets in: tokens, jobs that speak for themselves only, and web pages that get nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.server.live import local_client
from tests.server.scripted import ScriptedScheduler

from shockwave.server.app import create_app
from shockwave.server.records import Submission
from shockwave.server.tokens import hash_token, new_token, token_matches

OPERATOR = new_token()
SUBMISSION = Submission(command=["true"], epochs=1)
REPORTS = {"generation": 1, "reports": [{"event": "epoch", "epoch": 1}]}
ASKED = [
    ("GET", "/api/v1/jobs"), ("POST", "/api/v1/jobs"), ("GET", "/api/v1/jobs/{job}"),
    ("DELETE", "/api/v1/jobs/{job}"), ("GET", "/api/v1/jobs/{job}/why"),
    ("GET", "/api/v1/jobs/{job}/logs"), ("POST", "/api/v1/jobs/{job}/reports"),
    ("GET", "/api/v1/plan"), ("GET", "/api/v1/rounds"),
    ("GET", "/api/v1/nodes"), ("POST", "/api/v1/nodes/node-0/drain"),
    ("POST", "/api/v1/nodes/node-0/resume"), ("GET", "/api/v1/tenants"),
    ("GET", "/api/v1/events?follow=false"), ("GET", "/metrics"),
    ("GET", "/api/v1/present?follow=false"), ("GET", "/api/v1/jobs/{job}/story"),
    ("GET", "/api/v1/plan/futures"), ("GET", "/api/v1/days/last"),
]  # fmt: skip
OWN = {("GET", "/api/v1/jobs/{job}"), ("POST", "/api/v1/jobs/{job}/reports")}


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[ScriptedScheduler]:
    with closing(ScriptedScheduler(tmp_path)) as scheduler:
        for _ in range(2):
            job = scheduler.submit(SUBMISSION, None)[0].id
            scheduler.start(job)
            scheduler.write_log(job, "hello\n")
        yield scheduler


@pytest.fixture
def jobs(scheduler: ScriptedScheduler) -> list[str]:
    return [job.id for job in scheduler.plan().jobs]


@pytest.fixture
def guarded(scheduler: ScriptedScheduler) -> TestClient:
    return local_client(create_app(scheduler, token_hash=hash_token(OPERATOR)))


@pytest.fixture
def unguarded(scheduler: ScriptedScheduler) -> TestClient:
    return local_client(create_app(scheduler, token_hash=None))


def ask(client: TestClient, method: str, url: str, token: str | None = None, **more: Any) -> int:
    headers = more.pop("headers", {})
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    body: Any = None
    if method == "POST":
        body = REPORTS if url.endswith("reports") else SUBMISSION.model_dump(mode="json")
    first = client.app.state.door.plan().jobs[0].id  # type: ignore[attr-defined]
    answer = client.request(method, url.format(job=first), json=body, headers=headers, **more)
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
    if answer.status_code == 401:
        assert answer.headers["www-authenticate"].startswith("Bearer")
    return int(answer.status_code)


def test_nothing_is_open_without_the_token(guarded: TestClient) -> None:
    for method, url in ASKED:
        assert ask(guarded, method, url) == 401, url
        assert ask(guarded, method, url, new_token()) == 401, url
        assert ask(guarded, method, url, headers={"Authorization": "Basic cm9vdDo="}) == 401, url
        assert ask(guarded, method, url, headers={"Authorization": "Bearer "}) == 401, url


def test_the_token_opens_everything_but_the_reports_of_jobs(guarded: TestClient) -> None:
    for method, url in ASKED:
        expected = (403,) if url.endswith("reports") else (200, 201)
        assert ask(guarded, method, url, OPERATOR) in expected, url


def test_a_job_speaks_for_itself_and_for_nothing_else(
    guarded: TestClient, unguarded: TestClient, scheduler: ScriptedScheduler, jobs: list[str]
) -> None:
    for client in (guarded, unguarded):
        for method, url in ASKED:
            own = ask(client, method, url, scheduler.token(jobs[0]))
            foreign = ask(client, method, url, scheduler.token(jobs[1]))
            assert foreign == 403, url
            assert own in ((200, 204) if (method, url) in OWN else (403,)), url


def test_health_needs_no_token(guarded: TestClient) -> None:
    assert guarded.get("/healthz").status_code == 200
    assert guarded.get("/readyz").status_code == 200


def test_over_the_unix_socket_no_token_is_needed_but_a_wrong_one_is_refused(
    unguarded: TestClient,
) -> None:
    for method, url in ASKED:
        expected = (403,) if url.endswith("reports") else (200, 201)
        assert ask(unguarded, method, url) in expected, url
        assert ask(unguarded, method, url, "wrong") == 401, url


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.0.0.9"])
def test_over_tcp_nobody_comes_in_where_there_is_no_token(
    scheduler: ScriptedScheduler, address: str
) -> None:
    app = create_app(scheduler, token_hash=None)
    anybody = TestClient(app, base_url="http://127.0.0.1:7410", client=(address, 50_000))
    for method, url in ASKED:
        assert ask(anybody, method, url) == 401, url
    assert anybody.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://attacker.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:8888"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_a_web_page_from_elsewhere_cannot_submit_or_drain(
    unguarded: TestClient, guarded: TestClient, headers: dict[str, str]
) -> None:
    for client in (unguarded, guarded):
        for url in ("/api/v1/jobs", "/api/v1/nodes/node-0/drain"):
            assert ask(client, "POST", url, headers=dict(headers)) == 403


def test_a_body_that_browsers_send_without_asking_is_no_job(unguarded: TestClient) -> None:
    """A page can post text/plain anywhere without the server's consent; JSON it cannot."""
    body = SUBMISSION.model_dump_json()
    for content_type in ("text/plain", "application/x-www-form-urlencoded"):
        answer = unguarded.post(
            "/api/v1/jobs", content=body, headers={"Content-Type": content_type}
        )
        assert answer.status_code == 422


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "a/b", "..", "/etc", "a\x00b", ".hidden", "-rf", "a\n", "é"]
)
def test_a_path_in_a_job_name_is_refused(unguarded: TestClient, name: str) -> None:
    body = SUBMISSION.model_dump(mode="json") | {"name": name}
    answer = unguarded.post("/api/v1/jobs", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "body.name"
    tenant = SUBMISSION.model_dump(mode="json") | {"tenant": name}
    assert unguarded.post("/api/v1/jobs", json=tenant).status_code == 422


@pytest.mark.parametrize(
    "job", ["..%2f..%2fetc%2fpasswd", "%2e%2e", "..%5c..", "1%2f..%2f2", "1%00", "%ff", "1%0a"]
)
@pytest.mark.parametrize("rest", ["", "/logs", "/why"])
def test_a_path_in_the_address_of_a_job_finds_nothing(
    unguarded: TestClient, job: str, rest: str
) -> None:
    answer = unguarded.get(f"/api/v1/jobs/{job}{rest}")
    assert answer.status_code in (404, 422)
    assert "hello" not in answer.text


def test_a_log_that_was_replaced_by_a_link_is_not_followed(
    unguarded: TestClient, scheduler: ScriptedScheduler, jobs: list[str], tmp_path: Path
) -> None:
    secret = tmp_path / "somebody's"
    secret.write_text("secret\n")
    log = scheduler.write_log(jobs[0], "")
    log.unlink()
    log.symlink_to(secret)
    answer = unguarded.get(f"/api/v1/jobs/{jobs[0]}/logs")
    assert answer.status_code == 404
    assert "secret" not in answer.text


def test_tokens_are_long_and_only_their_hash_is_kept() -> None:
    tokens = {new_token() for _ in range(50)}
    assert len(tokens) == 50
    token = tokens.pop()
    assert len(token) == 43
    assert token not in hash_token(token)
    assert token_matches(token, hash_token(token))
    assert not token_matches(tokens.pop(), hash_token(token))

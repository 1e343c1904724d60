"""What each route of the API answers, to those who may ask."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.server.live import local_client
from tests.server.scripted import STARTED_UNIX, ScriptedScheduler

from shockwave.protocol.paths import JobPaths
from shockwave.server.app import create_app

JOB: dict[str, Any] = {"command": ["python", "train.py"], "epochs": 10, "gpus": 2}


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[ScriptedScheduler]:
    with closing(ScriptedScheduler(tmp_path)) as scheduler:
        yield scheduler


@pytest.fixture
def client(scheduler: ScriptedScheduler) -> TestClient:
    return local_client(create_app(scheduler, token_hash=None))


def submit(client: TestClient, **fields: Any) -> dict[str, Any]:
    answer = client.post("/api/v1/jobs", json=JOB | fields)
    assert answer.status_code == 201, answer.text
    record: dict[str, Any] = answer.json()
    return record


def test_a_submitted_job_can_be_looked_at_by_id_and_by_name(client: TestClient) -> None:
    answer = client.post("/api/v1/jobs", json=JOB | {"name": "resnet", "tenant": "vision"})
    assert answer.status_code == 201
    record = answer.json()
    assert answer.headers["location"] == f"/api/v1/jobs/{record['id']}"
    assert (record["name"], record["state"], record["gpus"]) == ("resnet", "waiting", 2)
    assert client.get(answer.headers["location"]).json() == record
    assert client.get("/api/v1/jobs/resnet").json() == record


def test_a_retry_with_the_same_key_submits_nothing_new(client: TestClient) -> None:
    key = {"Idempotency-Key": "sweep-7/trial-3"}
    first = client.post("/api/v1/jobs", json=JOB, headers=key)
    again = client.post("/api/v1/jobs", json=JOB, headers=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["id"] == first.json()["id"]
    assert len(client.get("/api/v1/jobs").json()["items"]) == 1
    other = client.post("/api/v1/jobs", json=JOB | {"gpus": 1}, headers=key)
    assert other.status_code == 422
    assert "sweep-7/trial-3" in other.json()["detail"]


def test_pages_hold_every_job_once_and_in_order(client: TestClient) -> None:
    ids = [submit(client)["id"] for _ in range(7)]
    seen: list[str] = []
    after: dict[str, str] = {}
    pages = 0
    while True:
        page = client.get("/api/v1/jobs", params={"limit": "3"} | after).json()
        seen += [item["id"] for item in page["items"]]
        pages += 1
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert seen == ids
    assert pages == 3


def test_jobs_are_filtered_by_state_and_tenant(
    client: TestClient, scheduler: ScriptedScheduler
) -> None:
    first, second = submit(client, tenant="a")["id"], submit(client, tenant="b")["id"]
    third = submit(client, tenant="b")["id"]
    scheduler.start(second)

    def listed(**query: Any) -> list[str]:
        answer = client.get("/api/v1/jobs", params=query)
        return [item["id"] for item in answer.json()["items"]]

    assert listed(state="running") == [second]
    assert listed(state=["running", "waiting"], tenant="b") == [second, third]
    assert listed(tenant="a") == [first]


def test_a_cancelled_job_stays_cancelled(client: TestClient, scheduler: ScriptedScheduler) -> None:
    job = submit(client)["id"]
    assert client.delete(f"/api/v1/jobs/{job}").json()["why"]["reason"] == "is being cancelled"
    scheduler.obey_cancel(job)
    for _ in range(2):  # asked again, it is left alone
        assert client.delete(f"/api/v1/jobs/{job}").json()["state"] == "cancelled"


def test_a_job_that_is_done_cannot_be_cancelled(
    client: TestClient, scheduler: ScriptedScheduler
) -> None:
    job = submit(client)["id"]
    scheduler.finish(job)
    answer = client.delete(f"/api/v1/jobs/{job}")
    assert answer.status_code == 409
    assert answer.json()["type"] == "urn:shockwave:problem:conflict"


def test_why_says_what_the_policy_knows(client: TestClient, scheduler: ScriptedScheduler) -> None:
    job = submit(client, epoch_seconds={"1": 60.0})["id"]
    scheduler.explain(bid=0.2, price=0.5, finish=120.0, fair_finish=100.0)
    why = client.get(f"/api/v1/jobs/{job}/why").json()
    assert why["reason"] == "waits: it bids 0.2, and a GPU-round costs 0.5 ([by others])"
    assert (why["bid"], why["price"], why["ftf"]) == (0.2, 0.5, 1.2)
    assert why["finish"] == STARTED_UNIX + 120.0


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        (None, "one\ntwo\nthree\n"),
        (2, "two\nthree\n"),
        (0, ""),
        (99, "one\ntwo\nthree\n"),
    ],
)
def test_output_is_read_whole_or_from_its_end(
    client: TestClient, scheduler: ScriptedScheduler, tail: int | None, expected: str
) -> None:
    job = submit(client)["id"]
    scheduler.write_log(job, "one\ntwo\nthree\n")
    scheduler.write_log(job, "another rank\n", rank=1)
    query = {} if tail is None else {"tail": tail}
    answer = client.get(f"/api/v1/jobs/{job}/logs", params=query)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.text == expected
    assert client.get(f"/api/v1/jobs/{job}/logs", params={"rank": 1}).text == "another rank\n"


def test_the_end_of_long_output_is_found_across_blocks(
    client: TestClient, scheduler: ScriptedScheduler
) -> None:
    job = submit(client)["id"]
    lines = [f"line {n} " + "x" * (n % 97) + "\n" for n in range(5_000)]
    scheduler.write_log(job, "".join(lines) + "without an end")
    for tail in (1, 2, 1_700, 5_001, 6_000):
        text = client.get(f"/api/v1/jobs/{job}/logs", params={"tail": tail}).text
        assert text == "".join([*lines, "without an end"][-tail:])


def test_plan_rounds_nodes_and_tenants(client: TestClient, scheduler: ScriptedScheduler) -> None:
    submit(client, tenant="vision")
    assert client.get("/api/v1/plan").json()["round"] is None
    for _ in range(5):
        scheduler.decide(gap=0.01)
    plan = client.get("/api/v1/plan").json()
    assert plan["round"]["round"] == 4
    assert [job["tenant"] for job in plan["jobs"]] == ["vision"]
    page = client.get("/api/v1/rounds", params={"limit": 2}).json()
    assert ([item["round"] for item in page["items"]], page["next"]) == ([0, 1], 1)
    page = client.get("/api/v1/rounds", params={"after": 1, "limit": 100}).json()
    assert ([item["round"] for item in page["items"]], page["next"]) == ([2, 3, 4], None)
    assert [node["id"] for node in client.get("/api/v1/nodes").json()["items"]] == [
        "node-0",
        "node-1",
    ]
    assert client.get("/api/v1/tenants").json()["items"][0]["waiting"] == 1


def test_a_node_is_drained_and_put_back(client: TestClient) -> None:
    assert client.post("/api/v1/nodes/node-1/drain").json()["state"] == "drained"
    assert client.get("/api/v1/nodes").json()["items"][1]["state"] == "drained"
    assert client.post("/api/v1/nodes/node-1/resume").json()["state"] == "up"


def test_reports_of_the_current_launch_are_taken(
    client: TestClient, scheduler: ScriptedScheduler
) -> None:
    job = submit(client)["id"]
    scheduler.start(job)
    bearer = {"Authorization": f"Bearer {scheduler.token(job)}"}
    report = {"time": 1.7e9, "event": "epoch", "epoch": 3, "configuration": 64, "loss": None}
    kept = JobPaths.of(scheduler.state_dir, job).reports(1)
    url = f"/api/v1/jobs/{job}/reports"
    answer = client.post(url, json={"generation": 1, "reports": [report] * 50}, headers=bearer)
    assert (answer.status_code, answer.content) == (204, b"")
    assert [json.loads(line) for line in kept.read_text().splitlines()] == [report] * 50
    stale = client.post(url, json={"generation": 0, "reports": [report]}, headers=bearer)
    assert stale.status_code == 409
    assert len(kept.read_text().splitlines()) == 50


def test_health_and_readiness_differ(client: TestClient, scheduler: ScriptedScheduler) -> None:
    scheduler.problem = "the state directory is full"
    assert client.get("/healthz").json() == {"status": "ok", "detail": ""}
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["detail"] == "the state directory is full"
    scheduler.problem = None
    assert client.get("/readyz").status_code == 200


def test_every_operation_is_described(client: TestClient) -> None:
    document = client.get("/api/v1/openapi.json").json()
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    ids = [operation["operationId"] for operation in operations]
    assert len(set(ids)) == len(ids) == 34
    for operation in operations:
        assert operation["summary"], operation
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                schema = response["content"]["application/problem+json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/Problem"}, operation
    assert "HTTPValidationError" not in document["components"]["schemas"]


Asked = Callable[[TestClient], Any]
PROBLEMS: list[tuple[str, int, str, Asked]] = [
    ("no such path", 404, "not-found", lambda c: c.get("/api/v1/nothing")),
    ("no such job", 404, "job-not-found", lambda c: c.get("/api/v1/jobs/77")),
    ("no such job to explain", 404, "job-not-found", lambda c: c.get("/api/v1/jobs/77/why")),
    ("no such job to cancel", 404, "job-not-found", lambda c: c.delete("/api/v1/jobs/77")),
    ("no such job to read", 404, "job-not-found", lambda c: c.get("/api/v1/jobs/77/logs")),
    ("no output yet", 404, "log-not-found", lambda c: c.get("/api/v1/jobs/only/logs?rank=5")),
    ("no such node", 404, "node-not-found", lambda c: c.post("/api/v1/nodes/moon/drain")),
    ("method", 405, "method-not-allowed", lambda c: c.put("/api/v1/jobs", json={})),
    ("missing field", 422, "invalid", lambda c: c.post("/api/v1/jobs", json={"epochs": 1})),
    ("unknown field", 422, "invalid", lambda c: c.post("/api/v1/jobs", json=JOB | {"gpu": 1})),
    ("page too long", 422, "invalid", lambda c: c.get("/api/v1/jobs?limit=100000")),
    ("bad cursor", 422, "invalid", lambda c: c.get("/api/v1/jobs?after=nonsense")),
    ("bad key", 422, "invalid",
     lambda c: c.post("/api/v1/jobs", json=JOB, headers={"Idempotency-Key": "a b"})),
    ("not JSON", 422, "invalid",
     lambda c: c.post("/api/v1/jobs", content=b"{", headers={"Content-Type": "application/json"})),
    ("a form", 422, "invalid", lambda c: c.post("/api/v1/jobs", data={"epochs": "1"})),
    ("nested too deep", 400, "bad-request",
     lambda c: c.post("/api/v1/jobs", content=b"[" * 100_000,
                      headers={"Content-Type": "application/json"})),
]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "name", "asked"),
    [problem[1:] for problem in PROBLEMS],
    ids=[problem[0] for problem in PROBLEMS],
)
def test_every_error_is_a_problem(client: TestClient, status: int, name: str, asked: Asked) -> None:
    submit(client, name="only")
    answer = asked(client)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["type"] == f"urn:shockwave:problem:{name}"
    assert problem["detail"]
    assert problem["instance"] == answer.url.path


def test_a_validation_error_names_the_field_the_value_and_what_is_expected(
    client: TestClient,
) -> None:
    answer = client.post("/api/v1/jobs", json=JOB | {"gpus": -1, "weight": 1e9})
    assert answer.json()["errors"] == [
        {
            "field": "body.gpus",
            "message": "Input should be greater than or equal to 0",
            "value": "-1",
        },
        {
            "field": "body.weight",
            "message": "Input should be less than or equal to 1000000",
            "value": "1000000000.0",
        },
    ]


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"command": ["\ud800"]}, "body.command.0"),
        ({"command": ["a\0b"]}, "body.command.0"),
        ({"env": {"A": "\ud800"}}, "body.env.A"),
        ({"model": "\0"}, "body.model"),
        ({"batch_sizes": [10**30]}, "body.batch_sizes.0"),
        ({"batch_sizes": [0]}, "body.batch_sizes.0"),
        ({"epoch_seconds": {"1": 1e300}}, "body.epoch_seconds.1"),
        ({"epochs": 10**400}, "body.epochs"),
        ({"weight": 1e-320}, "body.weight"),
    ],
    ids=str,
)
def test_what_could_break_the_scheduler_is_refused_at_the_door(
    client: TestClient, fields: dict[str, Any], place: str
) -> None:
    body = json.dumps(JOB | fields)
    answer = client.post("/api/v1/jobs", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == place


def test_numbers_that_json_does_not_know_are_refused(client: TestClient) -> None:
    headers = {"Content-Type": "application/json"}
    body = json.dumps(JOB | {"weight": float("nan")})
    assert client.post("/api/v1/jobs", content=body, headers=headers).status_code == 422


def test_a_method_that_is_not_allowed_says_which_are(client: TestClient) -> None:
    assert set(client.put("/api/v1/jobs").headers["allow"].split(", ")) & {"GET", "POST"}


def test_an_unexpected_error_is_logged_and_not_told(
    client: TestClient, scheduler: ScriptedScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> Any:
        raise RuntimeError("secret of the house")

    scheduler.plan = broken  # type: ignore[method-assign]
    answer = client.get("/api/v1/plan")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert "secret of the house" in caplog.text

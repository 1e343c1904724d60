"""Figures for Prometheus: right ones, and a dashboard that asks for figures that exist."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient
from tests.server.live import local_client
from tests.server.scripted import ScriptedScheduler

from shockwave.model.events import StopReason
from shockwave.server.app import create_app
from shockwave.server.records import Submission, TenantChanges

DASHBOARD = Path(__file__).resolve().parents[2] / "deploy" / "grafana" / "shockwave.json"
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[ScriptedScheduler]:
    with closing(ScriptedScheduler(tmp_path)) as scheduler:
        yield scheduler


@pytest.fixture
def client(scheduler: ScriptedScheduler) -> TestClient:
    return local_client(create_app(scheduler, token_hash=None, fairness_seconds=0.0))


def scrape(client: TestClient) -> Samples:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def figure(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, tuple(sorted(labels.items()))]


def submit(scheduler: ScriptedScheduler, gpus: int = 2) -> str:
    job = Submission(command=["true"], epochs=1, gpus=gpus, epoch_seconds={1: 60.0})
    return scheduler.submit(job, None)[0].id


def test_jobs_are_counted_by_state_as_they_move(
    client: TestClient, scheduler: ScriptedScheduler
) -> None:
    first, second, third = (submit(scheduler) for _ in range(3))
    scheduler.start(first)

    def jobs() -> dict[str, float]:
        samples = scrape(client)
        states = ("waiting", "running", "finished", "failed", "cancelled")
        return {state: figure(samples, "shockwave_jobs", state=state) for state in states}

    assert jobs() == {"waiting": 2, "running": 1, "finished": 0, "failed": 0, "cancelled": 0}
    scheduler.finish(first)
    scheduler.cancel(second)
    scheduler.obey_cancel(second)
    scheduler.start(third)
    scheduler.stop(third, StopReason.PREEMPTED)
    assert jobs() == {"waiting": 1, "running": 0, "finished": 1, "failed": 0, "cancelled": 1}
    assert jobs() == jobs()


def test_tenants_are_told_by_what_they_hold_and_what_is_due(
    client: TestClient, scheduler: ScriptedScheduler
) -> None:
    job = submit(scheduler)
    scheduler.start(job)
    scheduler.progress(job, productive_seconds=10.0, held_seconds=10.0)
    samples = scrape(client)
    assert figure(samples, "shockwave_tenant_gpus", tenant="default", gpu_type="") == 2
    assert figure(samples, "shockwave_tenant_gpu_seconds_total", tenant="default") == 20
    assert not [name for name, _ in samples if name == "shockwave_tenant_due_gpus"]
    scheduler.change_tenant("default", TenantChanges(weight=2.0))
    scheduler.change_tenant("idle", TenantChanges(weight=6.0))
    scheduler.log.take_requests()
    scheduler.now = 3600.0
    scheduler.progress(job, productive_seconds=10.0, held_seconds=10.0)
    samples = scrape(client)
    assert figure(samples, "shockwave_tenant_due_gpus", tenant="default") == 2
    carried = figure(samples, "shockwave_tenant_carry_over_gpu_seconds", tenant="idle")
    assert carried == pytest.approx(6 * 3600.0, rel=0.01)  # of 8 GPUs


def test_restarts_are_counted_by_what_ended_the_run_before(
    client: TestClient, scheduler: ScriptedScheduler
) -> None:
    job = submit(scheduler)
    scheduler.start(job)
    for reason in (StopReason.PREEMPTED, StopReason.CRASHED, StopReason.PREEMPTED):
        scheduler.stop(job, reason)
        scheduler.start(job)
    samples = scrape(client)
    counted = {
        reason: figure(samples, "shockwave_restarts_total", reason=reason)
        for reason in ("preempted", "crashed", "node-lost")
    }
    assert counted == {"preempted": 2, "crashed": 1, "node-lost": 0}


def test_lost_gpu_seconds_hold_starts_and_work_that_was_undone(
    client: TestClient, scheduler: ScriptedScheduler
) -> None:
    job = submit(scheduler, gpus=4)
    scheduler.progress(job, productive_seconds=8.0, held_seconds=10.0)  # 2 s to start up
    scheduler.progress(job, productive_seconds=10.0, held_seconds=10.0)
    scheduler.progress(job, productive_seconds=-3.0, held_seconds=0.0)  # a crash undid 3 s
    assert figure(scrape(client), "shockwave_lost_gpu_seconds_total") == 4 * (2 + 3)


def test_rounds_tell_how_long_and_how_well_they_planned(
    client: TestClient, scheduler: ScriptedScheduler
) -> None:
    scheduler.decide(plan_seconds=0.02, gap=0.5)
    scheduler.decide(plan_seconds=0.5, gap=0.125, price=0.5, overrun_seconds=0.25)
    samples = scrape(client)
    assert figure(samples, "shockwave_plan_seconds_count") == 2
    assert figure(samples, "shockwave_plan_seconds_sum") == pytest.approx(0.52)
    assert figure(samples, "shockwave_plan_seconds_bucket", le="0.1") == 1
    assert figure(samples, "shockwave_plan_gap_ratio") == 0.125
    assert figure(samples, "shockwave_price") == 0.5
    assert figure(samples, "shockwave_round_overrun_seconds_count") == 2
    assert figure(samples, "shockwave_round_overrun_seconds_sum") == pytest.approx(0.25)


def test_a_policy_that_does_not_plan_has_no_gap(
    client: TestClient, scheduler: ScriptedScheduler
) -> None:
    scheduler.decide(gap=0.5)
    scheduler.decide(gap=None)
    assert math.isnan(figure(scrape(client), "shockwave_plan_gap_ratio"))


def test_gpus_are_counted_by_state(client: TestClient, scheduler: ScriptedScheduler) -> None:
    scheduler.drain("node-1", resume=False)
    scheduler.occupy("node-0", 3)
    samples = scrape(client)
    counted = {
        state: figure(samples, "shockwave_gpus", state=state)
        for state in ("busy", "others", "idle", "drained", "down")
    }
    assert counted == {"busy": 0, "others": 3, "idle": 1, "drained": 4, "down": 0}


def test_fairness_is_that_of_the_definitions(
    client: TestClient, scheduler: ScriptedScheduler
) -> None:
    """Two jobs of 8 GPUs on 8, 10 s each, one after the other: JCT 10 s and 20 s."""
    first, second, _ = (submit(scheduler, gpus=8) for _ in range(3))
    scheduler.start(first)
    scheduler.now = 10.0
    scheduler.finish(first, exclusive_seconds=10.0)
    scheduler.start(second)
    scheduler.now = 20.0
    scheduler.finish(second, exclusive_seconds=10.0)
    scheduler.explain(bid=1.0, price=1.0, finish=45.0, fair_finish=30.0)
    samples = scrape(client)

    def rho(definition: str, quantile: str) -> float:
        labels = {"definition": definition, "quantile": quantile}
        return figure(samples, "shockwave_finish_time_fairness", **labels)

    assert rho("static", "1") == pytest.approx(2.0)  # 3 jobs are fewer than 8 GPUs
    assert rho("static", "0.5") == pytest.approx(1.5)
    assert rho("egalitarian", "1") == pytest.approx(1.0)  # sharing equally, both end at 20 s
    assert rho("egalitarian", "0.5") == pytest.approx(0.75)
    assert rho("forecast", "1") == 1.5
    assert figure(samples, "shockwave_unfair_jobs_ratio", definition="static") == 0.5
    assert figure(samples, "shockwave_unfair_jobs_ratio", definition="egalitarian") == 0.0


def test_requests_are_counted_by_route_and_not_by_address(client: TestClient) -> None:
    for job in ("7", "8", "9"):
        client.get(f"/api/v1/jobs/{job}")
    client.get("/somewhere/else")
    client.request("BREW", "/coffee")
    samples = scrape(client)
    name = "shockwave_http_requests_total"
    route = "/api/v1/jobs/{job}"
    assert figure(samples, name, method="GET", route=route, status="404") == 3
    assert figure(samples, name, method="GET", route="none", status="404") == 1
    assert figure(samples, name, method="other", route="none", status="404") == 1
    count = "shockwave_http_request_seconds_count"
    assert figure(samples, count, method="GET", route=route) == 3


def test_two_applications_count_apart(scheduler: ScriptedScheduler) -> None:
    one, other = (local_client(create_app(scheduler, token_hash=None)) for _ in range(2))
    one.get("/healthz")
    assert "/healthz" in one.get("/metrics").text
    assert "/healthz" not in other.get("/metrics").text


def queries(dashboard: dict[str, Any]) -> list[str]:
    panels = [p for panel in dashboard["panels"] for p in (panel, *panel.get("panels", ()))]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


def test_the_dashboard_asks_for_figures_that_exist(
    client: TestClient, scheduler: ScriptedScheduler
) -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    scheduler.change_tenant("vision", TenantChanges(weight=2.0))
    scheduler.log.take_requests()
    client.get("/healthz")
    existing = scrape(client)
    names = {name for name, _ in existing}
    asked = {name for expr in queries(dashboard) for name in re.findall(r"shockwave_\w+", expr)}
    assert asked <= names
    parts = re.compile("_(bucket|sum|count|created)$")
    families = {parts.sub("", name) for name in names if name.startswith("shockwave_")}
    shown = {parts.sub("", name) for name in asked}
    assert {name for name in families if f"{name}_total" not in shown} == shown


def chosen(matcher: str, value: str, options: dict[str, list[str]]) -> set[str]:
    """The values that a matcher of a query asks for, by each choice of its variable."""
    if value.startswith("$"):
        return set(options[value[1:]])
    return set(value.split("|")) if matcher == "=~" else {value}


def test_the_dashboard_asks_by_labels_and_values_that_exist(
    client: TestClient, scheduler: ScriptedScheduler
) -> None:
    """A label that no figure has makes an empty panel, and nobody is told."""
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    scheduler.change_tenant("vision", TenantChanges(weight=2.0))
    scheduler.log.take_requests()
    scheduler.decide(plan_seconds=0.1, gap=0.5, price=0.5)
    job = submit(scheduler, gpus=8)
    scheduler.start(job)
    scheduler.now = 10.0
    scheduler.finish(job, exclusive_seconds=10.0)
    submit(scheduler)
    scheduler.explain(bid=1.0, price=1.0, finish=45.0, fair_finish=30.0)
    client.get("/healthz")
    labels: dict[str, dict[str, set[str]]] = {}
    for name, pairs in scrape(client):
        of_figure = labels.setdefault(name, {"job": set(), "instance": set()})  # of Prometheus
        for label, value in pairs:
            of_figure.setdefault(label, set()).add(value)
    options = {
        variable["name"]: [option["value"] for option in variable.get("options", ())]
        for variable in dashboard["templating"]["list"]
    }
    for query in queries(dashboard):
        figures = re.findall(r"(shockwave_\w+)\{([^}]*)\}", query)
        assert len(figures) == len(re.findall(r"shockwave_\w+", query)), query
        for name, matchers in figures:
            for label, matcher, value in re.findall(r'(\w+)(=~|=)"([^"]*)"', matchers):
                assert label in labels[name], query
                if label not in ("job", "instance"):
                    assert chosen(matcher, value, options) <= labels[name][label], query
        for group in re.findall(r"by \(([^)]*)\)", query):
            for label in group.split(", "):
                assert any(label in labels[name] for name, _ in figures), query


def test_the_dashboard_can_be_imported() -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    assert dashboard["id"] is None
    assert dashboard["uid"] == "shockwave"
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in dashboard["panels"]:
        assert panel["title"]
        position = panel["gridPos"]
        assert position["x"] + position["w"] <= 24
        if panel["type"] != "row":
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert dashboard["templating"]["list"][0]["name"] == "datasource"

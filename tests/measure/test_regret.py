"""Regrets by hand, what is measured of a family, and the picture of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from shockwave.measure.charts.heatmap import Panel, heatmap_svg
from shockwave.measure.regret import MEASURES, Measure, means, regrets, standings
from shockwave.measure.workloads import figures_of
from shockwave.model.cluster import Cluster
from shockwave.policies import registry
from shockwave.testing.workloads import random_jobs
from shockwave.traces.families import Crash, Outage, Workload
from shockwave.traces.window import Window

JCT, UNFAIR = Measure("jct", "JCT"), Measure("unfair", "unfair", share=True)


def run(family: str, policy: str, jct: float | None, unfair: float = 0.0) -> dict[str, Any]:
    return {
        "family": family, "policy": policy, "seed": 0, "clairvoyant": policy == "seer",
        "jct": jct, "unfair": unfair,
    }  # fmt: skip


RUNS = [
    run("calm", "slow", 20.0, 0.3),
    run("calm", "slow", 40.0, 0.5),
    run("calm", "quick", 20.0, 0.1),
    run("calm", "seer", 10.0, 0.0),
    run("storm", "slow", 30.0, 0.0),
    run("storm", "quick", 60.0, 0.2),
    run("endless", "slow", None),
]


def test_regret_is_against_the_best_that_does_not_know_the_future() -> None:
    assert means(RUNS, JCT) == {
        "calm": {"slow": 30.0, "quick": 20.0, "seer": 10.0},
        "storm": {"slow": 30.0, "quick": 60.0},
    }
    assert regrets(RUNS, JCT) == {
        "calm": {"slow": 1.5, "quick": 1.0, "seer": 0.5},
        "storm": {"slow": 1.0, "quick": 2.0},
    }


def test_regret_of_shares_is_a_difference() -> None:
    assert regrets(RUNS, UNFAIR)["calm"] == pytest.approx({"slow": 0.3, "quick": 0, "seer": -0.1})
    assert (UNFAIR.write_regret(0.3), JCT.write_regret(1.5)) == ("+30.0", "1.50")


def test_standings_name_the_worst_family() -> None:
    quick = standings(regrets(RUNS, JCT))["quick"]
    assert (quick.mean, quick.worst, quick.worst_family) == (1.5, 2.0, "storm")


def workload(**fields: Any) -> Workload:
    jobs = sorted(random_jobs(4, count=14), key=lambda job: job.spec.arrival_seconds)
    return Workload(tuple(jobs), Cluster.uniform(8), **fields)


def test_figures_of_a_workload() -> None:
    marked = frozenset({"job-1", "job-2"})
    figures = figures_of(workload(marked=marked), registry.create("srtf"))
    assert {measure.key for measure in MEASURES} <= figures.keys()
    assert figures["finished_jobs"] == 14
    assert 0 < figures["restart_lost"] < 1
    together = 2 * figures["marked_jct_seconds"] + 12 * figures["unmarked_jct_seconds"]
    assert figures["mean_jct_seconds"] == pytest.approx(together / 14)


def test_completion_times_by_weight_where_weights_differ() -> None:
    equal = workload()
    heavy = equal.jobs[5]
    weighted = replace(
        equal,
        jobs=tuple(
            replace(job, spec=replace(job.spec, weight=4.0 if job is heavy else 1.0))
            for job in equal.jobs
        ),
        marked=frozenset({heavy.spec.id}),
    )
    alike = replace(
        equal,
        jobs=tuple(replace(job, spec=replace(job.spec, weight=2.0)) for job in equal.jobs),
    )
    figures = figures_of(weighted, registry.create("fifo"))
    mine, others = figures["marked_jct_seconds"], figures["unmarked_jct_seconds"]
    assert figures["weighted_jct_seconds"] == pytest.approx((4 * mine + 13 * others) / 17)
    assert "weighted_jct_seconds" not in figures_of(alike, registry.create("fifo"))


def test_fairness_is_of_those_who_have_a_claim() -> None:
    everybody = figures_of(workload(), registry.create("fifo"))
    one = workload().jobs[5].spec.id
    alone = frozenset(job.spec.id for job in workload().jobs) - {one}
    figures = figures_of(
        workload(marked=frozenset({one}), without_claim=alone), registry.create("fifo")
    )
    assert figures["worst_ftf_egalitarian"] == figures["marked_worst_ftf_egalitarian"]
    assert figures["worst_ftf_egalitarian"] < everybody["worst_ftf_egalitarian"]
    assert figures["mean_jct_seconds"] == everybody["mean_jct_seconds"]


def test_makespan_counts_from_the_first_arrival_and_steady_systems_have_none() -> None:
    today = workload()
    tomorrow = replace(
        today,
        jobs=tuple(
            replace(job, spec=replace(job.spec, arrival_seconds=job.spec.arrival_seconds + 86_400))
            for job in today.jobs
        ),
    )
    makespans = [
        figures_of(day, registry.create("fifo"))["makespan_seconds"] for day in (today, tomorrow)
    ]
    assert makespans[0] == pytest.approx(makespans[1])
    assert makespans[0] > max(job.exclusive_seconds for job in today.jobs)
    steady = figures_of(workload(window=Window(0.2, 0.8)), registry.create("fifo"))
    assert steady["makespan_seconds"] is None


def test_failures_of_a_workload_happen() -> None:
    calm = figures_of(workload(), registry.create("fifo"))
    crash = tuple(Crash(job.spec.id, 4000.0) for job in workload().jobs)
    stormy = workload(outages=(Outage("n0", 3000.0, 5000.0),), crashes=crash)
    assert figures_of(stormy, registry.create("fifo"))["restarts"] > calm["restarts"]
    assert figures_of(stormy, registry.create("fifo"))["finished_jobs"] == 14


def test_the_picture_shows_every_number_and_darker_ones_where_regret_is_larger() -> None:
    panel = Panel("JCT <seconds>", regrets(RUNS, JCT), (1.05, 1.2), JCT.write_regret)
    picture = heatmap_svg("Regret & more", [panel], ["quick", "slow"], "note")
    root = ElementTree.fromstring(picture)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert [text for text in texts if text and text[0].isdigit()] == [
        "1.00", "1.50", "2.00", "1.00",
    ]  # fmt: skip
    shades = [cell.get("fill") for cell in root.iter("{http://www.w3.org/2000/svg}path")]
    assert shades[0] == shades[3] != shades[1] == shades[2]
    assert np.isfinite([float(root.get("width", "nan")), float(root.get("height", "nan"))]).all()

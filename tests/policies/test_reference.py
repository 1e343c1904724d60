"""On the paper's workloads the baselines do what the original's do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shockwave.executors.simulation import TraceTruth, simulate
from shockwave.measure import fold_history, summarize
from shockwave.measure.workloads import figures_of
from shockwave.model.cluster import Cluster
from shockwave.policies import registry
from shockwave.predict import registry as predictors
from shockwave.traces import formats
from shockwave.traces.families import FAMILIES

SMALL, LARGE = "paper-32gpu-120jobs", "paper-128gpu-460jobs"


def run(policy_name: str, folder: Path, trace: str, gpus: int) -> dict[str, float]:
    jobs = formats.load(folder / f"{trace}.jsonl")
    policy = registry.create(policy_name)
    predictor = predictors.create(policy.predictor, truth=TraceTruth(jobs))
    events = simulate(jobs, Cluster.uniform(gpus), policy, predictor, trace=trace)
    return summarize(fold_history(events))


@pytest.mark.parametrize("name", ["ossp", "themis", "gavel", "allox", "mst", "gandiva-fair"])
def test_baselines_are_close_to_the_original(
    name: str, shared_traces: Path, shared_reference: Path
) -> None:
    rows = json.loads(shared_reference.read_text())
    (original,) = (
        row
        for row in rows
        if (row["trace"], row["policy"], row["kind"]) == (SMALL, name, "rerun, fresh allocation")
    )
    ours = run(name, shared_traces, SMALL, 32)
    for figure in ("makespan_seconds", "mean_jct_seconds"):
        assert ours[figure] == pytest.approx(original[figure], rel=0.10), figure
    assert ours["makespan_seconds"] >= ours["makespan_lower_bound_seconds"]


@pytest.mark.parametrize(("trace", "gpus", "limit"), [(SMALL, 32, 1.12), (LARGE, 128, 1.18)])
def test_the_published_policy_ends_as_early_as_the_original(
    shared_traces: Path, trace: str, gpus: int, limit: float
) -> None:
    ours = run("shockwave-nsdi23", shared_traces, trace, gpus)
    assert ours["makespan_seconds"] <= limit * ours["makespan_lower_bound_seconds"]


@pytest.mark.parametrize(
    ("recipe", "gpus"),
    [
        ("generated:jobs=40,span_hours=1,max_hours=8,seed=24", 16),
        ("generated:jobs=120,span_hours=4,seed=7", 32),
        ("generated:jobs=120,span_hours=1.4,gpus=1:0.3/2:0.2/4:0.3/8:0.2,seed=26", 64),
        ("generated:jobs=300,span_hours=2,min_hours=0.1,max_hours=8,seed=28", 64),
    ],
)
def test_the_published_policy_ends_early_on_other_mixes_and_sizes(recipe: str, gpus: int) -> None:
    jobs = formats.load(recipe)
    policy = registry.create("shockwave-nsdi23")
    events = simulate(jobs, Cluster.uniform(gpus), policy, predictors.create(policy.predictor))
    ours = summarize(fold_history(events))
    assert ours["makespan_seconds"] <= 1.2 * ours["makespan_lower_bound_seconds"]


@pytest.mark.parametrize(
    ("trace", "gpus", "lower_bound", "mean_jct"),
    [(SMALL, 32, 20_552, 7_151), (LARGE, 128, 22_194, 6_748)],
)
def test_bounds_and_the_clairvoyant_reference(
    shared_traces: Path, trace: str, gpus: int, lower_bound: int, mean_jct: int
) -> None:
    ours = run("srtf-oracle", shared_traces, trace, gpus)
    assert round(ours["makespan_lower_bound_seconds"]) == lower_bound
    assert ours["mean_jct_seconds"] == pytest.approx(mean_jct, rel=0.005)
    assert ours["makespan_seconds"] >= lower_bound


def test_a_date_costs_the_published_policy_no_digits() -> None:
    """Its weights are powers of up to 100: what a week costs in precision must not be seen."""
    now, later = (
        figures_of(FAMILIES[name].workload(112), registry.create("shockwave-nsdi23", seed=112))
        for name in ("batch", "age-week")
    )
    for figure in ("mean_jct_seconds", "makespan_seconds"):
        assert later[figure] == pytest.approx(now[figure], rel=1e-9), figure

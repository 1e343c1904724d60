"""Generated jobs with a choice of GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from shockwave.engine.rounds import Rounds
from shockwave.executors.simulation import TraceTruth, simulate
from shockwave.measure import fold_history, summarize
from shockwave.model.cluster import Cluster
from shockwave.policies import registry as policies
from shockwave.predict import registry as predictors
from shockwave.traces import load

SHARED = Path(__file__).parents[3] / "shared" / "elastic"


def test_options_change_nothing_else_about_a_generated_workload() -> None:
    plain = load("generated:jobs=60,pruning=0.3,gns=0.7")
    typed = load("generated:jobs=60,pruning=0.3,gns=0.7,elastic=0.5,types=T4:1/A100:4")
    for one, other in zip(plain, typed, strict=True):
        assert other.spec.arrival_seconds == one.spec.arrival_seconds
        assert (other.spec.gpus, other.spec.epochs) == (one.spec.gpus, one.spec.epochs)
        assert other.spec.gpu_types == ("T4", "A100")
    elastic = [bool(job.spec.gpu_counts) for job in typed]
    assert 15 < sum(elastic) < 45


def test_the_request_on_a_node_takes_what_it_takes_without_a_choice() -> None:
    plain = load("generated:jobs=60,gpus=1:0.5/4:0.5")
    elastic = load("generated:jobs=60,gpus=1:0.5/4:0.5,elastic=1")
    for one, other in zip(plain, elastic, strict=True):
        assert other.exclusive_seconds == pytest.approx(one.exclusive_seconds, rel=1e-3)


def test_more_gpus_of_a_node_and_faster_types_help_and_leaving_the_node_costs() -> None:
    drops = 0
    for job in load("generated:jobs=60,elastic=1,types=T4:1/A100:4,static=1"):
        assert job.speeds is not None
        total = {
            (kind, gpus): sum(times)
            for kind, by_count in job.speeds.by_type.items()
            for gpus, times in by_count.items()
        }
        assert total["A100", 1] < total["T4", 1]
        drops += total["A100", 8] > total["A100", 4]
    assert drops > 10


def test_declared_epochs_can_be_wrong_and_the_truth_stays() -> None:
    honest = load("generated:jobs=100")
    wrong = load("generated:jobs=100,wrong_epochs=0.5")
    ratios = [b.spec.epochs / a.spec.epochs for a, b in zip(honest, wrong, strict=True)]
    assert min(ratios) < 0.6
    assert max(ratios) > 1.6
    assert [job.regimes for job in wrong] == [job.regimes for job in honest]


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared elastic workloads are not there")
@pytest.mark.parametrize("cluster", ["T4:6x4,2080Ti:3x8,A100:2x8", "T4:16x4"])
@pytest.mark.parametrize("name", ["philly-1", "helios-1"])
def test_the_shared_workloads_run_on_both_clusters(name: str, cluster: str) -> None:
    jobs = load(SHARED / f"{name}.jsonl", profiles=SHARED / "speeds.json")
    short = [job for job in jobs if job.spec.model != "imagenet"]
    policy = policies.create("srtf")
    predictor = predictors.create(policy.predictor, truth=TraceTruth(short))
    events = simulate(short, Cluster.parse(cluster), policy, predictor, rounds=Rounds(360.0))
    figures = summarize(fold_history(events))
    assert figures["finished_jobs"] == len(short)
    assert figures["worst_ftf_sia"] > 0
    assert figures["utilization"] <= 1

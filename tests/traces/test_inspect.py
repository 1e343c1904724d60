"""The figures that describe a trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from shockwave.model.errors import InputError
from shockwave.traces import describe, native

GOLDEN = Path(__file__).parent / "golden" / "native.jsonl"


def test_the_figures_of_the_golden_trace() -> None:
    description = describe(native.read(GOLDEN), gpus=2)

    exclusive = [
        12 * 53.73 + 10 * 35.82 + 26.874,
        28 * 28.3032 + 64 * 18.9133,
        5 * 16.5 + 3 * 14.0,
        2000 * 0.5389,
    ]
    gpu_seconds = sum(g * x for g, x in zip([1, 2, 4, 1], exclusive, strict=True))
    assert description.jobs == 4
    assert description.arrival_span_seconds == 3600
    assert description.gpu_hours == pytest.approx(gpu_seconds / 3600)
    assert description.gang_sizes == {1: 2, 2: 1, 4: 1}
    assert list(description.models) == ["LM", "Recommendation", "ResNet-18", "Transformer"]
    assert description.adaptations == {"accordion": 1, "gns": 1, "pruning": 1, "static": 1}
    assert description.tenants == {"default": 3, "vision": 1}
    assert description.adapting_jobs == 3
    assert description.exclusive_seconds_mean == pytest.approx(sum(exclusive) / 4)
    assert description.exclusive_seconds_quantiles[0.0] == pytest.approx(min(exclusive))
    assert description.exclusive_seconds_quantiles[1.0] == pytest.approx(max(exclusive))
    assert description.offered_load == pytest.approx(gpu_seconds / (2 * 3600))
    assert description.contention == 2
    assert description.oversized_jobs == 1
    assert description.makespan_lower_bound_seconds == pytest.approx(3600 + exclusive[3])


def test_without_a_cluster_nothing_is_said_about_one() -> None:
    description = describe(native.read(GOLDEN))
    assert description.gpus is None
    assert description.offered_load is None
    assert description.contention is None
    assert description.makespan_lower_bound_seconds is None
    assert description.oversized_jobs is None


def test_jobs_that_all_arrive_at_once_offer_no_load_over_time() -> None:
    one_job = native.read(GOLDEN)[:1]
    assert describe(one_job, gpus=2).offered_load is None


def test_no_jobs_and_no_gpus_are_errors() -> None:
    with pytest.raises(InputError, match="no jobs"):
        describe([])
    with pytest.raises(InputError, match=r"--gpus: must be at least 1 \(got 0\)"):
        describe(native.read(GOLDEN), gpus=0)

"""Generated workloads: the same for a seed, as asked for, and shaped like the techniques."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shockwave.model.job import Adaptation, TraceJob
from shockwave.traces import Mix, generate, native
from shockwave.traces.generator import PRUNED_PERCENTS
from shockwave.traces.profiles import PROFILES

ALL_KINDS = Mix(jobs=3000, seed=5, static=0.25, accordion=0.25, gns=0.25, pruning=0.25)

FIRST_LINE = (
    '{"id": "0", "arrival": 0.0, "model": "ResNet-18", "gpus": 2, "epochs": 32, '
    '"adaptation": "gns", "batch_sizes": [32, 64, 128, 256], "epoch_seconds": {"32": '
    '28.3032, "64": 22.91, "128": 20.2651, "256": 18.9133}, "schedule": [[32, 24], '
    "[64, 8]]}"
)
DIGEST = "a6ec2431d4d6e6b404017c6097e176a054e6b384c946a3e619335c4bee0eab3b"


@pytest.fixture(scope="module")
def many() -> list[TraceJob]:
    return generate(ALL_KINDS)


def order(job: TraceJob) -> list[int]:
    return [regime.configuration for regime in job.regimes]


def of_kind(jobs: list[TraceJob], adaptation: Adaptation) -> list[TraceJob]:
    return [job for job in jobs if job.spec.adaptation is adaptation]


def test_a_seed_gives_the_same_bytes_for_ever(tmp_path: Path) -> None:
    native.write(generate(Mix(jobs=50, seed=7, static=0.1, pruning=0.1)), tmp_path / "t.jsonl")
    lines = (tmp_path / "t.jsonl").read_bytes()
    assert lines.splitlines()[0].decode() == FIRST_LINE
    assert hashlib.sha256(lines).hexdigest() == DIGEST


def test_another_seed_gives_another_trace_and_a_generator_may_be_passed_in() -> None:
    mix = Mix(jobs=20, seed=1)
    assert generate(mix) != generate(Mix(jobs=20, seed=2))
    assert generate(mix) == generate(Mix(jobs=20, seed=9), np.random.Generator(np.random.PCG64(1)))


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    shortest=st.floats(0.001, 1.0),
    never_adapt=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_every_generated_trace_is_a_valid_native_trace(
    seed: int, shortest: float, never_adapt: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    mix = Mix(jobs=20, seed=seed, min_hours=shortest, never_adapt=never_adapt, gns=0.2, pruning=0.2)
    path = tmp_path_factory.mktemp("generated") / "trace.jsonl"
    jobs = generate(mix)
    native.write(jobs, path)
    assert native.read(path) == jobs
    assert max(map(len, path.read_bytes().splitlines())) < 1000


def test_shares_come_out_as_asked(many: list[TraceJob]) -> None:
    def share(count: int) -> float:
        return count / len(many)

    gangs = Counter(job.spec.gpus for job in many)
    assert {gpus: share(count) for gpus, count in gangs.items()} == pytest.approx(
        dict(ALL_KINDS.gpus), abs=0.03
    )
    kinds = Counter(job.spec.adaptation for job in many)
    assert {kind: share(count) for kind, count in kinds.items()} == pytest.approx(
        ALL_KINDS.adaptations, abs=0.03
    )
    assert {job.spec.model for job in many} == set(PROFILES)
    assert all(job.spec.gpus <= PROFILES[job.spec.model].max_gpus for job in many)


def test_runtimes_are_log_uniform_up_to_half_an_epoch(many: list[TraceJob]) -> None:
    for job in many:
        slack = max(job.spec.epoch_seconds)  # rounding of the epochs and of every regime's end
        slack *= 1 + len(job.regimes)
        assert 0.2 * 3600 - slack <= job.exclusive_seconds <= 5 * 3600 + slack
    hours = np.array([job.exclusive_seconds / 3600 for job in many])
    assert np.median(hours) == pytest.approx(math.sqrt(0.2 * 5), rel=0.1)
    assert np.mean(np.log(hours) < math.log(0.2) + 0.25 * math.log(25)) == pytest.approx(
        0.25, abs=0.04
    )


def test_static_jobs_declare_one_configuration(many: list[TraceJob]) -> None:
    assert all(len(job.spec.configurations) == 1 for job in of_kind(many, Adaptation.STATIC))


def test_accordion_alternates_from_small_to_large_and_back(many: list[TraceJob]) -> None:
    jobs = of_kind(many, Adaptation.ACCORDION)
    for job in jobs:
        small, large = job.spec.configurations
        assert small < large
        alternation = [(small, large)[i % 2] for i in range(len(job.regimes))]
        assert order(job) == alternation
    assert max(len(job.regimes) for job in jobs) >= 6


def test_gns_only_doubles_and_not_every_job_reaches_its_maximum(many: list[TraceJob]) -> None:
    jobs = of_kind(many, Adaptation.GNS)
    for job in jobs:
        sizes = job.spec.configurations
        assert all(after == 2 * before for before, after in pairwise(sizes))
        assert order(job) == list(sizes[: len(job.regimes)])
    reached = sum(order(job)[-1] == job.spec.configurations[-1] for job in jobs) / len(jobs)
    assert 0.2 < reached < 0.8


def test_pruning_only_shrinks_and_smaller_is_faster(many: list[TraceJob]) -> None:
    for job in of_kind(many, Adaptation.PRUNING):
        assert job.spec.configurations == PRUNED_PERCENTS[: len(job.spec.configurations)]
        assert order(job) == list(job.spec.configurations[: len(job.regimes)])
        assert sorted(job.spec.epoch_seconds, reverse=True) == list(job.spec.epoch_seconds)


def test_some_adaptive_jobs_never_adapt_and_their_declaration_does_not_tell() -> None:
    def declarations(never_adapt: float) -> list[tuple[int, ...]]:
        mix = Mix(jobs=1, never_adapt=never_adapt, static=0, accordion=0, gns=1)
        return [
            generate(mix, np.random.default_rng(seed))[0].spec.configurations for seed in range(20)
        ]

    quiet = generate(Mix(jobs=200, never_adapt=1, static=0, accordion=0.5, gns=0.5))
    assert all(len(job.regimes) == 1 for job in quiet)
    assert all(len(job.spec.configurations) > 1 for job in quiet)
    assert declarations(never_adapt=1) == declarations(never_adapt=0)


def test_arrivals_ascend_from_zero_at_the_mean_asked_for() -> None:
    arrivals = [
        job.spec.arrival_seconds for job in generate(Mix(jobs=2000, interarrival_seconds=30))
    ]
    assert arrivals[0] == 0
    assert arrivals == sorted(arrivals)
    assert np.diff(arrivals).mean() == pytest.approx(30, rel=0.1)
    assert np.diff(arrivals).std() == pytest.approx(30, rel=0.1)  # as of an exponential


def test_arrivals_fill_a_span_or_come_all_at_once() -> None:
    spread = [job.spec.arrival_seconds for job in generate(Mix(jobs=500, span_hours=2))]
    assert spread == sorted(spread)
    assert 7000 < max(spread) <= 7200
    assert {job.spec.arrival_seconds for job in generate(Mix(jobs=50, span_hours=0))} == {0.0}


def test_tenants_have_names_and_weights() -> None:
    jobs = generate(Mix(jobs=100, tenants=2, tenant_weights=(1.0, 3.0)))
    assert {(job.spec.tenant, job.spec.weight) for job in jobs} == {
        ("tenant-1", 1.0),
        ("tenant-2", 3.0),
    }
    assert {job.spec.tenant for job in generate(Mix(jobs=5))} == {"default"}

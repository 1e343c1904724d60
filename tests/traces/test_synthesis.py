"""Regimes that are made up: as drawn by the generator, as long as recorded, the same every time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from shockwave.model.job import Adaptation, TraceJob
from shockwave.traces import Mix, load
from shockwave.traces.recorded import recorded_job
from shockwave.traces.synthesis import Synthesiser

RUNTIMES = (0.5, 3.0, 59.0, 1234.5, 36_000.0, 5_000_000.0)


def recorded(count: int = 600) -> list[TraceJob]:
    return [
        recorded_job(
            id=str(number), submitted_seconds=float(number), gpus=(1, 2, 8, 64)[number % 4],
            seconds=RUNTIMES[number % len(RUNTIMES)] * (1 + number / 997), source="test",
            user="ann",
        )
        for number in range(count)
    ]  # fmt: skip


def test_runtimes_arrivals_and_gangs_stay_and_jobs_adapt() -> None:
    jobs = recorded()
    made = list(Synthesiser(seed=1).apply(jobs))
    for job, new in zip(jobs, made, strict=True):
        assert new.exclusive_seconds == pytest.approx(job.exclusive_seconds, rel=1e-9)
        assert new.spec.arrival_seconds == job.spec.arrival_seconds
        assert (new.spec.id, new.spec.gpus) == (job.spec.id, job.spec.gpus)
        assert new.spec.epochs == sum(regime.epochs for regime in new.regimes) <= 6000
        assert new.extra == {**job.extra, "synthesised": "model and regimes"}
    assert sum(len(job.regimes) > 1 for job in made) > 100


def test_shares_are_those_of_the_mix() -> None:
    mix = Mix(static=0.5, accordion=0.0, gns=0.0, pruning=0.5, models={"LM": 1.0})
    made = list(Synthesiser(3, mix).apply(recorded()))
    counts = Counter(job.spec.adaptation for job in made)
    assert set(counts) == {Adaptation.STATIC, Adaptation.PRUNING}
    assert 240 <= counts[Adaptation.STATIC] <= 360
    assert {job.spec.model for job in made} == {"LM"}


def test_what_a_job_gets_depends_on_the_seed_and_its_id_only() -> None:
    jobs = recorded(60)
    together = {job.spec.id: job for job in Synthesiser(1).apply(jobs)}
    for job in Synthesiser(1).apply(reversed(jobs[::7])):
        assert together[job.spec.id] == job
    assert list(Synthesiser(2).apply(jobs)) != list(together.values())


def test_a_known_model_keeps_its_name() -> None:
    job = recorded(1)[0]
    named = replace(job, spec=replace(job.spec, model="Pretrain"))
    (made,) = Synthesiser().apply([named])
    assert made.spec.model == "Pretrain"


def test_jobs_that_declare_how_they_adapt_get_regimes_within_their_declaration() -> None:
    jobs = load("generated:jobs=80,gns=1,never_adapt=0")
    before = [replace(job, regimes=(replace(job.regimes[0], epochs=job.spec.epochs),))
              for job in jobs]  # fmt: skip
    made = list(Synthesiser(1).apply(before))
    for job, new in zip(before, made, strict=True):
        assert new.spec == job.spec
        assert sum(regime.epochs for regime in new.regimes) == job.spec.epochs
    assert sum(len(job.regimes) > 1 for job in made) > 40


def test_jobs_with_regimes_are_left_as_they_are() -> None:
    jobs = [job for job in load("generated:jobs=40") if len(job.regimes) > 1]
    assert list(Synthesiser(1).apply(jobs)) == jobs


def test_elastic_jobs_take_as_long_as_recorded_on_what_they_ran_on() -> None:
    jobs = recorded(120)
    mix = Mix(elastic=0.5, types={"T4": 1.0, "A100": 4.0}, pruning=0.2, gns=0.2)
    synthesiser = Synthesiser(1, mix)
    made = list(synthesiser.apply(jobs))
    for job, new in zip(jobs, made, strict=True):
        assert new.speeds is not None
        at_request = new.speeds.epoch_seconds("T4", job.spec.gpus)
        assert sum(at_request) == pytest.approx(job.exclusive_seconds, rel=1e-9)
        assert sum(new.speeds.epoch_seconds("A100", job.spec.gpus)) < sum(at_request)
        assert new.spec.gpus == job.spec.gpus
    elastic = [job for job in made if job.spec.gpu_counts]
    assert 40 <= len(elastic) <= 80
    assert all(job.spec.gpu_counts[0] == 1 for job in elastic)
    assert any("0.5 of the jobs can use 1 to 16 GPUs" in said for said in synthesiser.assumptions)
    # Regimes are what they are without options.
    rigid = Synthesiser(1, replace(mix, elastic=0.0, types={})).apply(jobs)
    for job, plain in zip(made, rigid, strict=True):
        assert [(r.configuration, r.epochs) for r in job.regimes] == [
            (r.configuration, r.epochs) for r in plain.regimes
        ]
    # Whoever else is there changes nothing.
    assert list(synthesiser.apply(jobs[7:9])) == made[7:9]

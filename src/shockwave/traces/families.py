"""Families of workloads: what a scheduler may meet, a small seeded function each.

A policy that is good on one kind of workload may be bad on another. These are many kinds:
loads, rhythms of arrival, lengths, gangs, adaptations that nobody announced, rounds and
restarts of other lengths, weights, failures, lies, and the same workload a year later. Each
is small enough to be simulated in seconds. Families that are ``kept_aside`` are for reports:
settings are chosen on the others.

>>> workload = FAMILIES["giant"].workload(seed=1)
>>> max(job.spec.gpus for job in workload.jobs), workload.cluster.gpus
(32, 32)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from types import MappingProxyType
from typing import Any

import numpy as np

from shockwave.model.cluster import Cluster
from shockwave.model.job import Adaptation, JobSpec, Regime, TraceJob
from shockwave.traces.disturb import bursts, wrong_profiles
from shockwave.traces.generator import Draw, Shape, epochs_of_regimes, generate
from shockwave.traces.mix import Mix
from shockwave.traces.window import Window

HOUR, DAY = 3600.0, 86_400.0
STEADY = Window(0.2, 0.8)
GPUS = 32

# Seeds that settings may be chosen on, and others that figures are reported of.
TUNE_SEEDS = (1, 2)
REPORT_SEEDS = (101, 102, 103)


@dataclass(frozen=True)
class Outage:
    """A node that is down for a while, in seconds since the run began."""

    node: str
    down_seconds: float
    up_seconds: float


@dataclass(frozen=True)
class Crash:
    """A job that crashes at that time if it runs then."""

    job: str
    seconds: float


@dataclass(frozen=True)
class Workload:
    """All that a simulation needs, and what counts in it.

    Without a ``window`` all jobs count and the workload ends; with one the system is steady,
    and has no makespan. ``marked`` are the jobs that the family is about: a giant, or those
    who lie (and, in ``batch``, the same jobs when they do not). Those who are ``without_claim``
    cannot expect fairness, and are left out of its figures.
    """

    jobs: tuple[TraceJob, ...]
    cluster: Cluster
    round_seconds: float = 120.0
    restart_seconds: float = 20.0
    outages: tuple[Outage, ...] = ()
    crashes: tuple[Crash, ...] = ()
    window: Window | None = None
    marked: frozenset[str] = frozenset()
    without_claim: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Family:
    """A kind of workload, and how one is drawn."""

    name: str
    about: str
    draw: Callable[[np.random.Generator], Workload]
    kept_aside: bool = False

    def workload(self, seed: int) -> Workload:
        """The workload of this seed; always the same one."""
        return self.draw(np.random.Generator(np.random.PCG64(seed)))


# Pieces.


def _mixed(rng: np.random.Generator, jobs: int = 120, **mix: Any) -> list[TraceJob]:
    """Generated jobs of a mix, in 1.4 h unless it says otherwise."""
    if not {"span_hours", "interarrival_seconds"} & mix.keys():
        mix["span_hours"] = 1.4
    return generate(Mix(jobs=jobs, **mix), rng)


def _on(jobs: Iterable[TraceJob], gpus: int = GPUS, **fields: Any) -> Workload:
    return Workload(tuple(jobs), Cluster.uniform(gpus), **fields)


def _work(jobs: Iterable[TraceJob]) -> float:
    return math.fsum(job.spec.gpus * job.exclusive_seconds for job in jobs)


def _arriving(jobs: Sequence[TraceJob], arrivals: Iterable[float]) -> list[TraceJob]:
    return [
        replace(job, spec=replace(job.spec, arrival_seconds=round(seconds, 1)))
        for job, seconds in zip(jobs, arrivals, strict=True)
    ]


def _at_load(jobs: Sequence[TraceJob], load: float, gpus: int = GPUS) -> list[TraceJob]:
    """The arrivals stretched until the GPU-seconds that come are ``load`` of those there are."""
    last = max(job.spec.arrival_seconds for job in jobs)
    stretch = _work(jobs) / (gpus * load) / last
    return _arriving(jobs, (job.spec.arrival_seconds * stretch for job in jobs))


def _shifted(jobs: Sequence[TraceJob], seconds: float) -> list[TraceJob]:
    return _arriving(jobs, (job.spec.arrival_seconds + seconds for job in jobs))


def _with_gangs(
    jobs: Iterable[TraceJob], gangs: Mapping[int, float], rng: np.random.Generator
) -> list[TraceJob]:
    draw = Draw(rng)
    return [replace(job, spec=replace(job.spec, gpus=draw.choice(gangs))) for job in jobs]


def _custom(
    number: int,
    draw: Draw,
    *,
    adaptation: Adaptation,
    seconds: Sequence[float],
    shape: Shape,
    declared_hours: float,
    model: str,
) -> TraceJob:
    """A job of ``declared_hours`` at its first speed, by a shape in fractions of its epochs."""
    epochs = max(10, round(declared_hours * HOUR / seconds[0]))
    lengths = epochs_of_regimes(shape, [1.0] * len(seconds), float(epochs))
    configurations = tuple(32 * 2**power for power in range(len(seconds)))
    return TraceJob(
        JobSpec(
            id=str(number),
            arrival_seconds=round(draw.between(0.0, 1.4 * HOUR), 1),
            gpus=draw.choice({1: 0.6, 2: 0.3, 4: 0.1}),
            epochs=epochs,
            configurations=configurations,
            epoch_seconds=tuple(seconds),
            adaptation=adaptation,
            model=model,
        ),
        tuple(Regime(configurations[index], count, seconds[index]) for index, count in lengths),
    )


def _by_arrival(jobs: Iterable[TraceJob]) -> list[TraceJob]:
    return sorted(jobs, key=lambda job: job.spec.arrival_seconds)


# Families.


def _load(load: float) -> Callable[[np.random.Generator], Workload]:
    return lambda rng: _on(_at_load(_mixed(rng, 150), load))


def _adaptation(name: str) -> Callable[[np.random.Generator], Workload]:
    shares: dict[str, Any] = dict.fromkeys(("static", "accordion", "gns", "pruning"), 0.0) | {
        name: 1.0
    }
    return lambda rng: _on(_mixed(rng, **shares))


def _aged(days: float) -> Callable[[np.random.Generator], Workload]:
    return lambda rng: _on(_shifted(_mixed(rng), days * DAY))


def _rounds(
    round_seconds: float, restart_seconds: float
) -> Callable[[np.random.Generator], Workload]:
    return lambda rng: _on(
        _mixed(rng), round_seconds=round_seconds, restart_seconds=restart_seconds
    )


def _diurnal(rng: np.random.Generator) -> Workload:
    """About two days; by night a tenth of the rate of noon, mean load 0.85."""
    jobs = _at_load(_mixed(rng, 240), 0.85, gpus=16)
    last = jobs[-1].spec.arrival_seconds
    times = np.linspace(0.0, last, 2000)
    rate = 1.0 - 0.82 * np.cos(2 * np.pi * times / DAY)
    come = np.concatenate([[0.0], np.cumsum((rate[1:] + rate[:-1]) / 2)])
    even = np.array([job.spec.arrival_seconds for job in jobs]) / last
    arrivals = np.interp(even, come / come[-1], times)
    return _on(_arriving(jobs, arrivals.tolist()), 16)


def _bursty(rng: np.random.Generator) -> Workload:
    jobs = bursts(_at_load(_mixed(rng, 150), 0.9), 6, rng)
    return _on(_by_arrival(jobs))


def _surge(rng: np.random.Generator) -> Workload:
    """A calm stream into the middle of which two thirds as many jobs come at once."""
    calm = _at_load(_mixed(rng, 90), 0.6)
    middle = calm[-1].spec.arrival_seconds / 2
    crowd = [
        replace(job, spec=replace(job.spec, id=f"surge-{job.spec.id}"))
        for job in _shifted(_mixed(rng, 60, span_hours=0.1), middle)
    ]
    return _on(_by_arrival(calm + crowd))


def _heavy_tail(rng: np.random.Generator) -> Workload:
    """Lognormal lengths with a median of half an hour, from minutes to days; gangs up to 64."""
    draw = Draw(rng)
    gangs = {1: 0.5, 2: 0.2, 4: 0.14, 8: 0.08, 16: 0.04, 32: 0.025, 64: 0.015}
    jobs = []
    for number in range(200):
        hours = 0.5 * math.exp(1.6 * NormalDist().inv_cdf(draw.between(0.001, 0.999)))
        length = round(min(max(hours, 0.05), 60.0), 4)
        (job,) = _mixed(rng, 1, gpus={1: 1.0}, min_hours=length, max_hours=length)
        arrival = number + draw.uniform()
        jobs.append(replace(job, spec=replace(job.spec, id=str(number), arrival_seconds=arrival)))
    return _on(_at_load(_with_gangs(jobs, gangs, rng), 0.9, gpus=64), 64)


def _tiny(rng: np.random.Generator) -> Workload:
    """Nine of ten jobs take minutes, hardly longer than a round; the others hours."""
    short = _mixed(rng, 180, min_hours=0.03, max_hours=0.15)
    long = _mixed(rng, 20, min_hours=2.0, max_hours=8.0)
    renamed = [replace(job, spec=replace(job.spec, id=f"long-{job.spec.id}")) for job in long]
    return _on(_at_load(_by_arrival(short + renamed), 1.0))


def _zigzag(rng: np.random.Generator) -> Workload:
    """Jobs that switch at random between three speeds, every 2 to 25 % of their epochs."""
    draw = Draw(rng)
    jobs = []
    for number in range(120):
        slowest = draw.log_between(40.0, 120.0)
        seconds = [round(slowest / factor, 3) for factor in (1, 3, 10)]
        shape: Shape = []
        left, last = 1.0, -1
        while left > 1e-9:
            index = draw.index(3) if last < 0 else (last + 1 + draw.index(2)) % 3
            part = min(draw.between(0.02, 0.25), left)
            shape.append((index, part))
            left, last = left - part, index
        jobs.append(
            _custom(
                number, draw, adaptation=Adaptation.CUSTOM, seconds=seconds, shape=shape,
                declared_hours=draw.log_between(0.5, 12.0), model="zigzag",
            )
        )  # fmt: skip
    return _on(_by_arrival(jobs))


def _speed_up(rng: np.random.Generator) -> Workload:
    """Half of the jobs are 20 times faster after a tenth of their epochs; nothing tells which."""
    draw = Draw(rng)
    jobs = []
    for number in range(120):
        seconds = [slow := round(draw.log_between(20.0, 80.0), 3), round(slow / 20, 4)]
        shape: Shape = [(0, 0.1), (1, 0.9)] if draw.uniform() < 0.5 else [(0, 1.0)]
        jobs.append(
            _custom(
                number, draw, adaptation=Adaptation.CUSTOM, seconds=seconds, shape=shape,
                declared_hours=draw.log_between(0.5, 8.0), model="maybe-faster",
            )
        )  # fmt: skip
    return _on(_by_arrival(jobs))


def _wide(rng: np.random.Generator) -> Workload:
    gangs = {1: 0.4, 2: 0.2, 4: 0.12, 8: 0.12, 16: 0.1, 32: 0.06}
    return _on(_at_load(_with_gangs(_mixed(rng), gangs, rng), 1.2))


def _stream(rng: np.random.Generator) -> list[TraceJob]:
    """Jobs of one or two GPUs and up to two hours, at 0.8 of what 32 GPUs can do."""
    jobs = _mixed(rng, 400, gpus={1: 0.8, 2: 0.2}, min_hours=0.1, max_hours=2.0)
    return _at_load(jobs, 0.8)


def _giant(rng: np.random.Generator) -> Workload:
    """One job of all 32 GPUs and 2 h in the stream of the small."""
    small = _stream(rng)
    arrival = round(0.2 * small[-1].spec.arrival_seconds, 1)
    spec = JobSpec(
        "giant", arrival, GPUS, 240, (256,), (30.0,), Adaptation.STATIC, model="ResNet-50"
    )
    giant = TraceJob(spec, (Regime(256, 240, 30.0),))
    return _on(_by_arrival([*small, giant]), marked=frozenset({"giant"}))


def _failing(rng: np.random.Generator) -> Workload:
    """Every node is down for half an hour about every four hours; a quarter of jobs crash."""
    workload = _on(_mixed(rng))
    draw = Draw(rng)
    outages, crashes = [], []
    for node in workload.cluster.nodes:
        now = 0.0
        while (now := now - 4 * HOUR * math.log1p(-draw.uniform())) < 10 * HOUR:
            up = now + draw.between(0.2, 0.8) * HOUR
            outages.append(Outage(node.id, round(now, 1), round(up, 1)))
            now = up
    for job in workload.jobs:
        if draw.uniform() < 0.25:
            after = draw.between(0.0, 4 * HOUR)
            crashes.append(Crash(job.spec.id, round(job.spec.arrival_seconds + after, 1)))
    return replace(workload, outages=tuple(outages), crashes=tuple(crashes))


def _declaring(factor: float) -> Callable[[np.random.Generator], Workload]:
    """The batch, a fifth of which declares ``factor`` times the epochs that it will take.

    The same jobs are marked whatever the factor, so that what they say can be compared with what
    it brings them. Those who lie have no claim to fairness.
    """

    def draw(rng: np.random.Generator) -> Workload:
        jobs = _mixed(rng)
        chances = Draw(rng)
        marked = frozenset(job.spec.id for job in jobs if chances.uniform() < 0.2)
        told = [
            replace(job, spec=replace(job.spec, epochs=max(round(factor * job.spec.epochs), 1)))
            if job.spec.id in marked
            else job
            for job in jobs
        ]
        return _on(told, marked=marked, without_claim=frozenset() if factor == 1.0 else marked)

    return draw


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        family.name: family
        for family in (
            Family("batch", "like the paper's: 120 jobs in 1.4 h, work for eight hours",
                   _declaring(1.0)),
            Family("large", "the same on 96 GPUs with 340 jobs",
                   lambda rng: _on(_mixed(rng, 340), 96), kept_aside=True),
            Family("small", "the same on 8 GPUs with 40 jobs",
                   lambda rng: _on(_mixed(rng, 40, span_hours=2.0), 8), kept_aside=True),
            Family("load-60", "60 % of the capacity comes in", _load(0.6)),
            Family("load-90", "90 % of the capacity comes in", _load(0.9), kept_aside=True),
            Family("load-150", "150 % of the capacity comes in", _load(1.5), kept_aside=True),
            Family("open", "steady arrivals at 0.95, the middle of it measured",
                   lambda rng: _on(_at_load(_mixed(rng, 300), 0.95), window=STEADY)),
            Family("diurnal", "by day twice the rate, by night a tenth", _diurnal,
                   kept_aside=True),
            Family("bursts", "all jobs in six bursts", _bursty),
            Family("surge", "a calm stream, then a crowd at once", _surge, kept_aside=True),
            Family("heavy-tail", "minutes to days, gangs up to 64", _heavy_tail),
            Family("tiny", "most jobs are hardly longer than a round", _tiny, kept_aside=True),
            Family("static", "no job adapts", _adaptation("static")),
            Family("accordion", "all jobs by accordion", _adaptation("accordion"),
                   kept_aside=True),
            Family("gns", "all jobs by gradient noise scale", _adaptation("gns")),
            Family("pruning", "all jobs prune their models", _adaptation("pruning"),
                   kept_aside=True),
            Family("zigzag", "speeds that jump at random", _zigzag),
            Family("speed-up", "half of the jobs become 20 times faster, untold", _speed_up),
            Family("wrong-profiles", "declared epoch times are off by up to 30 %",
                   lambda rng: _on(wrong_profiles(_mixed(rng), 0.3, rng)), kept_aside=True),
            Family("slow-restarts", "rounds of 600 s, restarts of 400 s", _rounds(600.0, 400.0)),
            Family("long-rounds", "rounds of 900 s, restarts of 60 s", _rounds(900.0, 60.0),
                   kept_aside=True),
            Family("wide", "gangs up to the whole cluster", _wide),
            Family("weights", "three tenants of weight 1, 2 and 4",
                   lambda rng: _on(_mixed(rng, tenants=3, tenant_weights=(1.0, 2.0, 4.0)))),
            Family("stream", "small jobs at 0.8", lambda rng: _on(_stream(rng))),
            Family("giant", "the same and one job of all GPUs", _giant),
            Family("failures", "nodes fail and jobs crash", _failing, kept_aside=True),
            Family("lies-tenth", "a fifth of the jobs declare a tenth of their epochs",
                   _declaring(0.1)),
            Family("lies-tenfold", "a fifth of the jobs declare ten times their epochs",
                   _declaring(10.0), kept_aside=True),
            Family("age-week", "the batch after a week", _aged(7), kept_aside=True),
            Family("age-year", "the batch after a year", _aged(365)),
        )
    }
)  # fmt: skip

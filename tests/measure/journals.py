"""Journals for tests: written by hand event by event, or by a toy round scheduler."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from shockwave.measure import RunHistory, fold_history
from shockwave.model.cluster import Cluster, Node
from shockwave.model.events import (
    Event,
    JobFailed,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
    RoundDecided,
    RunEnded,
    RunStarted,
    StopReason,
)
from shockwave.model.job import Adaptation, JobSpec


def run_started(
    nodes: Sequence[Node] | None = None,
    *,
    policy: str = "toy",
    trace: str = "hand-made",
    round_seconds: float = 100.0,
    restart_seconds: float = 10.0,
) -> RunStarted:
    return RunStarted(
        0.0,
        policy=policy,
        predictor="reactive",
        trace=trace,
        nodes=tuple(nodes if nodes is not None else (Node("n0", 2), Node("n1", 2))),
        round_seconds=round_seconds,
        restart_seconds=restart_seconds,
        seed=0,
        version="0",
    )


def spec(
    job_id: str, arrival: float = 0.0, gpus: int = 1, *, model: str = "ResNet-18", weight: float = 1
) -> JobSpec:
    return JobSpec(
        job_id, arrival, gpus, 10, (32,), (1.0,), Adaptation.STATIC, model, weight=weight
    )


def submitted(
    job_id: str,
    arrival: float = 0.0,
    gpus: int = 1,
    *,
    seen: float | None = None,
    weight: float = 1,
) -> JobSubmitted:
    job = spec(job_id, arrival, gpus, weight=weight)
    return JobSubmitted(arrival if seen is None else seen, job)


def started(time: float, job_id: str, attempt: int = 1, *slots: tuple[str, int]) -> JobStarted:
    by_node: dict[str, list[int]] = {}
    for node, slot in slots or (("n0", 0),):
        by_node.setdefault(node, []).append(slot)
    placement = tuple((node, tuple(numbers)) for node, numbers in by_node.items())
    return JobStarted(time, job_id, placement, attempt)


def stopped(time: float, job_id: str, reason: StopReason = StopReason.PREEMPTED) -> JobStopped:
    return JobStopped(time, job_id, 0.0, reason)


def decided(
    time: float, round_: int, *, rounds: int = 1, plan_seconds: float = 0.5,
    gap: float | None = None, spanning: int = 0,
) -> RoundDecided:  # fmt: skip
    return RoundDecided(
        time, round_, rounds, active=1, running=1, gpus_up=4, gpus_busy=1, spanning=spanning,
        plan_seconds=plan_seconds, gap=gap,
    )  # fmt: skip


@dataclass
class ToyJob:
    """A job of the toy scheduler: ``work`` exclusive seconds on ``gpus`` GPUs."""

    id: str
    arrival: float
    gpus: int
    work: float
    model: str = "ResNet-18"
    weight: float = 1.0
    done: float = 0.0
    held: float = 0.0
    starts: int = 0


# What a toy policy ranks jobs by, smallest first: (job, now).
Rank = Callable[[ToyJob, float], float]

RANKS: dict[str, Rank] = {
    "first-come": lambda job, now: job.arrival,
    "shortest-first": lambda job, now: job.work - job.done,
    "least-attained": lambda job, now: job.held * job.gpus,
    "round-robin": lambda job, now: job.held / (now - job.arrival + 1.0),
}


def toy_events(
    jobs: Sequence[ToyJob], rank: str, *, gpus: int = 8, gpus_per_node: int = 4,
    round_seconds: float = 120.0, restart_seconds: float = 20.0, trace: str = "toy",
) -> list[Event]:  # fmt: skip
    """A consistent journal: the jobs of lowest rank run, gangs that do not fit are skipped."""
    nodes = Cluster.uniform(gpus, gpus_per_node).nodes
    events: list[Event] = [
        run_started(
            nodes, policy=rank, trace=trace, round_seconds=round_seconds,
            restart_seconds=restart_seconds,
        )
    ]  # fmt: skip
    slots = [(node.id, slot) for node in nodes for slot in range(node.gpus)]
    free = list(range(len(slots)))
    held: dict[str, list[int]] = {}
    waiting = sorted(jobs, key=lambda job: job.arrival)
    active: list[ToyJob] = []
    number = 0
    while waiting or active:
        if not active:
            number = max(number, math.ceil(waiting[0].arrival / round_seconds))
        now = number * round_seconds
        while waiting and waiting[0].arrival <= now:
            job = waiting.pop(0)
            active.append(job)
            declared = spec(job.id, job.arrival, job.gpus, model=job.model, weight=job.weight)
            events.append(JobSubmitted(now, declared))
        room, chosen = gpus, []
        for job in sorted(active, key=lambda job: (RANKS[rank](job, now), job.arrival)):
            if job.gpus <= room:
                room -= job.gpus
                chosen.append(job)
        names = {job.id for job in chosen}
        for name in [name for name in held if name not in names]:
            free = sorted(free + held.pop(name))
            events.append(stopped(now, name))
        fresh = [job for job in chosen if job.id not in held]
        for job in fresh:
            held[job.id], free = free[: job.gpus], free[job.gpus :]
            job.starts += 1
            events.append(started(now, job.id, job.starts, *[slots[slot] for slot in held[job.id]]))
        events.append(
            RoundDecided(
                now, number, 1, len(active), len(chosen), gpus, gpus - room, 0,
                plan_seconds=0.001, gap=0.01 if rank == "shortest-first" else None,
            )
        )  # fmt: skip
        finished: list[tuple[float, ToyJob]] = []
        for job in chosen:
            pause = restart_seconds if job in fresh else 0.0
            took = min(round_seconds, pause + job.work - job.done)
            job.done += took - pause
            job.held += took
            if job.done >= job.work - 1e-9:
                finished.append((now + took, job))
        for time, job in sorted(finished, key=lambda pair: pair[0]):
            events.append(JobFinished(time, job.id, job.work))
            free = sorted(free + held.pop(job.id))
            active.remove(job)
        number += 1
    events.append(RunEnded(number * round_seconds, number))
    return events


def toy_history(jobs: Sequence[ToyJob], rank: str, *, gpus: int = 8) -> RunHistory:
    return fold_history(toy_events(jobs, rank, gpus=gpus))


def hand_made() -> list[Event]:
    """Four GPUs on two nodes, rounds of 100 s, restarts of 10 s.

    ======  =======  ====  =========================  ==============================
    job     arrival  GPUs  leases                     end
    ======  =======  ====  =========================  ==============================
    A       0        2     0-200 (n0), 300-350 (n1)   finished, X = 190 + 40 = 230
    B       20       1     100-180                    finished, X = 70
    C       50       1     200-250                    failed after 40 s of work
    ======  =======  ====  =========================  ==============================
    """
    return [
        run_started(),
        submitted("A", 0.0, 2),
        started(0.0, "A", 1, ("n0", 0), ("n0", 1)),
        decided(0.0, 0, plan_seconds=0.2, gap=0.01),
        submitted("B", 20.0, 1, seen=100.0),
        submitted("C", 50.0, 1, seen=100.0),
        started(100.0, "B", 1, ("n1", 0)),
        decided(100.0, 1, plan_seconds=0.0),
        JobFinished(180.0, "B", 70.0),
        stopped(200.0, "A"),
        started(200.0, "C", 1, ("n1", 1)),
        decided(200.0, 2, plan_seconds=0.4, gap=0.03, spanning=1),
        JobFailed(250.0, "C", "out of memory"),
        started(300.0, "A", 2, ("n1", 0), ("n1", 1)),
        decided(300.0, 3, plan_seconds=0.6),
        JobFinished(350.0, "A", 230.0),
        RunEnded(400.0, 4),
    ]


def one_gpu() -> list[Event]:
    """One GPU, rounds of 100 s, free restarts: Q runs 0-100, P 100-250, R 300-400."""
    return [
        run_started([Node("n0", 1)], restart_seconds=0.0),
        submitted("P"),
        submitted("Q"),
        started(0.0, "Q"),
        submitted("R", 50.0, seen=100.0),
        JobFinished(100.0, "Q", 100.0),
        started(100.0, "P"),
        JobFinished(250.0, "P", 150.0),
        started(300.0, "R"),
        JobFinished(400.0, "R", 100.0),
        RunEnded(400.0, 4),
    ]


def toy_workload(count: int = 40, seed: int = 0) -> list[ToyJob]:
    """A mix of models, gangs and runtimes; fresh jobs at every call."""
    rng = np.random.default_rng(seed)
    models = ("ResNet-18", "ResNet-50", "LM", "Transformer", "Recommendation")
    arrival = np.cumsum(rng.exponential(90.0, count)).round(1)
    return [
        ToyJob(
            str(number),
            float(arrival[number]),
            int(rng.choice([1, 1, 1, 2, 4])),
            round(float(rng.lognormal(6.6, 0.9)), 1),
            str(rng.choice(models)),
        )
        for number in range(count)
    ]

"""What another scheduler would have made of the jobs that a cluster really ran.

The jobs are known by what the cluster's own queue told of them: who, when, how many GPUs, from when
to when. What really happened becomes a journal like any other. The same jobs are then scheduled
again by a policy that is told of each what could have been known when it came: what jobs of the
same user took before, or its time limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shockwave.engine.rounds import Rounds
from shockwave.executors.simulation import simulate
from shockwave.executors.slurm.watch import SeenJob
from shockwave.measure.fold import fold_history
from shockwave.measure.history import RunHistory
from shockwave.measure.whatif import Interval
from shockwave.model.cluster import Cluster, Node
from shockwave.model.errors import InputError
from shockwave.model.events import (
    Event,
    JobCancelled,
    JobFinished,
    JobStarted,
    JobSubmitted,
    Placement,
    RunEnded,
    RunStarted,
    Starts,
)
from shockwave.model.job import JobSpec, Preemptible, Regime, TraceJob
from shockwave.policies import registry as policies
from shockwave.predict import registry as predictors
from shockwave.version import __version__

NODE = "slurm"
_EPOCHS = 60  # that a job of expected length is cut into: what a scheduler would hear of it
_UNKNOWN_SECONDS = 3600.0  # of a job of which nothing at all can be guessed
_ENOUGH = 3  # earlier jobs of a user from which their next one is guessed
ASSUMPTIONS = (
    "a job takes as long as it took under Slurm, whenever and wherever it runs",
    "how long a job will take is guessed from earlier jobs of its user, else from its time limit",
    "epochs and adaptation are not known: jobs report nothing, so each is taken as static",
    "without preemption a job runs to its end once it is started, as it does under Slurm; with "
    "preemption every job is taken to save and to go on at the price of a restart",
    "all GPUs are alike and every job may use all of them; partitions, QOS, reservations and "
    "limits of Slurm are not looked at",
    "jobs that have not ended, and jobs without GPUs, are left out of the comparison",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Figures of one way to schedule the jobs, in seconds."""

    mean_wait: float  # until the first start
    mean_jct: float
    makespan: float  # from the first arrival


@dataclass(frozen=True, slots=True)
class Alternative:
    """What a policy would have done, over all samples."""

    policy: str
    preemption: bool
    mean_wait: Interval
    mean_jct: Interval
    makespan: Interval
    mean_jct_change: Interval  # relative to what happened: -0.1 is 10 % less

    @property
    def name(self) -> str:
        return f"{self.policy}, {'with' if self.preemption else 'without'} preemption"


@dataclass(frozen=True)
class ShadowReport:
    """What happened, and what would have."""

    jobs: int
    left_out: int
    gpus: int
    gpus_guessed: bool
    happened: Outcome
    history: RunHistory
    alternatives: tuple[Alternative, ...]


def ended(jobs: Sequence[SeenJob]) -> list[SeenJob]:
    """Those that can be compared, by submission."""
    usable = [
        job
        for job in jobs
        if job.gpus > 0
        and job.started is not None
        and job.ended is not None
        and job.ended > job.started >= job.submitted - 1.0
    ]
    return sorted(usable, key=lambda job: (job.submitted, job.number))


def most_gpus_at_once(jobs: Sequence[SeenJob]) -> int:
    """GPUs that were ever held at the same time: the cluster has at least so many."""
    steps = [
        step
        for job in jobs
        if job.started is not None
        for step in ((job.started, job.gpus), (job.ended or np.inf, -job.gpus))
    ]
    held = np.cumsum([gpus for _, gpus in sorted(steps)])
    return int(held.max(initial=0))


def journal_of(jobs: Sequence[SeenJob], gpus: int, round_seconds: float) -> list[Event]:
    """What Slurm really did, as events. All GPUs are taken as those of one node."""
    found = sorted(jobs, key=lambda job: (job.submitted, job.number))
    if not found:
        raise InputError("no job was seen", hint="Watch for longer")
    origin = min(job.submitted for job in found)
    last = max(max(job.ended or 0.0, job.started or 0.0, job.submitted) for job in found)
    settings = RunStarted(
        0.0,
        policy="slurm",
        predictor="reactive",
        trace="slurm",
        nodes=(Node(NODE, gpus),),
        round_seconds=round_seconds,
        restart_seconds=0.0,
        seed=0,
        version=__version__,
        started_unix=origin,
        starts=Starts.IMMEDIATE,
    )
    # Ends before starts at the same second: the GPUs are handed on.
    steps: list[tuple[float, int, SeenJob]] = []
    for job in found:
        steps.append((job.submitted, 1, job))
        if job.started is not None and job.gpus > 0:
            steps.append((job.started, 2, job))
        if job.ended is not None:
            steps.append((job.ended, 0 if job.started is not None else 3, job))
    free, held = set(range(gpus)), dict[str, list[int]]()
    events: list[Event] = [settings]
    for at, kind, job in sorted(steps, key=lambda step: step[:2]):
        time = at - origin
        if kind == 1:
            events.append(JobSubmitted(time, _spec(job, time)))
        elif kind == 2:
            slots = sorted(free)[: job.gpus]
            free.difference_update(slots)
            held[job.number] = slots
            placement: Placement = ((NODE, tuple(slots)),)
            events.append(JobStarted(time, job.number, placement, 1))
        elif job.started is None or job.gpus == 0:
            events.append(JobCancelled(time, job.number))
        else:
            free.update(held.pop(job.number, []))
            events.append(JobFinished(time, job.number, at - job.started))
    events.append(RunEnded(last - origin, 0))
    return events


def _spec(job: SeenJob, arrival: float) -> JobSpec:
    return JobSpec(
        job.number,
        arrival,
        job.gpus,
        1,
        (1,),
        (float("nan"),),
        tenant=job.account or job.user or "default",
        name=job.name,
        owner=job.user,
        preemptible=Preemptible.NEVER,
    )


class Guesses:
    """How long a job will take, as far as one can know when it comes."""

    def __init__(self, history: Sequence[SeenJob] = ()) -> None:
        self._by_user: dict[str, list[tuple[float, float]]] = {}  # (ended, seconds)
        self._used: list[float] = []  # share of its limit that a job took
        for job in history:
            self.learn(job)

    def learn(self, job: SeenJob) -> None:
        if job.started is None or job.ended is None:
            return
        seconds = job.ended - job.started
        self._by_user.setdefault(job.user, []).append((job.ended, seconds))
        if job.limit_seconds:
            self._used.append(seconds / job.limit_seconds)

    def seconds(self, job: SeenJob, rng: np.random.Generator | None = None) -> float:
        """The median of the user's earlier jobs; with ``rng``, one of them by chance."""
        earlier = [s for end, s in self._by_user.get(job.user, ()) if end <= job.submitted]
        if len(earlier) >= _ENOUGH:
            return float(np.median(earlier) if rng is None else rng.choice(earlier))
        if job.limit_seconds:
            used = self._used or [1.0]
            share = float(np.median(used) if rng is None else rng.choice(used))
            return max(job.limit_seconds * share, 1.0)
        return _UNKNOWN_SECONDS


def report(
    seen: Sequence[SeenJob],
    *,
    history: Sequence[SeenJob] = (),
    gpus: int | None = None,
    chosen: Sequence[str] = ("shockwave",),
    rounds: Rounds | None = None,
    samples: int = 8,
    seed: int = 0,
) -> ShadowReport:
    """Compares what Slurm did with what each of the policies would have done.

    A sample guesses the lengths of jobs anew and begins its rounds at another second.
    Raises :class:`InputError` if no job has ended.
    """
    rounds = rounds or Rounds()
    jobs = ended(seen)
    if not jobs:
        raise InputError("no job with GPUs has ended yet", hint="Watch for longer")
    most = most_gpus_at_once(seen)
    total = max(gpus or most, most, *(job.gpus for job in jobs))
    happened = fold_history(journal_of(jobs, total, rounds.round_seconds))
    what_was = outcome(happened)
    guesses = Guesses([*history, *jobs])
    alternatives = []
    for policy in chosen:
        for preemption in (False, True):
            found = [
                _rerun(jobs, total, policy, preemption, guesses, rounds, [seed, sample])
                for sample in range(samples)
            ]
            alternatives.append(_alternative(policy, preemption, found, what_was))
    left_out = len(seen) - len(jobs)
    return ShadowReport(
        len(jobs), left_out, total, gpus is None, what_was, happened, tuple(alternatives)
    )


def outcome(history: RunHistory) -> Outcome:
    jobs = history.jobs
    return Outcome(
        float(np.nanmean(jobs.first_start - jobs.arrival)),
        float(np.nanmean(jobs.jct)),
        float(np.nanmax(jobs.finish) - jobs.arrival.min()),
    )


def _rerun(
    jobs: Sequence[SeenJob],
    gpus: int,
    policy: str,
    preemption: bool,
    guesses: Guesses,
    rounds: Rounds,
    seed: Sequence[int],
) -> Outcome:
    rng = np.random.default_rng(seed)
    origin = jobs[0].submitted - float(rng.uniform(0.0, rounds.round_seconds))
    cost = rounds.restart_seconds if preemption else 0.0
    deciding = policies.create(policy)
    events = simulate(
        [_trace_job(job, origin, guesses.seconds(job, rng), preemption) for job in jobs],
        Cluster((Node(NODE, gpus),)),
        deciding,
        predictors.create(deciding.predictor),
        rounds=Rounds(rounds.round_seconds, cost),
        starts=Starts.IMMEDIATE,
    )
    return outcome(fold_history(events))


def _trace_job(job: SeenJob, origin: float, guessed: float, preemption: bool) -> TraceJob:
    """What is declared is the guess; what it does is what it did."""
    assert job.started is not None  # it has ended
    assert job.ended is not None
    seconds = job.ended - job.started
    epochs = max(round(_EPOCHS * seconds / guessed), 1)
    spec = JobSpec(
        job.number,
        job.submitted - origin,
        job.gpus,
        max(round(epochs * guessed / seconds), 1),
        (1,),
        (seconds / epochs,),
        tenant=job.account or job.user or "default",
        owner=job.user,
        preemptible=Preemptible.ALWAYS if preemption else Preemptible.NEVER,
    )
    return TraceJob(spec, (Regime(1, epochs, seconds / epochs),))


def _alternative(
    policy: str, preemption: bool, found: Sequence[Outcome], happened: Outcome
) -> Alternative:
    def interval(values: Sequence[float]) -> Interval:
        made = Interval.of(np.array(values))
        assert made is not None  # every sample has one
        return made

    return Alternative(
        policy,
        preemption,
        interval([one.mean_wait for one in found]),
        interval([one.mean_jct for one in found]),
        interval([one.makespan for one in found]),
        interval([one.mean_jct / happened.mean_jct - 1.0 for one in found]),
    )

"""A whole simulation: a trace, a cluster and a policy in, a journal out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from shockwave.engine.feed import Feed
from shockwave.engine.journal import Journal, MemoryJournal
from shockwave.engine.log import Log
from shockwave.engine.loop import Observer, RoundLoop
from shockwave.engine.options import OptionTable
from shockwave.engine.placement import Placer
from shockwave.engine.retry import Retries
from shockwave.engine.rounds import Rounds
from shockwave.engine.state import SchedulerState
from shockwave.executors.faults import Fault
from shockwave.executors.simulated import SimulatedExecutor
from shockwave.model.cluster import Cluster
from shockwave.model.errors import InputError, StuckError
from shockwave.model.events import Event, RunEnded, RunStarted, Starts, TenantChanged
from shockwave.model.job import JobSpec, Regime, TraceJob
from shockwave.model.options import Option
from shockwave.model.tenants import Tenant
from shockwave.model.view import Floats, Ints
from shockwave.model.words import count_of
from shockwave.policies.base import Policy
from shockwave.predict.base import Predictor
from shockwave.version import __version__

_MOST_IDLE_LOOKS = 2_000  # in which jobs held GPUs and none got any further


class TraceFeed(Feed):
    """Hands out the jobs of a trace when their time has come."""

    def __init__(self, jobs: Sequence[TraceJob]) -> None:
        self._jobs = jobs
        self._next = 0

    def due(self, now: float) -> list[JobSpec]:
        first = self._next
        while self._next < len(self._jobs) and self.next_arrival() <= now:
            self._next += 1
        return [job.spec for job in self._jobs[first : self._next]]

    def next_arrival(self) -> float:
        if self._next == len(self._jobs):
            return math.inf
        return self._jobs[self._next].spec.arrival_seconds


class TraceTruth:
    """The true regimes by handle, for clairvoyant predictors and nobody else."""

    def __init__(self, jobs: Sequence[TraceJob]) -> None:
        self._jobs = by_arrival(jobs)

    def regimes(self, handle: int) -> tuple[Regime, ...]:
        return self._jobs[handle].regimes


class TraceProfiles:
    """Offline profiles: the true seconds per epoch of every option, the mean over all epochs."""

    def __init__(self, jobs: Sequence[TraceJob]) -> None:
        self._jobs = by_arrival(jobs)
        self._seconds = np.full((len(jobs), 0), np.nan)  # [handle, option]

    def __call__(self, handles: Ints, options: Sequence[Option]) -> Floats:
        """[handle, option] seconds per epoch, nan where the trace does not tell."""
        more = [
            [self._of(job, option) for job in self._jobs]
            for option in options[self._seconds.shape[1] :]
        ]
        if more:
            self._seconds = np.concatenate([self._seconds, np.array(more).T], axis=1)
        return self._seconds[handles, : len(options)]

    @staticmethod
    def _of(job: TraceJob, option: Option) -> float:
        if job.speeds is not None:
            return job.speeds.mean_seconds(option.gpu_type, option.gpus)
        if option.gpus != job.spec.gpus:
            return math.nan
        return job.exclusive_seconds / sum(regime.epochs for regime in job.regimes)


def by_arrival(jobs: Sequence[TraceJob]) -> list[TraceJob]:
    """The order in which a simulation submits jobs, and so numbers their handles."""
    return sorted(jobs, key=lambda job: job.spec.arrival_seconds)


def simulate(
    jobs: Sequence[TraceJob],
    cluster: Cluster,
    policy: Policy,
    predictor: Predictor,
    *,
    rounds: Rounds | None = None,
    starts: Starts = Starts.ROUNDS,
    faults: Sequence[Fault] = (),
    retries: Retries | None = None,
    journal: Journal | None = None,
    trace: str = "",
    seed: int = 0,
    observers: Sequence[Observer] = (),
    tenants: Sequence[Tenant] = (),
    on_progress: Callable[[int], None] | None = None,
) -> list[Event]:
    """Run the whole trace and return the events (none if a ``journal`` was given).

    ``on_progress`` is told the number of jobs that have left after every decision.
    Raises :class:`InputError` for a gang that the cluster can never hold.
    """
    rounds = rounds or Rounds()
    check_that_all_fit(jobs, cluster, trace)
    _check_limits(jobs, cluster, {tenant.name: tenant for tenant in tenants}, trace)
    settings = RunStarted(
        0.0,
        policy=policy.name,
        predictor=predictor.name,
        trace=trace,
        nodes=cluster.nodes,
        round_seconds=rounds.round_seconds,
        restart_seconds=rounds.restart_seconds,
        seed=seed,
        version=__version__,
        starts=starts,
    )
    return run_simulation(
        settings,
        jobs,
        policy,
        predictor,
        faults=faults,
        retries=retries,
        journal=journal,
        observers=observers,
        tenants=tenants,
        on_progress=on_progress,
    )


def _check_limits(
    jobs: Sequence[TraceJob], cluster: Cluster, tenants: Mapping[str, Tenant], trace: str
) -> None:
    """Raises :class:`InputError` for a gang that its tenant may never hold."""
    types = {node.gpu_type for node in cluster.nodes}
    for job in jobs:
        tenant, spec = tenants.get(job.spec.tenant), job.spec
        if tenant is None or not tenant.limited:
            continue
        usable = types.intersection(spec.gpu_types) or types
        most = max(tenant.most_of(kind) for kind in usable)
        least = min((spec.gpus, *spec.gpu_counts))
        if least > most:
            raise InputError(
                f"job {spec.id} needs {count_of(least, 'GPU')} at once, but tenant "
                f"{spec.tenant} may hold {count_of(int(most), 'GPU')} at most",
                source=trace or None,
            )


def check_that_all_fit(jobs: Sequence[TraceJob], cluster: Cluster, trace: str = "") -> None:
    """Raises :class:`InputError` for a gang that the cluster can never hold."""
    largest = max(jobs, key=lambda job: job.spec.gpus, default=None)
    if largest is not None and largest.spec.gpus > cluster.gpus:
        raise InputError(
            f"job {largest.spec.id} needs {count_of(largest.spec.gpus, 'GPU')} at once, "
            f"but the cluster has {cluster.gpus}",
            source=trace or None,
            hint=f"Simulate at least --gpus {largest.spec.gpus}",
        )
    types = Placer(cluster.nodes).types()
    if len(types) < 2 and not any(job.spec.has_options for job in jobs):
        return
    options = OptionTable([job.spec for job in jobs], types)
    for row, job in enumerate(jobs):
        if not options.requests(row):
            spec = job.spec
            where = f" of type {' or '.join(spec.gpu_types)}" if spec.gpu_types else " of one type"
            memory = "" if spec.gpu_memory_gb is None else f" with {spec.gpu_memory_gb:g} GB"
            have = ", ".join(f"{room.gpus} of type {room.name}" for room in types)
            raise InputError(
                f"job {spec.id} requests {count_of(spec.gpus, 'GPU')}{where}{memory} at once, "
                f"but the cluster has {have}",
                source=trace or None,
            )


def run_simulation(
    settings: RunStarted,
    jobs: Sequence[TraceJob],
    policy: Policy,
    predictor: Predictor,
    *,
    faults: Sequence[Fault] = (),
    retries: Retries | None = None,
    executor: SimulatedExecutor | None = None,
    feed: Feed | None = None,
    journal: Journal | None = None,
    observers: Sequence[Observer] = (),
    tenants: Sequence[Tenant] = (),
    on_progress: Callable[[int], None] | None = None,
) -> list[Event]:
    """A run with exactly these settings.

    An ``executor`` of one's own has the faults, and a ``feed`` the jobs, which come in the order
    of :func:`by_arrival`.
    """
    ordered = by_arrival(jobs)
    memory = MemoryJournal()
    log = Log(SchedulerState(), memory if journal is None else journal)
    log.emit(settings, *(TenantChanged(0.0, tenant) for tenant in tenants))
    executor = executor or SimulatedExecutor(ordered, settings.restart_seconds, faults)
    loop = RoundLoop(
        policy=policy,
        predictor=predictor,
        executor=executor,
        feed=feed or TraceFeed(ordered),
        log=log,
        retries=retries,
        observers=observers,
        profiles=TraceProfiles(ordered),
    )
    while loop.step():
        if executor.idle_looks > _MOST_IDLE_LOOKS:
            raise StuckError(
                f"no job has made progress for {executor.idle_looks} rounds: the policy stops jobs "
                f"before their starts are over, which cost some of them more than a round of "
                f"{settings.round_seconds:g} s; try a longer --round"
            )
        if on_progress is not None:
            table = loop.state.table
            on_progress(table.submitted - len(table.active))
    log.emit(RunEnded(loop.now, loop.state.rounds_scheduled))
    log.flush()
    return memory.events

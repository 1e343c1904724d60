"""Many simulations of one question: every policy with every seed, over all cores."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.sharedctypes import SynchronizedArray
from pathlib import Path

from shockwave.engine.journal import FileJournal, MemoryJournal
from shockwave.engine.loop import Observer
from shockwave.engine.rounds import Rounds
from shockwave.executors.faults import Fault
from shockwave.executors.simulation import TraceTruth, simulate
from shockwave.measure import RunHistory, fold_history, summarize
from shockwave.measure.summary import Summary
from shockwave.measure.told import WhatIsTold
from shockwave.model.cluster import Cluster
from shockwave.model.events import Starts
from shockwave.model.job import TraceJob
from shockwave.model.tenants import Tenant
from shockwave.plan.window.planner import Solver
from shockwave.policies import registry as policies
from shockwave.predict import registry as predictors
from shockwave.traces import load
from shockwave.traces.recipe import is_recipe
from shockwave.traces.window import Window

_WORTH_A_PROCESS = 3_000  # simulated jobs; starting a process costs about as much


@dataclass(frozen=True)
class Run:
    """One simulation to do."""

    trace: str
    policy: str
    seed: int
    cluster: Cluster
    rounds: Rounds
    predictor: str | None = None
    faults: tuple[Fault, ...] = ()
    solver: Solver = "prices"
    journal: Path | None = None  # where to write its events
    window: Window | None = None  # whose jobs count
    starts: Starts = Starts.ROUNDS
    speeds: Path | None = None  # of jobs that bring none
    tenants: tuple[Tenant, ...] = ()


@dataclass(frozen=True)
class RunResult:
    """What came of it."""

    summary: Summary
    history: RunHistory


# Told the index of a run and how many of its jobs have left.
OnProgress = Callable[[int, int], None]


def load_jobs(trace: str, seed: int, speeds: Path | None = None) -> list[TraceJob]:
    """The jobs of a file, or of a recipe drawn with ``seed``. Read once per process."""
    return _load(trace, seed if is_recipe(trace) else None, speeds)


@lru_cache(maxsize=32)
def _load(trace: str, seed: int | None, speeds: Path | None) -> list[TraceJob]:
    return load(trace, seed=seed, profiles=speeds)


def execute(
    run: Run,
    *,
    on_progress: Callable[[int], None] | None = None,
    observers: Sequence[Observer] = (),
) -> RunResult:
    """Simulate and measure one run."""
    jobs = load_jobs(run.trace, run.seed, run.speeds)
    start = time.perf_counter()
    policy = policies.create(run.policy, seed=run.seed, solver=run.solver)
    predictor = predictors.create(run.predictor or policy.predictor, truth=TraceTruth(jobs))
    told = WhatIsTold()
    with nullcontext() if run.journal is None else FileJournal(run.journal) as file:
        journal = MemoryJournal(beside=file)
        simulate(
            jobs,
            run.cluster,
            policy,
            predictor,
            rounds=run.rounds,
            starts=run.starts,
            faults=run.faults,
            journal=journal,
            trace=run.trace,
            seed=run.seed,
            observers=(*observers, told),
            tenants=run.tenants,
            on_progress=on_progress,
        )
    wall_seconds = time.perf_counter() - start
    history = fold_history(journal.events)
    summary = summarize(history, wall_seconds=wall_seconds, window=run.window)
    return RunResult(summary | told.figures(journal.events), history)


def execute_all(
    runs: Sequence[Run], workers: int | None, on_progress: OnProgress
) -> list[RunResult]:
    """All runs, in order; in this process where others would not pay off."""
    work = sum(len(load_jobs(run.trace, run.seed, run.speeds)) for run in runs)
    if workers is None:
        workers = 1 if work < _WORTH_A_PROCESS else os.cpu_count() or 1
    if min(workers, len(runs)) == 1:
        return [
            execute(run, on_progress=lambda done, index=index: on_progress(index, done))  # type: ignore[misc]
            for index, run in enumerate(runs)
        ]
    return _in_processes(runs, min(workers, len(runs)), on_progress)


_done: SynchronizedArray[int]


def _share(done: SynchronizedArray[int]) -> None:
    global _done
    _done = done


def _execute_shared(index: int, run: Run) -> RunResult:
    def note(done: int) -> None:
        _done[index] = done

    return execute(run, on_progress=note)


def _in_processes(runs: Sequence[Run], workers: int, on_progress: OnProgress) -> list[RunResult]:
    # Not forked: a fork of a process with threads (the progress display) can deadlock.
    context = multiprocessing.get_context("spawn")
    done: SynchronizedArray[int] = context.Array("q", len(runs))
    with ProcessPoolExecutor(workers, context, initializer=_share, initargs=(done,)) as pool:
        futures = [pool.submit(_execute_shared, index, run) for index, run in enumerate(runs)]
        try:
            while wait(futures, timeout=0.2).not_done:
                for index, count in enumerate(done[:]):
                    on_progress(index, count)
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise

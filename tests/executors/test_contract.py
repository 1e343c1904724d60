"""The simulated executor keeps the contract of executors."""

from __future__ import annotations

from shockwave.engine.executor import Executor
from shockwave.executors.simulated import SimulatedExecutor
from shockwave.model.job import Adaptation, JobSpec, Regime, TraceJob
from shockwave.testing import ExecutorContract


def two_regimes(name: str) -> TraceJob:
    spec = JobSpec(name, 0.0, 1, 4, (32, 64), (120.0, 80.0), Adaptation.GNS)
    return TraceJob(spec, (Regime(32, 2, 120.0), Regime(64, 2, 80.0)))


class TestSimulated(ExecutorContract):
    def make(self) -> tuple[Executor, tuple[JobSpec, JobSpec]]:
        jobs = two_regimes("a"), two_regimes("b")
        return SimulatedExecutor(jobs, self.restart_seconds), (jobs[0].spec, jobs[1].spec)

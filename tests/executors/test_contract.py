"""The simulated executor keeps the contract of executors."""

from __future__ import annotations

from collections.abc import Sequence

from shockwave.engine.executor import Executor
from shockwave.executors.faults import Fault, JobCrash, NodeFailure
from shockwave.executors.simulated import SimulatedExecutor
from shockwave.model.events import Placement
from shockwave.model.job import Adaptation, JobSpec, Regime, TraceJob
from shockwave.testing import ExecutorContract


def two_regimes(name: str, gpus: int = 1) -> TraceJob:
    spec = JobSpec(name, 0.0, gpus, 4, (32, 64), (120.0, 80.0), Adaptation.GNS)
    return TraceJob(spec, (Regime(32, 2, 120.0), Regime(64, 2, 80.0)))


class TestSimulated(ExecutorContract):
    def make(self, faults: Sequence[Fault] = ()) -> tuple[Executor, tuple[JobSpec, JobSpec]]:
        jobs = two_regimes("a"), two_regimes("b")
        executor = SimulatedExecutor(jobs, self.restart_seconds, faults)
        return executor, (jobs[0].spec, jobs[1].spec)

    def make_with_crash(self) -> tuple[Executor, tuple[JobSpec, JobSpec]]:
        return self.make([JobCrash(170.0, "a")])

    def make_with_lost_node(self) -> tuple[Executor, tuple[JobSpec, JobSpec]]:
        return self.make([NodeFailure(170.0, "n0")])

    def make_with_wide_gang(self) -> tuple[Executor, JobSpec, Placement]:
        job = two_regimes("wide", gpus=4)
        placement = (("n0", (0, 1)), ("n1", (0, 1)))
        return SimulatedExecutor([job], self.restart_seconds), job.spec, placement

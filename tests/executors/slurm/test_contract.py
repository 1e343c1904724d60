"""Gangs on a real Slurm keep the contract of executors."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.executors.local import harness as local
from tests.executors.slurm import harness

from shockwave.engine.executor import Executor
from shockwave.executors.slurm.allocation import SlurmAllocationExecutor
from shockwave.executors.slurm.executor import SlurmExecutor
from shockwave.model.command import Command
from shockwave.model.events import Placement
from shockwave.model.job import JobSpec
from shockwave.model.progress import Progressed
from shockwave.model.view import Ints
from shockwave.testing import ExecutorContract
from shockwave.testing.slurm_cluster import SlurmCluster


class TestSlurm(ExecutorContract):
    seconds = 0.8
    step = harness.STEP_SECONDS
    most_rounds = int(harness.PATIENCE_SECONDS / harness.STEP_SECONDS)
    exact = False
    kind: type[SlurmExecutor] = SlurmExecutor

    @pytest.fixture(autouse=True)
    def _everything_ends_with_the_test(
        self, cluster: SlurmCluster, tmp_path: Path
    ) -> Iterator[None]:
        self.cluster = cluster
        self.folder = tmp_path
        self.origin = time.time()
        with ExitStack() as self.stack:
            yield

    def start(
        self, commands: dict[str, Command], kind: type[SlurmExecutor] | None = None
    ) -> SlurmExecutor:
        self.commands = commands
        root = self.folder / "root"
        return self.stack.enter_context(
            harness.executor(
                self.cluster, root, commands, origin=self.origin, kind=kind or self.kind
            )
        )

    def make(
        self, kind: type[SlurmExecutor] | None = None, **first: object
    ) -> tuple[SlurmExecutor, tuple[JobSpec, JobSpec]]:
        settings: dict[str, object] = {"seconds": 0.2, "configurations": "32,32,64"}
        commands = {
            "a": local.tiny(self.folder, **settings, **first),
            "b": local.tiny(self.folder, **settings),
        }
        return self.start(commands, kind), (local.spec("a"), local.spec("b"))

    def make_with_crash(self) -> tuple[Executor, tuple[JobSpec, JobSpec]]:
        return self.make(crash="2:0")

    def make_with_lost_node(self) -> tuple[Executor, tuple[JobSpec, JobSpec]]:
        cluster = self.cluster

        class Hurt(self.kind):  # type: ignore[name-defined, misc]
            """Its node is killed when the first job has done an epoch."""

            killed = False

            def progress(self, handles: Ints | None = None) -> Progressed:
                progress: Progressed = super().progress(handles)
                if not self.killed and (progress.epochs_done >= 1).any():
                    self.killed = True
                    cluster.kill_node("n0")
                return progress

        return self.make(Hurt, epochs=1000)

    def make_with_wide_gang(self) -> tuple[Executor, JobSpec, Placement]:
        executor = self.start({"wide": local.tiny(self.folder)})
        placement = (("n2", (0, 1, 2, 3)), ("n1", (0, 2)))
        return executor, local.spec("wide", gpus=6), placement

    def restarted(self, executor: Executor) -> Executor:
        assert isinstance(executor, SlurmExecutor)
        executor.shutdown(stop_jobs=False)
        return self.start(self.commands)

    def log(self, executor: Executor, job: JobSpec) -> str:
        assert isinstance(executor, SlurmExecutor)
        return executor.log(job.id).read_text()


class TestSlurmAllocation(TestSlurm):
    """Inside of allocations that hold the nodes."""

    kind = SlurmAllocationExecutor

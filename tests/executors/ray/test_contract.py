"""The Ray executor keeps the contract of executors, on a real cluster."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.executors.local import harness as local
from tests.executors.ray import harness

from shockwave.engine.executor import Executor
from shockwave.executors.ray.executor import RayExecutor
from shockwave.model.command import Command
from shockwave.model.events import Placement
from shockwave.model.job import JobSpec
from shockwave.testing import ExecutorContract
from shockwave.testing.ray_cluster import RayCluster


class TestRay(ExecutorContract):
    seconds = 0.8
    step = harness.STEP_SECONDS
    most_rounds = int(harness.PATIENCE_SECONDS / harness.STEP_SECONDS)
    exact = False

    @pytest.fixture(autouse=True)
    def _everything_ends_with_the_test(self, cluster: RayCluster, tmp_path: Path) -> Iterator[None]:
        self.cluster = cluster
        self.folder = tmp_path
        self.origin = time.time()
        with ExitStack() as self.stack:
            yield

    def start(self, commands: dict[str, Command]) -> RayExecutor:
        self.commands = commands
        made = self.stack.enter_context(
            harness.executor(self.cluster, self.folder / "root", commands, origin=self.origin)
        )
        assert made.nodes() is not None
        return made

    def make(self, **first: object) -> tuple[Executor, tuple[JobSpec, JobSpec]]:
        settings: dict[str, object] = {"seconds": 0.2, "configurations": "32,32,64"}
        commands = {
            "a": local.tiny(self.folder, **{**settings, **first}),
            "b": local.tiny(self.folder, **settings),
        }
        return self.start(commands), (local.spec("a"), local.spec("b"))

    def make_with_crash(self) -> tuple[Executor, tuple[JobSpec, JobSpec]]:
        return self.make(crash="2:0")

    def make_with_lost_node(self) -> tuple[Executor, tuple[JobSpec, JobSpec]]:
        executor, jobs = self.make(seconds=2.0)
        assert isinstance(executor, RayExecutor)
        checkpoints = executor.folder("a") / "checkpoints"

        def lose() -> None:
            local.wait_until(lambda: any(checkpoints.glob("ckpt-*")))
            self.cluster.kill_node("n0")

        loser = threading.Thread(target=lose)
        loser.start()
        self.stack.callback(loser.join)
        return executor, jobs

    def make_with_wide_gang(self) -> tuple[Executor, JobSpec, Placement]:
        executor = self.start({"wide": local.tiny(self.folder)})
        placement = (("n0", (0, 1, 2, 3)), ("n1", (0,)))
        return executor, local.spec("wide", gpus=5), placement

    def restarted(self, executor: Executor) -> Executor:
        assert isinstance(executor, RayExecutor)
        executor.shutdown(stop_jobs=False)
        return self.start(self.commands)

    def log(self, executor: Executor, job: JobSpec) -> str:
        assert isinstance(executor, RayExecutor)
        return executor.log(job.id).read_text()

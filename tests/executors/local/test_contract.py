"""The local executor keeps the contract of executors, in real time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.executors.local import harness

from shockwave.engine.executor import Executor
from shockwave.executors.local.executor import LocalExecutor
from shockwave.model.cluster import Node
from shockwave.model.command import Command
from shockwave.model.events import Placement
from shockwave.model.job import JobSpec
from shockwave.testing import ExecutorContract


class TestLocal(ExecutorContract):
    seconds = 0.8
    step = harness.STEP_SECONDS
    most_rounds = int(harness.PATIENCE_SECONDS / harness.STEP_SECONDS)
    exact = False

    @pytest.fixture(autouse=True)
    def _everything_ends_with_the_test(self, tmp_path: Path) -> Iterator[None]:
        self.folder = tmp_path
        self.origin = time.time()
        with ExitStack() as self.stack:
            yield

    def start(self, commands: dict[str, Command], nodes: tuple[Node, ...]) -> LocalExecutor:
        self.commands, self.nodes = commands, nodes
        return self.stack.enter_context(
            harness.executor(self.folder / "root", commands, nodes=nodes, origin=self.origin)
        )

    def make(self, **first: object) -> tuple[Executor, tuple[JobSpec, JobSpec]]:
        settings: dict[str, object] = {"seconds": 0.2, "configurations": "32,32,64"}
        commands = {
            "a": harness.tiny(self.folder, **settings, **first),
            "b": harness.tiny(self.folder, **settings),
        }
        executor = self.start(commands, (Node("n0", 2),))
        return executor, (harness.spec("a"), harness.spec("b"))

    def make_with_crash(self) -> tuple[Executor, tuple[JobSpec, JobSpec]]:
        return self.make(crash="2:0")

    def make_with_wide_gang(self) -> tuple[Executor, JobSpec, Placement]:
        commands = {"wide": harness.tiny(self.folder)}
        executor = self.start(commands, (Node("n0", 2), Node("n1", 2)))
        placement = (("n0", (0, 1)), ("n1", (0,)))
        return executor, harness.spec("wide", gpus=3), placement

    def restarted(self, executor: Executor) -> Executor:
        assert isinstance(executor, LocalExecutor)
        executor.shutdown(stop_jobs=False)
        return self.start(self.commands, self.nodes)

    def log(self, executor: Executor, job: JobSpec) -> str:
        assert isinstance(executor, LocalExecutor)
        return executor.log(job.id).read_text()

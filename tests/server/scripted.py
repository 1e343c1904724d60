"""A scheduler without rounds: the real desk, board, log and store, moved on by hand.

Whatever a round loop would say happens when a test calls :meth:`ScriptedScheduler.start`,
:meth:`finish`, :meth:`decide` and so on. Time stands still until a test sets ``now``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from shockwave.engine.log import Log
from shockwave.engine.state import SchedulerState
from shockwave.model.cluster import Node
from shockwave.model.events import (
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobRunning,
    JobStarted,
    JobStopped,
    NodeOccupied,
    RoundDecided,
    RunStarted,
    StopReason,
)
from shockwave.model.progress import Progressed
from shockwave.model.view import Floats
from shockwave.plan.explain import Explanation
from shockwave.policies.base import Decision
from shockwave.predict import registry as predictors
from shockwave.protocol.paths import JobPaths
from shockwave.server.archive import Archive
from shockwave.server.board import Board
from shockwave.server.clock import RealClock
from shockwave.server.desk import Desk
from shockwave.server.projection import Projection
from shockwave.server.store import Store
from shockwave.server.submissions import JobTokens

STARTED_UNIX = 1_700_000_000.0
ROUND_SECONDS = 10.0


class ScriptedScheduler(Desk):
    """Two nodes of four GPUs, and a state directory of its own."""

    def __init__(self, state_dir: Path, executor: str = "local") -> None:
        self.now = 0.0
        self.state_dir = state_dir
        self.store = Store(
            f"sqlite:///{state_dir / 'shockwave.db'}", Archive(state_dir / "archive")
        )
        origin_unix = self.store.origin_unix(STARTED_UNIX)
        super().__init__(
            executor=executor,
            slots=None,
            state_dir=state_dir,
            store=self.store,
            clock=RealClock(
                origin_unix, unix_time=lambda: STARTED_UNIX, monotonic=lambda: self.now
            ),
        )
        self.board = Board(Projection(origin_unix), self.store)
        self.log = Log(SchedulerState(), self.board)
        self.attach(self.log, self.board)
        self.problem = None
        nodes = (Node("node-0", 4), Node("node-1", 4))
        self._emit(
            RunStarted(0.0, "fifo", "reactive", "live", nodes, ROUND_SECONDS, 1.0, 0, "test", 0.0)
        )

    def close(self) -> None:
        self.store.close()

    def token(self, job: str) -> str:
        """What the job itself would show."""
        return JobTokens(self.state_dir).token(job)

    # What a round loop would say.

    def start(self, job: str) -> None:
        self.log.take_requests()
        facts = self._facts(job)
        placed = self.log.state.placer.copy().place([facts.handle], [facts.spec.gpus])
        assert placed, "there is no room for it"
        JobPaths.of(self.state_dir, facts.id).path.mkdir(parents=True, exist_ok=True)
        self._emit(JobStarted(self.now, facts.id, placed[facts.handle], facts.starts + 1))
        self._emit(JobRunning(self.now, facts.id))

    def stop(self, job: str, reason: StopReason, detail: str = "") -> None:
        facts = self._facts(job)
        self._emit(JobStopped(self.now, facts.id, facts.epochs_done, reason, detail))

    def progress(
        self, job: str, productive_seconds: float, held_seconds: float, epochs_done: float = 0.0
    ) -> None:
        columns = (epochs_done, 0, np.nan, productive_seconds, held_seconds)
        handle = np.array([self._facts(job).handle], dtype=np.int64)
        epochs, index, epoch_seconds, productive, held = (np.array([c]) for c in columns)
        self._emit(Progressed(self.now, handle, epochs, index, epoch_seconds, productive, held))

    def finish(self, job: str, exclusive_seconds: float = 1.0) -> None:
        self._emit(JobFinished(self.now, self._facts(job).id, exclusive_seconds))

    def fail(self, job: str, *lines: str) -> None:
        reason = "\n".join(["kept crashing: exit code 1; its last lines:", *lines])
        self._emit(JobFailed(self.now, self._facts(job).id, reason))

    def obey_cancel(self, job: str) -> None:
        self._emit(JobCancelled(self.now, self._facts(job).id))

    def occupy(self, node: str, gpus: int) -> None:
        self._emit(NodeOccupied(self.now, node, gpus))

    def decide(self, *, plan_seconds: float = 0.01, **figures: Any) -> None:
        self.log.take_requests()
        state = self.log.state
        active, running = len(state.table.active), len(state.running())
        gpus = {"gpus_up": state.placer.gpus, "gpus_busy": 0, "spanning": 0}
        number = state.rounds_scheduled
        self._emit(
            RoundDecided(
                self.now, number, 1, active, running, plan_seconds=plan_seconds, **(gpus | figures)
            )
        )

    def explain(self, *, bid: float, price: float, finish: float, fair_finish: float) -> None:
        """A decision for the jobs that run, told as a planning policy would."""
        self.log.take_requests()
        state = self.log.state
        view = state.table.view(
            state.eligible(self.now),
            now=self.now,
            round_index=0,
            gpus_total=state.placer.gpus,
            round_seconds=ROUND_SECONDS,
            restart_seconds=1.0,
            changed=True,
            between_rounds=False,
        )

        def of_all(value: float) -> Floats:
            return np.full(len(view), value)

        told = Explanation(
            price,
            of_all(bid),
            of_all(self.now),
            of_all(finish),
            of_all(finish),
            of_all(finish),
            of_all(fair_finish),
            note=tuple("[by others]" for _ in range(len(view))),
        )
        decision = Decision(np.flatnonzero(view.running), explain=lambda: told)
        self.board.decided(view, predictors.create("reactive").forecast(view), decision)

    def write_log(self, job: str, text: str, rank: int = 0) -> Path:
        path = JobPaths.of(self.state_dir, self._facts(job).id).log(rank)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
        return path

    def _emit(self, *events: Event) -> None:
        self.log.emit(*events)
        self.log.flush()


def eventually(is_true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Waits for another thread; far longer than it ever should take."""
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)

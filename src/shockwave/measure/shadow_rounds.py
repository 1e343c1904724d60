"""A decision every round about jobs that somebody else runs. Nothing is ordered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from shockwave.engine.rounds import Rounds
from shockwave.engine.table import RUNNING, JobTable
from shockwave.executors.slurm.watch import SeenJob
from shockwave.measure.shadow import Guesses, most_gpus_at_once
from shockwave.model.job import JobSpec, Preemptible
from shockwave.policies import registry as policies
from shockwave.predict import registry as predictors

_EPOCHS = 60


class ShadowRounds:
    """Keeps the policy's memory from round to round."""

    def __init__(self, policy: str, rounds: Rounds, history: Sequence[SeenJob] = ()) -> None:
        self._policy = policies.create(policy)
        self._predictor = predictors.create(self._policy.predictor)
        self.rounds = rounds
        self._history = list(history)
        self._table = JobTable()
        self._origin: float | None = None
        self._round = 0

    def decide(
        self, seen: Sequence[SeenJob], now: float, gpus: int | None
    ) -> dict[str, Any] | None:
        """Who would run now, beside who does; None where there is nothing to decide."""
        active = [job for job in seen if job.ended is None and job.gpus > 0]
        total = max(gpus or 0, most_gpus_at_once(seen))
        fitting = [job for job in active if job.gpus <= total]
        if not fitting:
            return None
        if self._origin is None:
            self._origin = min(job.submitted for job in fitting)
        guesses = Guesses([*self._history, *(job for job in seen if job.ended is not None)])
        for job in sorted(fitting, key=lambda job: job.submitted):
            self._note(job, guesses.seconds(job), now)
        handles = np.array(sorted(self._handle(job) for job in fitting), dtype=np.int64)
        view = self._table.view(
            handles,
            now=now - self._origin,
            round_index=self._round,
            gpus_total=total,
            round_seconds=self.rounds.round_seconds,
            restart_seconds=self.rounds.restart_seconds,
            changed=True,
        )
        self._round += 1
        decision = self._policy.decide(view, self._predictor.forecast(view))
        would = {self._table.spec(int(handle)).id for handle in view.handle[decision.run]}
        runs = {job.number for job in fitting if job.started is not None}
        return {
            "time": now,
            "running": sorted(runs),
            "would_run": sorted(would),
            "would_start": sorted(would - runs),
            "would_stop": sorted(runs - would),  # if it could be stopped
        }

    def _handle(self, job: SeenJob) -> int:
        handle = self._table.find(job.number)
        assert handle is not None  # it was noted
        return handle

    def _note(self, job: SeenJob, guessed: float, now: float) -> None:
        assert self._origin is not None
        epoch = guessed / _EPOCHS
        ran = 0.0 if job.started is None else max(now - job.started, 0.0)
        spec = JobSpec(
            job.number,
            job.submitted - self._origin,
            job.gpus,
            _EPOCHS,
            (1,),
            (epoch,),
            tenant=job.account or job.user or "default",
            owner=job.user,
            preemptible=Preemptible.NEVER,
        )
        handle = self._table.find(job.number)
        if handle is None:
            handle = self._table.submit(spec)
        else:
            self._table.change(handle, replace(spec))
        row = self._table.row(handle)
        self._table.epochs_done[row] = ran / epoch
        self._table.productive_seconds[row] = self._table.received_seconds[row] = ran
        if job.started is not None:
            self._table.state[row] = RUNNING

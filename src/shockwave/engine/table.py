"""The state of all jobs as columns: what was declared and what was observed, no truth.

A job gets the next row at submission and keeps it; the row number is its ``handle``.
"""

from __future__ import annotations

import numpy as np

from shockwave.engine.executor import Known, Progress
from shockwave.model.job import JobSpec, JobState
from shockwave.model.view import Floats, Ints, View
from shockwave.predict.base import FinishedJob

_FLOATS = (
    "arrival", "epochs", "weight", "epochs_done", "regime_start", "productive_seconds",
    "received_seconds", "fair_seconds", "active_integral", "eligible_after",
)  # fmt: skip
_INTS = (
    "gpus", "tenant", "kind", "adaptation", "configurations", "configuration", "state",
    "rounds_active", "starts",
)  # fmt: skip


class JobTable:
    """Columns that grow with the jobs and widen with their configurations."""

    arrival: Floats
    epochs: Floats
    weight: Floats
    epochs_done: Floats
    regime_start: Floats
    productive_seconds: Floats
    received_seconds: Floats
    fair_seconds: Floats
    active_integral: Floats
    eligible_after: Floats
    gpus: Ints
    tenant: Ints
    kind: Ints
    adaptation: Ints
    configurations: Ints
    configuration: Ints
    state: Ints
    rounds_active: Ints
    starts: Ints
    profile: Floats
    measured: Floats
    closed_epochs: Floats

    def __init__(self, capacity: int = 64, width: int = 2) -> None:
        for name in _FLOATS:
            setattr(self, name, np.zeros(capacity))
        for name in _INTS:
            setattr(self, name, np.zeros(capacity, dtype=np.int64))
        self.profile = np.full((capacity, width), np.nan)
        self.measured = np.full((capacity, width), np.nan)
        self.closed_epochs = np.zeros((capacity, width))
        self.specs: list[JobSpec] = []
        self.active: Ints = np.empty(0, dtype=np.int64)
        self._handles: dict[str, int] = {}
        self._tenants: dict[str, int] = {}
        self._kinds: dict[tuple[str, str], int] = {}
        self._closed: dict[int, list[tuple[int, float]]] = {}

    def __len__(self) -> int:
        return len(self.specs)

    def handle(self, job: str) -> int:
        return self._handles[job]

    def find(self, job: str) -> int | None:
        return self._handles.get(job)

    def submit(self, specs: list[JobSpec]) -> None:
        """Add jobs as waiting, in the order given."""
        first = len(self)
        self._reserve(first + len(specs), max(len(spec.configurations) for spec in specs))
        for row, spec in enumerate(specs, start=first):
            self.specs.append(spec)
            self._handles[spec.id] = row
            self.arrival[row] = spec.arrival_seconds
            self.gpus[row] = spec.gpus
            self.epochs[row] = spec.epochs
            self.weight[row] = spec.weight
            self.tenant[row] = self._tenants.setdefault(spec.tenant, len(self._tenants))
            kind = (spec.model, spec.adaptation.value)
            self.kind[row] = self._kinds.setdefault(kind, len(self._kinds))
            self.adaptation[row] = spec.adaptation.code
            self.configurations[row] = len(spec.configurations)
            self.profile[row, : len(spec.epoch_seconds)] = spec.epoch_seconds
        self.active = np.concatenate([self.active, np.arange(first, len(self))])

    def close(self, handles: list[int], state: JobState) -> None:
        """Take jobs out of the active set for good."""
        self.state[handles] = state
        self.active = self.active[self.state[self.active] <= JobState.RUNNING]

    def change_regime(self, handle: int, epoch: float, configuration: int) -> None:
        """The job entered the configuration with this value after ``epoch`` epochs."""
        index = self.specs[handle].configurations.index(configuration)
        self._reopen(handle, epoch)
        if index == self.configuration[handle]:
            return  # a job that was restored says where it is, and nothing has changed
        done = epoch - self.regime_start[handle]
        if done > 0:
            current = int(self.configuration[handle])
            self.closed_epochs[handle, current] += done
            self._closed.setdefault(handle, []).append((current, float(done)))
        self.configuration[handle] = index
        self.regime_start[handle] = epoch

    def _reopen(self, handle: int, epoch: float) -> None:
        """A job fell back behind regimes that had ended: they are not over after all."""
        closed = self._closed.get(handle, [])
        while closed and epoch < self.regime_start[handle]:
            index, epochs = closed.pop()
            self.closed_epochs[handle, index] -= epochs
            self.regime_start[handle] -= epochs
            self.configuration[handle] = index

    def advance(self, progress: Progress, active_jobs: int, gpus_total: int) -> None:
        """Take in what the running jobs did since the last poll."""
        rows = progress.handle
        self.epochs_done[rows] = progress.epochs_done
        self.productive_seconds[rows] += progress.productive_seconds
        self.received_seconds[rows] += progress.held_seconds
        share = np.minimum(1.0, gpus_total / np.maximum(active_jobs * self.gpus[rows], 1))
        self.fair_seconds[rows] += progress.productive_seconds / np.maximum(share, 1e-12)
        known = ~np.isnan(progress.epoch_seconds)
        self.measured[rows[known], progress.configuration[known]] = progress.epoch_seconds[known]

    def known(self, handle: int) -> Known:
        """What has been observed of a job so far."""
        return Known(
            epochs_done=float(self.epochs_done[handle]),
            regime_epoch=float(self.regime_start[handle]),
            configuration=self.specs[handle].configurations[int(self.configuration[handle])],
            productive_seconds=float(self.productive_seconds[handle]),
            held_seconds=float(self.received_seconds[handle]),
        )

    def finished_job(self, handle: int) -> FinishedJob:
        """The whole history of a job whose epochs are all done."""
        regimes = list(self._closed.pop(handle, ()))
        declared, done = float(self.epochs[handle]), float(self.epochs_done[handle])
        began = float(self.regime_start[handle])
        # What is done may be known to a fraction, or not at all; then it took what it said.
        kept_word = abs(done - declared) <= 1.0 or done <= began
        left = (declared if kept_word else done) - began
        if left > 0:
            regimes.append((int(self.configuration[handle]), left))
        spec, kind = self.specs[handle], int(self.kind[handle])
        return FinishedJob(spec, kind, tuple(regimes), int(self.tenant[handle]))

    def view(
        self,
        rows: Ints,
        *,
        now: float,
        round_index: int,
        gpus_total: int,
        round_seconds: float,
        restart_seconds: float,
        changed: bool,
    ) -> View:
        """What a policy may see of the jobs in ``rows``: copies, so that it cannot write back."""
        regime_epochs = np.maximum(self.epochs_done[rows] - self.regime_start[rows], 0.0)
        configuration = self.configuration[rows]
        configuration_epochs = self.closed_epochs[rows]
        configuration_epochs[np.arange(len(rows)), configuration] += regime_epochs
        return View(
            now=now,
            round=round_index,
            gpus_total=gpus_total,
            round_seconds=round_seconds,
            restart_seconds=restart_seconds,
            jobs_seen=len(self),
            changed=changed,
            handle=rows.copy(),
            arrival=self.arrival[rows],
            gpus=self.gpus[rows],
            epochs=self.epochs[rows],
            weight=self.weight[rows],
            tenant=self.tenant[rows],
            kind=self.kind[rows],
            adaptation=self.adaptation[rows],
            configurations=self.configurations[rows],
            profile=self.profile[rows],
            running=self.state[rows] == JobState.RUNNING,
            epochs_done=self.epochs_done[rows],
            configuration=configuration,
            regime_epochs=regime_epochs,
            configuration_epochs=configuration_epochs,
            measured_seconds=self.measured[rows],
            productive_seconds=self.productive_seconds[rows],
            received_seconds=self.received_seconds[rows],
            fair_seconds=self.fair_seconds[rows],
            active_integral=self.active_integral[rows],
            rounds_active=self.rounds_active[rows],
            restarts=np.maximum(self.starts[rows] - 1, 0),
        )

    def _reserve(self, rows: int, width: int) -> None:
        capacity, old_width = self.profile.shape
        if rows > capacity:
            capacity = max(rows, 2 * capacity)
            for name in (*_FLOATS, *_INTS):
                old = getattr(self, name)
                new = np.zeros(capacity, dtype=old.dtype)
                new[: len(old)] = old
                setattr(self, name, new)
        if capacity > self.profile.shape[0] or width > old_width:
            for name, empty in (("profile", np.nan), ("measured", np.nan), ("closed_epochs", 0.0)):
                old = getattr(self, name)
                new = np.full((capacity, max(width, old_width)), empty)
                new[: old.shape[0], :old_width] = old
                setattr(self, name, new)

"""The state of all jobs as columns: what was declared and what was observed, no truth.

A job's ``handle`` is the number of its submission, from 0, and never changes. Its row may:
jobs that have ended leave the table when they are in the majority, and the others move up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from shockwave.engine.columns import Columns
from shockwave.engine.options import OptionTable
from shockwave.engine.placement import TypeRoom
from shockwave.model.job import JobSpec, JobState, Preemptible
from shockwave.model.options import Option
from shockwave.model.progress import Progressed
from shockwave.model.view import Bools, Floats, Ints, View
from shockwave.predict.base import FinishedJob

_UNKNOWN = ("restart_seconds", "unsaved_seconds")  # nan until they were measured
_PREEMPTIBLE = {choice: code for code, choice in enumerate(Preemptible)}
RUNNING = int(JobState.RUNNING)  # looked up often, and slowly in an enumeration
_NEVER, _WHEN_SAVED = _PREEMPTIBLE[Preemptible.NEVER], _PREEMPTIBLE[Preemptible.WHEN_SAVED]
_SAME_WORD_SECONDS = 1.0  # by which the time of a job's last word may seem to change
_FEW_ENDED = 4096  # so many ended jobs may stay, whatever their share


# [handle, option] seconds per epoch that were measured before the jobs came.
Profiles = Callable[[Ints, Sequence[Option]], Floats]


class JobTable(Columns):
    """All jobs that have not left: what they declared, what they did, and who they are."""

    def __init__(self, capacity: int = 64, width: int = 2) -> None:
        super().__init__(capacity, width)
        self.submitted = 0  # jobs that ever were
        self.active: Ints = np.empty(0, dtype=np.int64)  # handles, in order of submission
        self.options: OptionTable | None = None  # None where nobody has a choice
        self._specs: list[JobSpec] = []  # by row
        self._compacted = False  # until then rows are handles
        self._any_protected = False  # whether there was ever a job to be left where it is
        # Whether there was ever a job of that kind: what nobody uses costs no time.
        self.any_time_limit = False
        self.any_limited_group = False
        self.any_without_gpus = False
        self.any_barred = False  # held by somebody, or backing off
        self.any_failed_start = False
        self.any_request = False  # to cancel or to requeue
        self._handles: dict[str, int] = {}  # of active jobs
        self._tenants: dict[str, int] = {}
        self._kinds: dict[tuple[str, str], int] = {}
        self._groups: dict[str, int] = {"": 0}
        self._closed: dict[int, list[tuple[int, float]]] = {}

    # Who is where.

    def find(self, job: str) -> int | None:
        """The handle of an active job; None if it has ended or never was."""
        return self._handles.get(job)

    def row(self, handle: int) -> int:
        if not self._compacted:
            return handle
        return int(np.searchsorted(self.handle[: len(self._specs)], handle))

    def rows(self, handles: Ints) -> Ints:
        if not self._compacted:
            return handles
        return np.searchsorted(self.handle[: len(self._specs)], handles)

    def spec(self, handle: int) -> JobSpec:
        return self._specs[self.row(handle)]

    def tenant_names(self) -> list[str]:
        """By number."""
        return list(self._tenants)

    # How jobs come, change and go.

    def submit(self, spec: JobSpec) -> int:
        """Adds a job as waiting; returns its handle."""
        row, handle = len(self._specs), self.submitted
        self._reserve(row + 1, len(spec.configurations))
        self._specs.append(spec)
        if self.options is not None:
            self.options.declare(row, spec)
        self.submitted += 1
        self._handles[spec.id] = handle
        self.handle[row] = handle
        for name in _UNKNOWN:
            getattr(self, name)[row] = np.nan
        self._declare(row, spec)
        self.active = np.append(self.active, handle)
        return handle

    def needing_gpus(self, handles: Ints | None = None) -> Ints:
        """Those of ``handles``, by default of the active, that cannot run without GPUs."""
        found = self.active if handles is None else handles
        if not self.any_without_gpus:
            return found
        need = self.gpus[self.rows(found)] > 0
        return found if need.all() else np.asarray(found[need])

    def change(self, handle: int, spec: JobSpec) -> None:
        """A job declares something else from now on."""
        row = self.row(handle)
        self._reserve(len(self._specs), len(spec.configurations))
        self._specs[row] = spec
        if self.options is not None:
            self.options.declare(row, spec)
        self._declare(row, spec)

    def _declare(self, row: int, spec: JobSpec) -> None:
        self.arrival[row] = spec.arrival_seconds
        self.gpus[row] = spec.gpus
        self.any_without_gpus |= spec.gpus == 0
        self.epochs[row] = spec.epochs
        self.weight[row] = spec.weight
        self.tenant[row] = self._tenants.setdefault(spec.tenant, len(self._tenants))
        kind = (spec.model, spec.adaptation.value)
        self.kind[row] = self._kinds.setdefault(kind, len(self._kinds))
        self.adaptation[row] = spec.adaptation.code
        self.configurations[row] = len(spec.configurations)
        self.preemptible[row] = _PREEMPTIBLE[spec.preemptible]
        self._any_protected |= spec.preemptible is not Preemptible.ALWAYS
        self.group[row] = self._groups.setdefault(spec.group, len(self._groups))
        self.group_parallel[row] = spec.group_parallel
        self.any_limited_group |= bool(spec.group) and spec.group_parallel > 0
        self.time_limit[row] = spec.time_limit_seconds or np.inf
        self.any_time_limit |= spec.time_limit_seconds is not None
        self.profile[row] = np.nan
        self.profile[row, : len(spec.epoch_seconds)] = spec.epoch_seconds

    def close(self, handle: int, state: JobState) -> None:
        """Takes a job out of the active set for good."""
        row = self.row(handle)
        self.state[row] = state
        self.active = self.active[self.active != handle]
        del self._handles[self._specs[row].id]
        self._closed.pop(handle, None)
        ended = len(self._specs) - len(self.active)
        if ended > max(_FEW_ENDED, len(self.active)):
            self._compact()

    def _compact(self) -> None:
        """Jobs that have ended leave; the order of the others stays."""
        rows = self.rows(self.active)
        self._keep(rows)
        self._specs = [self._specs[row] for row in rows.tolist()]
        if self.options is not None:
            self.options.keep(rows)
        self._compacted = True

    # What they do.

    def change_regime(self, handle: int, epoch: float, configuration: int) -> None:
        """The job entered the configuration with this value after ``epoch`` epochs."""
        row = self.row(handle)
        index = self._specs[row].configurations.index(configuration)
        self._reopen(handle, row, epoch)
        if index == self.configuration[row]:
            return  # a job that was restored says where it is, and nothing has changed
        done = epoch - self.regime_start[row]
        if done > 0:
            current = int(self.configuration[row])
            self.closed_epochs[row, current] += done
            self._closed.setdefault(handle, []).append((current, float(done)))
        self.configuration[row] = index
        self.regime_start[row] = epoch

    def _reopen(self, handle: int, row: int, epoch: float) -> None:
        """A job fell back behind regimes that had ended: they are not over after all."""
        closed = self._closed.get(handle, [])
        while closed and epoch < self.regime_start[row]:
            index, epochs = closed.pop()
            self.closed_epochs[row, index] -= epochs
            self.regime_start[row] -= epochs
            self.configuration[row] = index

    def advance(self, progress: Progressed, active_jobs: int, gpus_total: int) -> None:
        """Takes in what the running jobs did since they were last asked."""
        rows = self.rows(progress.handle)
        if self._compacted:
            here = np.isin(progress.handle, self.active)
            if not here.all():  # the others have ended and may have left
                progress, rows = progress.only(here), rows[here]
        self._hear(rows, progress)
        if self.options is not None:
            self.options.advance(rows, progress, self.epochs_done[rows])
        self.epochs_done[rows] = progress.epochs_done
        self.productive_seconds[rows] += progress.productive_seconds
        self.received_seconds[rows] += progress.held_seconds
        share = np.minimum(1.0, gpus_total / np.maximum(active_jobs * self.gpus[rows], 1))
        self.fair_seconds[rows] += progress.productive_seconds / np.maximum(share, 1e-12)
        known = ~np.isnan(progress.epoch_seconds)
        self.measured[rows[known], progress.configuration[known]] = progress.epoch_seconds[known]
        if progress.restart_seconds is not None:
            known = ~np.isnan(progress.restart_seconds)
            self.restart_seconds[rows[known]] = progress.restart_seconds[known]
        if progress.unsaved_seconds is not None:
            known = ~np.isnan(progress.unsaved_seconds)
            self.unsaved_seconds[rows[known]] = progress.unsaved_seconds[known]

    def _hear(self, rows: Ints, progress: Progressed) -> None:
        """When each job last said something: as it is told, else by the epochs that it did."""
        if progress.silent_seconds is None:
            heard = np.where(progress.epochs_done != self.epochs_done[rows], progress.time, np.nan)
        else:
            heard = progress.time - progress.silent_seconds
        spoke = heard > self.heard[rows] + _SAME_WORD_SECONDS
        self.heard[rows[spoke]] = heard[spoke]
        self.silent[rows[spoke]] = False

    def finished_job(self, handle: int) -> FinishedJob:
        """The whole history of a job whose epochs are all done."""
        row = self.row(handle)
        regimes = list(self._closed.get(handle, ()))
        declared, done = float(self.epochs[row]), float(self.epochs_done[row])
        began = float(self.regime_start[row])
        # What is done may be known to a fraction, or not at all; then it took what it said.
        kept_word = abs(done - declared) <= 1.0 or done <= began
        left = (declared if kept_word else done) - began
        if left > 0:
            regimes.append((int(self.configuration[row]), left))
        kind, tenant = int(self.kind[row]), int(self.tenant[row])
        return FinishedJob(self._specs[row], kind, tuple(regimes), tenant)

    def mark_contested(self, handle: int, contested: bool) -> None:
        """Others would get the GPUs that the job gives up, or would not any more."""
        self.contested[self.row(handle)] = contested
        self._any_protected |= contested

    # Limits.

    def time_limit_at(self, handles: Ints) -> Floats:
        """[handle] when a running job will have held GPUs for as long as it may."""
        rows = self.rows(handles)
        return np.asarray(self.started[rows] + self.time_limit[rows] - self.leased_seconds[rows])

    def usual_epoch_seconds(self, rows: Ints) -> Floats:
        """[row] the longest epochs that were measured in any configuration; nan if none was."""
        known = ~np.isnan(self.measured[rows])
        longest = np.max(self.measured[rows], axis=1, initial=0.0, where=known)
        return np.where(known.any(axis=1), longest, np.nan)

    # Options.

    def offer_options(self, types: Iterable[TypeRoom]) -> None:
        """From now on somebody has a choice of GPUs; or the nodes are others than before."""
        if self.options is None:
            self.options = OptionTable(self._specs, types)
        else:
            self.options.fit(types)

    def least_gpus(self, handles: Ints) -> int:
        """The fewest GPUs that any of these could start with."""
        if self.options is not None:
            return 1
        return int(self.gpus[self.rows(handles)].min())

    def held_gpus(self, handles: Ints) -> Ints:
        """[handle] how many GPUs these running jobs hold."""
        rows = self.rows(handles)
        if self.options is None:
            return np.asarray(self.gpus[rows])
        return self.options.held_gpus(rows, self.gpus[rows])

    # What a policy may see.

    def must_stay(self, rows: Ints) -> Bools:
        """[row] whether the job runs and may not be stopped for others."""
        if not self._any_protected:
            return np.zeros(len(rows), dtype=np.bool_)
        never = self.preemptible[rows] == _NEVER
        unsaved = np.isnan(self.unsaved_seconds[rows])
        once_saved = self.preemptible[rows] == _WHEN_SAVED
        running = self.state[rows] == RUNNING
        return np.asarray(running & (never | (once_saved & unsaved) | self.contested[rows]))

    def view(
        self,
        handles: Ints,
        *,
        now: float,
        round_index: int,
        gpus_total: int,
        round_seconds: float,
        restart_seconds: float,
        changed: bool,
        between_rounds: bool = False,
        profiles: Profiles | None = None,
    ) -> View:
        """What a policy may see of these jobs: copies, so that it cannot write back."""
        rows = self.rows(handles)
        regime_epochs = np.maximum(self.epochs_done[rows] - self.regime_start[rows], 0.0)
        configuration = self.configuration[rows]
        configuration_epochs = self.closed_epochs[rows]
        configuration_epochs[np.arange(len(rows)), configuration] += regime_epochs
        options = None
        if self.options is not None:
            profile = self.profile[rows, configuration]
            profiled = None if profiles is None else profiles(handles, self.options.options)
            options = self.options.view(rows, profile, profiled)
        return View(
            now=now,
            round=round_index,
            gpus_total=gpus_total,
            round_seconds=round_seconds,
            restart_seconds=restart_seconds,
            jobs_seen=self.submitted,
            changed=changed,
            between_rounds=between_rounds,
            handle=handles.copy(),
            arrival=self.arrival[rows],
            gpus=self.gpus[rows],
            epochs=self.epochs[rows],
            weight=self.weight[rows],
            tenant=self.tenant[rows],
            kind=self.kind[rows],
            adaptation=self.adaptation[rows],
            configurations=self.configurations[rows],
            profile=self.profile[rows],
            running=self.state[rows] == RUNNING,
            must_stay=self.must_stay(rows),
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
            measured_restart_seconds=self.restart_seconds[rows],
            unsaved_seconds=self.unsaved_seconds[rows],
            options=options,
        )

    # To a snapshot and back.

    def dump(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """Plain values and arrays that :meth:`load` makes the same table of."""
        count = len(self._specs)
        arrays = self._dump_columns(count)
        plain = {
            "submitted": self.submitted,
            "active": self.active.tolist(),
            "specs": list(self._specs),
            "compacted": self._compacted,
            "tenants": list(self._tenants),
            "kinds": [list(kind) for kind in self._kinds],
            "groups": list(self._groups),
            "closed": [[handle, regimes] for handle, regimes in self._closed.items()],
        }
        if self.options is not None:
            plain["options"], more = self.options.dump(count)
            arrays |= more
        return plain, arrays

    @classmethod
    def load(cls, plain: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> JobTable:
        table = cls(capacity=max(64, len(plain["specs"])), width=arrays["profile"].shape[1])
        table._load_columns(arrays)
        table.submitted = plain["submitted"]
        table.active = np.array(plain["active"], dtype=np.int64)
        table._specs = plain["specs"]
        if plain.get("options") is not None:
            table.options = OptionTable.load(table._specs, plain["options"], arrays)
        table._compacted = plain["compacted"]
        table._any_protected = bool(table.preemptible.any() or table.contested.any())
        table.any_limited_group = bool((table.group_parallel > 0).any())
        count = len(table._specs)
        table.any_time_limit = bool((table.time_limit[:count] < np.inf).any())
        table.any_without_gpus = bool((table.gpus[:count] == 0).any())
        table.any_barred = bool(table.held.any() or table.eligible_after.any())
        table.any_failed_start = bool(table.failed_starts.any())
        table.any_request = bool(table.cancelling.any() or table.requeueing.any())
        table._groups = {group: number for number, group in enumerate(plain["groups"])}
        table._tenants = {tenant: number for number, tenant in enumerate(plain["tenants"])}
        table._kinds = {
            (model, adaptation): number for number, (model, adaptation) in enumerate(plain["kinds"])
        }
        table._closed = {
            handle: [(index, epochs) for index, epochs in regimes]
            for handle, regimes in plain["closed"]
        }
        table._handles = {table.spec(handle).id: handle for handle in plain["active"]}
        return table

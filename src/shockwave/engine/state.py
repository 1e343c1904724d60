"""What the scheduler knows: the fold of its journal.

:meth:`SchedulerState.apply` is the only way in which it changes. The loop decides on what is
here and writes events; live and simulated, what people ask for included.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from typing import assert_never

import numpy as np

from shockwave.engine.accounts import Accounts
from shockwave.engine.dependencies import Dependencies
from shockwave.engine.group_limits import beyond_group_limit
from shockwave.engine.placement import Placer
from shockwave.engine.rounds import Rounds
from shockwave.engine.table import RUNNING, JobTable
from shockwave.model.cluster import Node
from shockwave.model.events import (
    CancelRequested,
    Event,
    JobCancelled,
    JobChanged,
    JobEvent,
    JobFailed,
    JobFinished,
    JobHeld,
    JobNoted,
    JobReleased,
    JobRunning,
    JobSilent,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeDown,
    NodeDrained,
    NodeOccupied,
    NodeResumed,
    NodeUp,
    RegimeChanged,
    RequeueRequested,
    RoundDecided,
    RunEnded,
    RunStarted,
    SettingsChanged,
    StopReason,
    TenantChanged,
)
from shockwave.model.job import JobSpec, JobState
from shockwave.model.progress import Progressed
from shockwave.model.view import Ints
from shockwave.predict.base import FinishedJob

EXPERIENCE_KEPT = 2_000  # finished jobs that a predictor is taught after a restart


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """What the backend and the operator say of a node; usable if it is up and not drained."""

    node: Node
    up: bool = False
    drained: bool = False
    occupied: int = 0  # GPUs that others hold
    contested: bool = False  # others wait for what we would give up there


class SchedulerState:
    """All active jobs, all nodes, who runs where, and what was learned from jobs that ended."""

    def __init__(self) -> None:
        self.run: RunStarted | None = None  # the settings in force
        self.rounds = Rounds()
        self.table = JobTable()
        self.placer = Placer(())
        self.dependencies = Dependencies()
        self.accounts = Accounts()
        self.nodes: dict[str, NodeStatus] = {}
        self.experience: deque[FinishedJob] = deque(maxlen=EXPERIENCE_KEPT)
        self.rounds_scheduled = 0
        self.version = 0  # grows with every change that a decision may depend on
        self.time = 0.0  # of the last event
        self.active_at_decision = 0
        self.any_contested = False  # whether there was ever a contested node
        self._gpu_types: set[str] = set()  # that there ever were

    # Questions.

    def eligible(self, now: float) -> Ints:
        """Handles of the active jobs that may run.

        Not those that are held, back off, wait for others to end, or would be one too many of
        their group.
        """
        table, active = self.table, self.table.active
        waiting_for_others = self.dependencies.barred
        if not (table.any_barred or table.any_limited_group or waiting_for_others):
            return active
        rows = table.rows(active)
        held = table.held[rows] & (table.state[rows] != RUNNING)
        barred = held | (table.eligible_after[rows] > now)
        if waiting_for_others:
            barred |= np.isin(active, waiting_for_others)
        if table.any_limited_group:
            barred |= beyond_group_limit(table, rows, barred)
        return np.asarray(active[~barred]) if barred.any() else active

    def running(self) -> Ints:
        active = self.table.active
        return np.asarray(active[self.table.state[self.table.rows(active)] == RUNNING])

    def startable_without_gpus(self, now: float, most: int) -> Ints:
        """Jobs that need no GPU and may start, in order of arrival; at most ``most`` run."""
        active = self.table.active
        if not self.table.any_without_gpus:
            return active[:0]
        without: Ints = active[self.table.gpus[self.table.rows(active)] == 0]
        if len(without) == 0:
            return without
        runs = self.table.state[self.table.rows(without)] == RUNNING
        waiting = without[~runs & np.isin(without, self.eligible(now))]
        return np.asarray(waiting[: max(most - int(runs.sum()), 0)])

    def is_running(self, handle: int) -> bool:
        return bool(self.table.state[self.table.row(handle)] == RUNNING)

    def next_eligible(self, now: float) -> float:
        """When the next back-off ends; infinite if nobody backs off."""
        if not self.table.any_barred:
            return math.inf
        waits = self.table.eligible_after[self.table.rows(self.table.active)]
        return float(waits[waits > now].min(initial=np.inf))

    def next_time_limit(self) -> float:
        """When the first running job will have used up its time; infinite if none has a limit."""
        if not self.table.any_time_limit:
            return math.inf
        return float(self.table.time_limit_at(self.running()).min(initial=np.inf))

    def drained_holders(self) -> list[int]:
        """Gangs on nodes that the operator wants empty."""
        drained = [name for name, status in self.nodes.items() if status.drained]
        return sorted({handle for name in drained for handle in self.placer.holders(name)})

    # Changes.

    def apply(self, event: Event) -> None:
        """Takes in one event. Those of jobs that have ended change nothing."""
        if self.accounts.tenants and event.time > self.accounts.time:
            self._pass_time(event.time)
        if event.time > self.time:
            self.time = event.time
        if isinstance(event, JobEvent):
            handle = self.table.find(event.job)
            if handle is not None and self._apply_to_job(handle, event):
                self.version += 1
            return
        match event:
            case Progressed():
                if self.accounts.tenants:
                    self.accounts.charge(self.table, event)
                self.table.advance(event, self.active_at_decision, self.placer.gpus)
                return
            case RoundDecided():
                self._decided(event)
                self.accounts.look_again()
                return
            case JobSubmitted():
                handle = self.table.submit(event.job)
                self._offer_options_to(event.job)
                self.dependencies.submitted(handle, event.job, self._is_active)
            case NodeUp():
                self._node(event.node.id, node=event.node, up=True, occupied=0, contested=False)
                self._fit_options()
            case NodeDown():
                self._node(event.node, up=False, occupied=0, contested=False)
                self.placer.release(self.placer.holders(event.node))
                self._fit_options()
            case NodeOccupied():
                self._node(event.node, occupied=event.gpus, contested=event.contested)
                self.any_contested |= event.contested
                self._mark_contested(self.placer.holders(event.node))
                self._fit_options()
            case NodeDrained():
                self._node(event.node, drained=True)
                self._fit_options()
            case NodeResumed():
                self._node(event.node, drained=False)
                self._fit_options()
            case RunStarted():
                self.run = event
                self.rounds = Rounds(event.round_seconds, event.restart_seconds)
                for node in event.nodes:
                    self._node(node.id, node=node, up=True)
                self._fit_options()
            case SettingsChanged():
                self._change_settings(event)
            case TenantChanged():
                if not self.accounts.tenants:  # nobody was owed anything before
                    self.accounts.time = event.time
                self.accounts.change(event.tenant, event.by)
            case RunEnded():
                pass
            case JobChanged():
                handle = self.table.find(event.job.id)
                if handle is not None:
                    self.table.change(handle, event.job)
                    self._offer_options_to(event.job)
            case _:
                assert_never(event)
        self.version += 1

    def _pass_time(self, now: float) -> None:
        def wanting() -> Ints:
            return self.table.needing_gpus(self.eligible(self.time))

        self.accounts.pass_time(
            now,
            self.table,
            wanting,
            version=self.version,
            types=self.placer.types,
            round_seconds=self.rounds.round_seconds,
        )

    def _apply_to_job(self, handle: int, event: JobEvent) -> bool:
        """Returns whether it may change a decision; a decision's own doing does not."""
        table, row = self.table, self.table.row(handle)
        match event:
            case JobStarted():
                table.state[row] = RUNNING
                table.starts[row] = event.attempt
                table.started[row] = table.heard[row] = event.time
                table.confirmed[row] = table.silent[row] = False
                self.placer.claim(handle, event.placement)
                if table.options is not None:
                    table.options.start(row, event.option)
                self._mark_contested([handle])
                return False
            case JobRunning():
                table.confirmed[row] = True
                table.failed_starts[row] = 0
                return False
            case JobNoted():
                return False
            case JobSilent():
                table.silent[row] = True
                return False
            case JobStopped():
                self._stop(handle, row, event)
                return not event.reason.ordered
            case RegimeChanged():
                table.change_regime(handle, event.epoch, event.configuration)
            case JobFinished():
                self.experience.append(table.finished_job(handle))
                self._end(handle, JobState.FINISHED)
            case JobFailed():
                self._end(handle, JobState.FAILED)
            case JobCancelled():
                self._end(handle, JobState.CANCELLED)
            case JobHeld():
                table.held[row] = table.any_barred = True
            case JobReleased():
                table.held[row] = False
                table.eligible_after[row] = 0.0
                table.failed_starts[row] = 0
            case CancelRequested():
                table.cancelling[row] = table.any_request = True
            case RequeueRequested():
                table.requeueing[row] = table.any_request = True
            case _:
                assert_never(event)
        return True

    def _stop(self, handle: int, row: int, event: JobStopped) -> None:
        table = self.table
        table.state[row] = JobState.WAITING
        table.epochs_done[row] = event.epochs_done
        table.requeueing[row] = table.silent[row] = False
        table.leased_seconds[row] += max(event.time - table.started[row], 0.0)
        self.placer.release([handle])
        if table.options is not None:
            table.options.stop(row)
        if event.reason is StopReason.CRASHED:
            stuck = event.epochs_done <= table.crash_epochs[row] and table.crashes[row] > 0
            table.crashes[row] = table.crashes[row] + 1 if stuck else 1
            table.crash_epochs[row] = event.epochs_done
        if event.reason is StopReason.KILLED:
            stuck = event.epochs_done <= table.kill_epochs[row] and table.kills[row] > 0
            table.kills[row] = table.kills[row] + 1 if stuck else 1
            table.kill_epochs[row] = event.epochs_done
        if event.reason is StopReason.NOT_STARTED:
            table.failed_starts[row] += 1
            table.any_failed_start = True
        if event.back_off_seconds > 0 or event.reason is StopReason.NOT_STARTED:
            table.eligible_after[row] = event.time + event.back_off_seconds
            table.any_barred = True

    def _is_active(self, job: str) -> bool:
        return self.table.find(job) is not None

    def _end(self, handle: int, state: JobState) -> None:
        self.placer.release([handle])
        job = self.table.spec(handle).id
        self.dependencies.ended(handle, job, finished=state is JobState.FINISHED)
        self.table.close(handle, state)

    def _decided(self, event: RoundDecided) -> None:
        active = self.table.needing_gpus()  # who needs none takes nothing from anybody
        rows = self.table.rows(active)
        self.table.active_integral[rows] += len(active) * event.rounds
        self.table.rounds_active[rows] += event.rounds
        self.active_at_decision = len(active)
        self.rounds_scheduled += event.rounds

    def _mark_contested(self, handles: list[int]) -> None:
        """Gangs that hold GPUs on a contested node."""
        if not self.any_contested:
            return
        for handle in handles:
            parts = self.placer.placement(handle)
            contested = any(node in self.nodes and self.nodes[node].contested for node, _ in parts)
            self.table.mark_contested(handle, contested)

    def _offer_options_to(self, job: JobSpec) -> None:
        if job.has_options and self.table.options is None:
            self.table.offer_options(self.placer.types())

    def _fit_options(self) -> None:
        """The nodes have changed. Where there are several types, every job has a choice."""
        if self.table.options is not None or len(self._gpu_types) > 1:
            self.table.offer_options(self.placer.types())

    def _node(
        self,
        name: str,
        *,
        node: Node | None = None,
        up: bool | None = None,
        drained: bool | None = None,
        occupied: int | None = None,
        contested: bool | None = None,
    ) -> None:
        """Changes what is said of a node; the placer has those that may be used."""
        before = self.nodes.get(name) or NodeStatus(Node(name, 0))
        after = replace(
            before,
            node=before.node if node is None else node,
            up=before.up if up is None else up,
            drained=before.drained if drained is None else drained,
            occupied=before.occupied if occupied is None else occupied,
            contested=before.contested if contested is None else contested,
        )
        self.add_status(after)
        usable = after.up and not after.drained
        if self.placer.node(name) is not None and not usable:
            self.placer.remove(name)
        elif usable and self.placer.node(name) is None:
            self.placer.add(after.node)
        if usable:
            self.placer.occupy(name, after.occupied)

    def add_status(self, status: NodeStatus) -> None:
        """Remembers what is said of a node; for a snapshot that is read, and for :meth:`apply`."""
        self.nodes[status.node.id] = status
        if status.up and status.node.gpus:
            self._gpu_types.add(status.node.gpu_type)

    def _change_settings(self, event: SettingsChanged) -> None:
        if self.run is None:
            return
        if event.round_seconds != self.run.round_seconds:
            next_round = self.rounds.at(event.time) + 1
            self.rounds = Rounds(event.round_seconds, event.restart_seconds, next_round, event.time)
        else:
            self.rounds = replace(self.rounds, restart_seconds=event.restart_seconds)
        self.run = replace(
            self.run,
            policy=event.policy,
            predictor=event.predictor,
            round_seconds=event.round_seconds,
            restart_seconds=event.restart_seconds,
            seed=event.seed,
            starts=event.starts,
            version=event.version,
        )

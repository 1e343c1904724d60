"""A run as columns: its jobs, the leases they held, and the decisions that were taken.

Everything that is measured is measured from a :class:`RunHistory`, and a history comes from
events alone (:func:`~shockwave.measure.fold.fold_history`), so a live run and a simulated one
are judged by the same code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shockwave.model.cluster import Node
from shockwave.model.errors import JournalError
from shockwave.model.events import Placement, RunStarted
from shockwave.model.job import Adaptation, JobState
from shockwave.model.options import Option
from shockwave.model.tenants import Tenant
from shockwave.model.view import Floats, Ints

if TYPE_CHECKING:
    from shockwave.measure.alone import Alone


class LeaseEnd(IntEnum):
    """How a lease ended. ``MOVED``: the job was started elsewhere without a stop between."""

    OPEN = 0  # the journal ends first
    FINISHED = 1
    FAILED = 2
    CANCELLED = 3
    PREEMPTED = 4
    CRASHED = 5
    NODE_LOST = 6
    MOVED = 7
    KILLED = 8
    NOT_STARTED = 9
    RESIZED = 10


@dataclass(frozen=True, eq=False)
class Jobs:
    """One element per job, in order of submission. Times are seconds since the run began.

    ``finish`` and ``exclusive_seconds`` are ``nan`` for jobs that did not finish, ``first_start``
    for jobs that never started. ``end`` is when a job left, whatever the way, and the journal's
    last moment for jobs that never did.
    """

    id: tuple[str, ...]
    model: tuple[str, ...]
    tenant: tuple[str, ...]
    adaptation: tuple[Adaptation, ...]
    arrival: Floats
    gpus: Ints
    weight: Floats
    epochs: Ints
    finish: Floats
    end: Floats
    state: Ints  # JobState
    exclusive_seconds: Floats
    first_start: Floats
    starts: Ints
    restarts: Ints  # starts with attempt > 1
    held_seconds: Floats  # under lease, restarts included
    gpu_seconds: Floats  # GPUs x seconds under lease
    productive_seconds: Floats  # X of finished jobs; under lease less the restarts of others
    alone: Mapping[int, Alone] = field(default_factory=dict)  # where it is known, by position
    owner: tuple[str, ...] = ()  # who submitted it, empty where nobody said

    def __len__(self) -> int:
        return len(self.id)

    @cached_property
    def finished(self) -> NDArray[np.bool_]:
        return np.asarray(self.state == JobState.FINISHED)

    @cached_property
    def jct(self) -> Floats:
        """Job completion time: finish less arrival, ``nan`` for jobs that did not finish."""
        return self.finish - self.arrival

    @cached_property
    def waited_seconds(self) -> Floats:
        """Time in the system without GPUs, from the arrival to the end."""
        return np.maximum(self.end - self.arrival - self.held_seconds, 0.0)


@dataclass(frozen=True, eq=False)
class Leases:
    """One element per stretch of time that a gang held its GPUs, in order of start.

    ``job`` is a position in :class:`Jobs`; ``placement`` the slots, as the event has them.
    """

    job: Ints
    start: Floats
    stop: Floats
    gpus: Ints
    attempt: Ints
    end: Ints  # LeaseEnd
    placement: tuple[Placement, ...]
    options: tuple[Option | None, ...] = ()  # what was held, if anybody had a choice

    def __len__(self) -> int:
        return len(self.job)

    @cached_property
    def seconds(self) -> Floats:
        return self.stop - self.start


@dataclass(frozen=True, eq=False)
class Decisions:
    """One element per decision; ``nan`` where the policy does not plan."""

    time: Floats
    round: Ints
    rounds: Ints
    active: Ints
    running: Ints
    gpus_up: Ints
    gpus_busy: Ints
    spanning: Ints
    plan_seconds: Floats
    welfare: Floats
    gap: Floats
    price: Floats

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True, eq=False)
class RunHistory:
    """A whole run. ``complete`` says whether the journal has its last event.

    ``gpus`` is ``M``, the GPUs of the nodes that the run started with (or, where it started
    with none, the most that were ever up). ``nodes`` are all that were ever seen, and
    ``capacity_time`` / ``capacity_gpus`` the steps of the number of GPUs up that others did
    not hold. ``restart_reasons`` counts restarts by how the lease before ended.
    """

    settings: RunStarted
    complete: bool
    horizon_seconds: float
    rounds: int
    gpus: int
    nodes: tuple[Node, ...]
    jobs: Jobs
    leases: Leases
    decisions: Decisions
    capacity_time: Floats
    capacity_gpus: Ints
    restart_reasons: Mapping[str, int]
    tenants: tuple[Tenant, ...] = ()  # as they were at the end; empty where nobody declared any

    def available_gpu_seconds(self, until: float) -> float:
        """GPUs that were up and not held by others, times seconds, from the start of the run."""
        stops = np.append(self.capacity_time[1:], np.inf)
        lengths = np.clip(stops, 0.0, until) - np.clip(self.capacity_time, 0.0, until)
        return float(np.dot(self.capacity_gpus, lengths))

    @cached_property
    def restart_lost_gpu_seconds(self) -> float:
        """GPU-seconds without progress after starts: ``sum g * min(restart, lease)``.

        Where jobs hold what they are given, and each start has a cost of its own, it is what
        they held less what was productive.
        """
        if self.leases.options:
            return float(self.jobs.gpu_seconds.sum()) - self.productive_gpu_seconds
        lost = np.minimum(self.settings.restart_seconds, self.leases.seconds)
        return float(np.dot(self.leases.gpus, lost))

    @cached_property
    def productive_gpu_seconds(self) -> float:
        """GPU-seconds of progress; a job is taken to have worked equally in all that it held."""
        jobs = self.jobs
        if not self.leases.options:
            return float(np.dot(jobs.gpus, jobs.productive_seconds))
        part = np.minimum(jobs.productive_seconds / np.maximum(jobs.held_seconds, 1e-9), 1.0)
        return float(np.dot(jobs.gpu_seconds, part))

    @cached_property
    def type_gpus(self) -> Mapping[str, int]:
        """How many GPUs there were of each type, on the nodes that ``gpus`` counts."""
        found: dict[str, int] = {}
        for node in self.settings.nodes or self.nodes:
            found[node.gpu_type] = found.get(node.gpu_type, 0) + node.gpus
        return found

    @cached_property
    def first_slot(self) -> Mapping[str, int]:
        """The number of each node's first slot, all slots numbered through all nodes in order."""
        first, total = {}, 0
        for node in self.nodes:
            first[node.id] = total
            total += node.gpus
        return first

    def held_slots(self, lease: int) -> list[int]:
        """The numbers of the slots that a lease held, smallest first.

        Raises :class:`JournalError` for a node that the journal never mentioned.
        """
        first = self.first_slot
        try:
            return sorted(
                first[node] + slot for node, slots in self.leases.placement[lease] for slot in slots
            )
        except KeyError as error:
            raise JournalError(f"a job was placed on node {error}, which is unknown") from None

"""From the jobs that a policy chose to orders: who stops, who starts where, who goes on.

A policy counts GPUs; which nodes a job may use is known only here. For a chosen gang that finds
no room on its own nodes, gangs that the policy likes less leave them. If that is not enough it
waits for another round, and its GPUs go to jobs that can use them, in the policy's order: those
that hold GPUs already keep them, others start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.engine.executor import Executor
from shockwave.engine.state import SchedulerState
from shockwave.model.events import Placement
from shockwave.model.job import JobState
from shockwave.model.view import Ints, View
from shockwave.policies.base import Decision
from shockwave.policies.fill import largest_first

_MOST_TRIED = 1000  # jobs to fill gaps with, however many wait


@dataclass(frozen=True, slots=True)
class Orders:
    """Handles. ``complete`` if everybody who was chosen runs."""

    stopped: Ints
    placements: dict[int, Placement]  # of those that start
    continuing: Ints
    complete: bool = True

    @property
    def running(self) -> Ints:
        started = np.fromiter(self.placements, dtype=np.int64, count=len(self.placements))
        return np.concatenate([self.continuing, started])


class Assigner:
    """Knows which gangs have too few nodes that they may use, even if these were empty."""

    def __init__(self, state: SchedulerState, executor: Executor) -> None:
        self._state = state
        self._executor = executor
        self._cannot_fit: set[int] = set()

    def that_could_fit(self, handles: Ints) -> Ints:
        """Without the gangs that did not fit and still could not."""
        if not self._cannot_fit:
            return handles
        waiting = self._cannot_fit.intersection(handles.tolist())
        self._cannot_fit = {handle for handle in waiting if not self._could_fit(handle)}
        return np.asarray(handles[~np.isin(handles, list(self._cannot_fit))])

    def assign(self, chosen: Ints, view: View, decision: Decision) -> Orders:
        """The placer holds the result already."""
        placer = self._state.placer
        stopped, started, continuing = self._diff(chosen)
        held = {handle: placer.placement(handle) for handle in stopped.tolist()}
        placer.release(list(held))
        placements = self._place(started.tolist())
        if len(placements) == len(started):
            return Orders(stopped, placements, continuing)
        unplaced = [handle for handle in started.tolist() if handle not in placements]
        self._cannot_fit.update(handle for handle in unplaced if not self._could_fit(handle))
        left = self._make_room(unplaced, chosen.tolist(), continuing, placements)
        unplaced = [handle for handle in unplaced if handle not in placements]
        others = _not_chosen(chosen, view, decision)
        kept = self._fill_up([*unplaced, *others], held, placements)
        return Orders(
            np.concatenate([stopped[~np.isin(stopped, kept)], left]),
            placements,
            np.concatenate([continuing[~np.isin(continuing, left)], kept]),
            complete=False,
        )

    def _diff(self, chosen: Ints) -> tuple[Ints, Ints, Ints]:
        """Who stops, who starts, who goes on."""
        goes_on = self._state.table.state[chosen] == JobState.RUNNING
        continuing, held = chosen[goes_on], self._state.running()
        stopped = held[:0] if len(held) == len(continuing) else np.setdiff1d(held, continuing)
        return stopped, chosen[~goes_on], continuing

    def _make_room(
        self,
        unplaced: list[int],
        chosen: list[int],
        continuing: Ints,
        placements: dict[int, Placement],
    ) -> Ints:
        """Adds those that start after all to ``placements``; returns those that leave for them."""
        placer, left = self._state.placer, []
        goes_on = set(continuing.tolist())
        for handle in unplaced:
            likes_less = chosen[: chosen.index(handle) : -1]
            leaving = self._in_the_way(handle, [other for other in likes_less if other in goes_on])
            held = {other: placer.placement(other) for other in leaving}
            placer.release(leaving)
            placed = self._place([handle]) if leaving else {}
            placements.update(placed)
            if placed:
                goes_on -= held.keys()
                left += leaving
            else:
                for other, placement in held.items():
                    placer.claim(other, placement)
        return np.array(left, dtype=np.int64)

    def _in_the_way(self, handle: int, least_liked_first: list[int]) -> list[int]:
        """No more of these than have to leave; none if all of them were not enough."""
        placer, spec = self._state.placer, self._state.table.specs[handle]
        nodes = self._executor.nodes_for(spec)
        missing = spec.gpus - placer.room(nodes)
        gains: dict[int, int] = {}
        for other in least_liked_first:
            if missing <= 0:
                break
            slots = [s for node, s in placer.placement(other) if nodes is None or node in nodes]
            if slots:
                gains[other] = sum(map(len, slots))
                missing -= gains[other]
        if missing > 0:
            return []
        for other in sorted(gains, key=gains.__getitem__):
            if missing + gains[other] <= 0:
                missing += gains.pop(other)
        return list(gains)

    def _fill_up(
        self,
        candidates: list[int],
        held: dict[int, Placement],
        placements: dict[int, Placement],
    ) -> Ints:
        """Adds those that start to ``placements``; returns those that keep what they held.

        Nobody is moved: a move costs a restart, and this may be for one round only.
        """
        placer, kept = self._state.placer, []
        room = placer.room()
        for handle in candidates[:_MOST_TRIED]:
            if self._state.table.specs[handle].gpus > room:
                continue
            if handle not in held:
                placements.update(self._place([handle]))
            elif placer.take_back(handle, held[handle]):
                kept.append(handle)
            room = placer.room()
        return np.array(kept, dtype=np.int64)

    def _place(self, handles: list[int]) -> dict[int, Placement]:
        specs = [self._state.table.specs[handle] for handle in handles]
        allowed = {
            handle: nodes
            for handle, spec in zip(handles, specs, strict=True)
            if (nodes := self._executor.nodes_for(spec)) is not None
        }
        return self._state.placer.place(handles, [spec.gpus for spec in specs], allowed)

    def _could_fit(self, handle: int) -> bool:
        spec = self._state.table.specs[handle]
        allowed = self._executor.nodes_for(spec)
        return allowed is None or self._state.placer.capacity(allowed) >= spec.gpus


def _not_chosen(chosen: Ints, view: View, decision: Decision) -> list[int]:
    """Who was not chosen: first what the policy prefers, else who was submitted first."""
    handles = view.handle
    if decision.priority is not None:
        handles = handles[largest_first(decision.priority)]
    found: list[int] = handles[~np.isin(handles, chosen)].tolist()
    return found

"""From the jobs that a policy chose to orders: who stops, who starts where, who goes on.

A policy counts GPUs; which nodes a job may use is known only here. For a chosen gang that finds
no room on its own nodes, gangs that the policy likes less leave them. If that is not enough it
waits for another round, and its GPUs go to jobs that can use them, in the policy's order: those
that hold GPUs already keep them, others start.

Everything is tried on a copy of the placer; the state changes when the orders' events are
applied, and not before.
"""

from __future__ import annotations

import numpy as np

from shockwave.engine.assign_options import OptionAssigner
from shockwave.engine.chosen import Chosen, not_chosen
from shockwave.engine.executor import Executor
from shockwave.engine.orders import MOST_TRIED, Orders, in_the_way
from shockwave.engine.placement import Placer
from shockwave.engine.state import SchedulerState
from shockwave.engine.table import RUNNING
from shockwave.model.events import Placement
from shockwave.model.view import Ints, View
from shockwave.policies.base import Decision


class Assigner:
    """Knows which gangs have too few nodes that they may use, even if these were empty."""

    def __init__(self, state: SchedulerState, executor: Executor) -> None:
        self._state = state
        self._executor = executor
        self._cannot_fit: set[int] = set()
        self._with_options = OptionAssigner(state, executor)

    def that_could_fit(self, handles: Ints) -> Ints:
        """Without the gangs that did not fit and still could not."""
        table = self._state.table
        if table.options is not None:
            handles = handles[table.options.that_could_run(table.rows(handles))]
        if not self._cannot_fit:
            return handles
        waiting = self._cannot_fit.intersection(handles.tolist())
        self._cannot_fit = {handle for handle in waiting if not self._could_fit(handle)}
        return np.asarray(handles[~np.isin(handles, list(self._cannot_fit))])

    def assign(self, choice: Chosen, view: View, decision: Decision, doubtful: Ints) -> Orders:
        """Orders for a round: exactly the chosen jobs run, as far as their nodes allow.

        The ``doubtful``, which the policy was not asked about, get what is left over.
        """
        chosen = choice.handles
        if view.options is not None:
            orders = self._with_options.assign(
                choice.wanted, self._left_over_to(choice, view, decision), doubtful.tolist()
            )
            if not orders.complete:
                idle = set(choice.wanted).difference(orders.running.tolist())
                self._cannot_fit |= {handle for handle in idle if not self._could_fit(handle)}
            return orders
        stopped, started, continuing = self._diff(chosen)
        if len(stopped) == 0 and len(started) == 0 and len(doubtful) == 0:
            return Orders(continuing=continuing)
        draft = _Draft(self._state, self._executor)
        held = draft.release(stopped.tolist())
        draft.place(started.tolist())
        if len(draft.placements) == len(started):
            kept = draft.fill_up(doubtful.tolist(), held)
            return Orders(
                stopped[~np.isin(stopped, kept)],
                draft.placements,
                np.concatenate([continuing, kept]),
            )
        unplaced = [handle for handle in started.tolist() if handle not in draft.placements]
        self._cannot_fit.update(handle for handle in unplaced if not self._could_fit(handle))
        left = draft.make_room(unplaced, chosen.tolist(), self._may_leave(continuing))
        unplaced = [handle for handle in unplaced if handle not in draft.placements]
        others = _others(chosen, view, decision)
        kept = draft.fill_up([*unplaced, *others, *doubtful.tolist()], held)
        return Orders(
            np.concatenate([stopped[~np.isin(stopped, kept)], left]),
            draft.placements,
            np.concatenate([continuing[~np.isin(continuing, left)], kept]),
            complete=False,
        )

    def fill(self, choice: Chosen, view: View, decision: Decision, doubtful: Ints) -> Orders:
        """Orders between rounds: whoever runs goes on, and free GPUs are used."""
        chosen = choice.handles
        if view.options is not None:
            others = [*self._left_over_to(choice, view, decision), *doubtful.tolist()]
            return self._with_options.fill(choice.wanted, others)
        running = self._state.running()
        waiting = chosen[~np.isin(chosen, running)].tolist()
        others = [*_others(chosen, view, decision), *doubtful.tolist()]
        holders = set(running.tolist())
        draft = _Draft(self._state, self._executor)
        draft.fill_up([*waiting, *(handle for handle in others if handle not in holders)], {})
        return Orders(placements=draft.placements, continuing=running)

    def _left_over_to(self, choice: Chosen, view: View, decision: Decision) -> list[int]:
        """Who may have what is left over. A policy that chooses options has said it all."""
        return [] if choice.options is not None else _others(choice.handles, view, decision)

    def _diff(self, chosen: Ints) -> tuple[Ints, Ints, Ints]:
        """Who stops, who starts, who goes on."""
        table = self._state.table
        goes_on = table.state[table.rows(chosen)] == RUNNING
        continuing, held = chosen[goes_on], table.needing_gpus(self._state.running())
        stopped = held[:0] if len(held) == len(continuing) else np.setdiff1d(held, continuing)
        return stopped, chosen[~goes_on], continuing

    def _may_leave(self, handles: Ints) -> set[int]:
        must_stay = self._state.table.must_stay(self._state.table.rows(handles))
        return set(handles[~must_stay].tolist())

    def _could_fit(self, handle: int) -> bool:
        spec = self._state.table.spec(handle)
        allowed = self._executor.nodes_for(spec)
        if allowed is None:
            return True
        least = min((spec.gpus, *spec.gpu_counts))
        return self._state.placer.capacity(allowed) >= least


class _Draft:
    """An assignment in the making, on a placer of its own."""

    def __init__(self, state: SchedulerState, executor: Executor) -> None:
        self._table = state.table
        self._executor = executor
        self._placer: Placer = state.placer.copy()
        self.placements: dict[int, Placement] = {}  # of those that start

    def release(self, handles: list[int]) -> dict[int, Placement]:
        """Takes the GPUs of these gangs; returns what they held."""
        held = {handle: self._placer.placement(handle) for handle in handles}
        self._placer.release(handles)
        return held

    def place(self, handles: list[int]) -> bool:
        """Starts those that fit; returns whether any did."""
        specs = [self._table.spec(handle) for handle in handles]
        allowed = {
            handle: nodes
            for handle, spec in zip(handles, specs, strict=True)
            if (nodes := self._executor.nodes_for(spec)) is not None
        }
        placed = self._placer.place(handles, [spec.gpus for spec in specs], allowed)
        self.placements.update(placed)
        return bool(placed)

    def make_room(self, unplaced: list[int], chosen: list[int], may_leave: set[int]) -> Ints:
        """Starts those for whom gangs that are liked less can leave; returns who leaves."""
        left: list[int] = []
        for handle in unplaced:
            likes_less = chosen[: chosen.index(handle) : -1]
            spec = self._table.spec(handle)
            liked_less = [other for other in likes_less if other in may_leave]
            nodes = self._executor.nodes_for(spec)
            leaving = in_the_way(self._placer, spec.gpus, nodes, liked_less)
            held = self.release(leaving)
            if leaving and self.place([handle]):
                may_leave -= held.keys()
                left += leaving
            else:
                for other, placement in held.items():
                    self._placer.claim(other, placement)
        return np.array(left, dtype=np.int64)

    def fill_up(self, candidates: list[int], held: dict[int, Placement]) -> Ints:
        """Starts candidates on what is free; returns those that keep what they ``held``.

        Nobody is moved: a move costs a restart, and this may be for one round only.
        """
        kept: list[int] = []
        room = self._placer.room()
        for handle in candidates[:MOST_TRIED]:
            if room == 0:
                break
            if self._table.spec(handle).gpus > room:
                continue
            if handle not in held:
                self.place([handle])
            elif self._placer.take_back(handle, held[handle]):
                kept.append(handle)
            room = self._placer.room()
        return np.array(kept, dtype=np.int64)


def _others(chosen: Ints, view: View, decision: Decision) -> list[int]:
    """Handles of those who were not chosen."""
    run = np.flatnonzero(np.isin(view.handle, chosen))
    handles: list[int] = view.handle[not_chosen(run, view, decision)].tolist()
    return handles

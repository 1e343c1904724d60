"""Orders where gangs are of one type of GPU each, and jobs may hold more or fewer of them.

A gang that was given the option that it holds goes on; one that was given another stops and
starts again in the same round. Where a policy gives every job its request, the type is chosen
here. Everything is tried on a copy of the placer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from shockwave.engine.executor import Executor
from shockwave.engine.options import OptionTable
from shockwave.engine.orders import MOST_TRIED, Orders, in_the_way
from shockwave.engine.placement import Placer
from shockwave.engine.state import SchedulerState
from shockwave.model.events import Placement
from shockwave.model.options import Option

# What each of the chosen is to hold, most preferred first. None: its request, on any type.
Wanted = Mapping[int, Option | None]


class OptionAssigner:
    """Makes orders from the jobs that were chosen and what each is to hold."""

    def __init__(self, state: SchedulerState, executor: Executor) -> None:
        self._state = state
        self._executor = executor

    def assign(self, wanted: Wanted, others: Sequence[int], doubtful: Sequence[int]) -> Orders:
        """Orders for a round.

        The ``doubtful`` may have what is left over, each its request; ``others`` too, where
        somebody who was chosen finds no room.
        """
        table, options = self._state.table, self._options
        running = table.needing_gpus(self._state.running()).tolist()
        held = {handle: options.option(table.row(handle)) for handle in running}
        goes_on = [h for h, option in wanted.items() if h in held and option in (None, held[h])]
        staying = set(goes_on)
        draft = _Draft(self._state, self._executor, options)
        freed = draft.release([handle for handle in running if handle not in staying])
        draft.start({handle: wanted[handle] for handle in wanted if handle not in staying})
        unplaced = [h for h in wanted if h not in staying and h not in draft.placements]
        kept = draft.give_back([handle for handle in unplaced if handle in freed], freed)
        given_up = draft.make_room(unplaced, wanted, self._may_leave(goes_on))
        waiting = [h for h in unplaced if h not in draft.placements and h not in kept]
        kept |= draft.fill_up(
            [*waiting, *given_up, *(others if unplaced else ()), *doubtful], freed
        )
        stopped = [h for h in running if h not in staying and h not in kept] + given_up
        left = set(given_up)
        return Orders(
            np.array(stopped, dtype=np.int64),
            draft.placements,
            np.array([h for h in [*goes_on, *sorted(kept)] if h not in left], dtype=np.int64),
            complete=not unplaced,
            options=draft.options,
        )

    def fill(self, wanted: Wanted, others: Sequence[int]) -> Orders:
        """Orders between rounds: whoever runs goes on, and free GPUs are used."""
        running = self._state.running()
        holders = set(running.tolist())
        draft = _Draft(self._state, self._executor, self._options)
        draft.start({h: option for h, option in wanted.items() if h not in holders})
        draft.fill_up([handle for handle in others if handle not in holders], {})
        return Orders(placements=draft.placements, continuing=running, options=draft.options)

    @property
    def _options(self) -> OptionTable:
        options = self._state.table.options
        assert options is not None  # or nobody would ask here
        return options

    def _may_leave(self, handles: list[int]) -> set[int]:
        found = np.array(handles, dtype=np.int64)
        must_stay = self._state.table.must_stay(self._state.table.rows(found))
        return set(found[~must_stay].tolist())


class _Draft:
    """An assignment in the making, on a placer of its own."""

    def __init__(self, state: SchedulerState, executor: Executor, options: OptionTable) -> None:
        self._table = state.table
        self._executor = executor
        self._options = options
        self._placer: Placer = state.placer.copy()
        self.placements: dict[int, Placement] = {}  # of those that start
        self.options: dict[int, Option] = {}

    def release(self, handles: list[int]) -> dict[int, Placement]:
        """Takes the GPUs of these gangs; returns what they held."""
        held = {handle: self._placer.placement(handle) for handle in handles}
        self._placer.release(handles)
        return held

    def give_back(self, handles: list[int], held: Mapping[int, Placement]) -> set[int]:
        """Gangs that found no room for another option go on as before, where that is possible."""
        return {handle for handle in handles if self._placer.take_back(handle, held[handle])}

    def start(self, wanted: Wanted) -> None:
        """Starts those that fit. Who fits goes by preference, who is placed first by size."""
        room = {kind.name: self._placer.room_of_type(kind.name) for kind in self._placer.types()}
        by_type: dict[str, dict[int, Option]] = {}
        free: list[tuple[int, list[Option]]] = []
        for handle, option in wanted.items():
            choices = self._choices(handle) if option is None else [option]
            if self._executor.nodes_for(self._table.spec(handle)) is not None:
                self._place_first_that_fits(handle, choices, room)  # those with the least room
            else:
                free.append((handle, choices))
        for handle, choices in free:
            choice = next((one for one in choices if one.gpus <= room.get(one.gpu_type, 0)), None)
            if choice is not None:
                room[choice.gpu_type] -= choice.gpus
                by_type.setdefault(choice.gpu_type, {})[handle] = choice
        for gpu_type, gangs in by_type.items():
            self._place(gpu_type, gangs)

    def make_room(self, unplaced: list[int], wanted: Wanted, may_leave: set[int]) -> list[int]:
        """Starts those for whom gangs that are liked less can leave; returns who leaves."""
        left: list[int] = []
        chosen = list(wanted)
        for handle in unplaced:
            if handle in self.placements or self._placer.placement(handle):
                continue
            likes_less = chosen[: chosen.index(handle) : -1]
            liked_less = [other for other in likes_less if other in may_leave]
            spec = self._table.spec(handle)
            bound = self._executor.nodes_for(spec)
            wants = wanted[handle]
            for choice in self._choices(handle) if wants is None else [wants]:
                nodes = self._placer.nodes_of_type(choice.gpu_type)
                nodes = nodes if bound is None else nodes & bound
                leaving = in_the_way(self._placer, choice.gpus, nodes, liked_less)
                held = self.release(leaving)
                if leaving and self._placer.place([handle], [choice.gpus], {handle: nodes}):
                    self.placements[handle] = self._placer.placement(handle)
                    self.options[handle] = choice
                    may_leave.difference_update(leaving)
                    left += leaving
                    break
                for other, placement in held.items():
                    self._placer.claim(other, placement)
        return left

    def fill_up(self, candidates: list[int], held: Mapping[int, Placement]) -> set[int]:
        """Starts candidates on what is free; returns those that keep what they ``held``.

        Nobody is moved: a move costs a restart, and this may be for one round only.
        """
        kept: set[int] = set()
        for handle in candidates[:MOST_TRIED]:
            if self._placer.room() == 0:
                break
            if handle in held:
                if self._placer.take_back(handle, held[handle]):
                    kept.add(handle)
            else:
                self.start({handle: None})
        return kept

    def _choices(self, handle: int) -> list[Option]:
        """The request on every type, the preferred one first."""
        preferred = self._table.spec(handle).preferred_type
        found = self._options.requests(self._table.row(handle))
        return (
            sorted(found, key=lambda option: option.gpu_type != preferred) if preferred else found
        )

    def _place_first_that_fits(
        self, handle: int, choices: list[Option], room: dict[str, int]
    ) -> None:
        allowed = self._executor.nodes_for(self._table.spec(handle)) or frozenset()
        for choice in choices:
            nodes = allowed & self._placer.nodes_of_type(choice.gpu_type)
            placed = self._placer.place([handle], [choice.gpus], {handle: nodes})
            if placed:
                room[choice.gpu_type] -= choice.gpus
                self.placements |= placed
                self.options[handle] = choice
                return

    def _place(self, gpu_type: str, gangs: dict[int, Option]) -> None:
        sizes = [option.gpus for option in gangs.values()]
        placed = self._placer.place_on_type(gpu_type, list(gangs), sizes)
        self.placements |= placed
        self.options |= {handle: gangs[handle] for handle in placed}

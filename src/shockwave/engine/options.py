"""The columns of what jobs may hold, hold and held: one row per job, one column per option.

They exist only where somebody has a choice: several types of GPUs, or a job that says more about
its GPUs than how many. Types and options are numbered in the order in which they came up, and
keep their numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shockwave.engine.placement import TypeRoom
from shockwave.model.job import JobSpec
from shockwave.model.options import Option, Options, memory_gb
from shockwave.model.progress import Progressed
from shockwave.model.view import Bools, Floats, Ints

_INTS = {"held": -1, "last": -1, "_claim": 0}
_WIDE = {"measured": np.nan, "epochs": 0.0, "declared": np.nan}

# What decides over a job's options: request, numbers, types, memory.
_Claim = tuple[int, tuple[int, ...], tuple[str, ...], float | None]


@dataclass(frozen=True, eq=False)
class Wishes:
    """What jobs could hold, request and hold."""

    types: tuple[str, ...]
    kind: Ints  # [option] number of its type
    gpus: Ints  # [option]
    could: Bools  # [job, option]
    requested: Bools  # [job, option]
    held: Ints  # [job] option, -1 for none


class OptionTable:
    """Grows with the rows of the job table and with the options that there are."""

    held: Ints
    last: Ints
    _claim: Ints  # [row] which claim the job has
    measured: Floats
    epochs: Floats
    declared: Floats

    def __init__(self, specs: Sequence[JobSpec], types: Iterable[TypeRoom]) -> None:
        self._types: dict[str, TypeRoom] = {}
        self._numbers: dict[Option, int] = {}
        self._claims: dict[_Claim, int] = {}
        self._allowed: Bools = np.zeros((0, 0), dtype=np.bool_)  # [claim, option]
        self._requested: Bools = self._allowed
        self._requests: list[list[Option]] = []  # by claim
        rows = max(64, len(specs))
        for name, empty in _INTS.items():
            setattr(self, name, np.full(rows, empty, dtype=np.int64))
        for name, nothing in _WIDE.items():
            setattr(self, name, np.full((rows, 16), nothing))
        self.fit(types)
        for row, spec in enumerate(specs):
            self.declare(row, spec)

    # What there is.

    def fit(self, types: Iterable[TypeRoom]) -> None:
        """The nodes are these now."""
        for name, old in self._types.items():
            self._types[name] = TypeRoom(old.name, 0, 0)
        for room in types:
            self._types[room.name] = room
        for claim in list(self._claims):
            self._number_options(claim)
        self._judge()

    def declare(self, row: int, spec: JobSpec) -> None:
        """A job declares its options, for the first time or anew."""
        known = len(self._claims)
        self._declare(row, spec)
        if len(self._claims) > known:
            self._number_options(next(reversed(self._claims)))
            self._judge()
        self.declared[row] = np.nan
        for gpu_type, gpus, seconds in spec.option_seconds:
            number = self._number(Option(gpu_type, gpus))
            self.declared[row, number] = seconds

    def _declare(self, row: int, spec: JobSpec) -> None:
        self._reserve(row + 1, len(self._numbers))
        claim = (spec.gpus, spec.gpu_counts, spec.gpu_types, spec.gpu_memory_gb)
        self._claim[row] = self._claims.setdefault(claim, len(self._claims))

    def _number_options(self, claim: _Claim) -> None:
        for room in self._types.values():
            for gpus in _counts(claim):
                if _fits(claim, room, gpus):
                    self._number(Option(room.name, gpus))

    def _number(self, option: Option) -> int:
        if option.gpu_type not in self._types:
            self._types[option.gpu_type] = TypeRoom(option.gpu_type, 0, 0)
        number = self._numbers.setdefault(option, len(self._numbers))
        self._reserve(0, len(self._numbers))
        return number

    def _judge(self) -> None:
        """Which claims allow which options, on the nodes as they are."""
        shape = (len(self._claims), len(self._numbers))
        self._allowed = np.zeros(shape, dtype=np.bool_)
        self._requested = np.zeros(shape, dtype=np.bool_)
        for claim, row in self._claims.items():
            request, counts, *_ = claim
            for option, number in self._numbers.items():
                fits = _fits(claim, self._types[option.gpu_type], option.gpus)
                self._requested[row, number] = fits and option.gpus == request
                self._allowed[row, number] = fits and option.gpus in (counts or (request,))
        place = {name: number for number, name in enumerate(self._types)}
        by_type = sorted(self._numbers.items(), key=lambda item: place[item[0].gpu_type])
        self._requests = [
            [option for option, number in by_type if wanted[number]] for wanted in self._requested
        ]

    # What happens.

    def start(self, row: int, option: Option | None) -> None:
        """A job holds this now."""
        if option is not None:
            known = len(self._numbers)
            self.held[row] = self.last[row] = self._number(option)
            if len(self._numbers) > known:
                self._judge()

    def stop(self, row: int) -> None:
        self.held[row] = -1

    def advance(self, rows: Ints, progress: Progressed, epochs_before: Floats) -> None:
        """What the running jobs did with what they hold, or have just given up."""
        number = self.last[rows]
        some = number >= 0
        rows, number = rows[some], number[some]
        self.epochs[rows, number] += np.maximum(progress.epochs_done - epochs_before, 0.0)[some]
        seconds = progress.epoch_seconds[some]
        known = ~np.isnan(seconds)
        self.measured[rows[known], number[known]] = seconds[known]

    def option(self, row: int) -> Option | None:
        """What the job holds."""
        number = int(self.held[row])
        return None if number < 0 else self.options[number]

    @property
    def options(self) -> tuple[Option, ...]:
        return tuple(self._numbers)

    def requests(self, row: int) -> list[Option]:
        """The request on every type that can hold it, in the order of the types."""
        return self._requests[self._claim[row]]

    def that_could_run(self, rows: Ints) -> Bools:
        """[row] whether the nodes as they are could hold the job in any way."""
        either = self._allowed | self._requested
        return np.asarray(either[self._claim[rows]].any(axis=1))

    def held_gpus(self, rows: Ints, request: Ints) -> Ints:
        """[row] how many GPUs the running job holds."""
        held = self.held[rows]
        gpus = np.array([option.gpus for option in self._numbers], dtype=np.int64)
        return np.where(held < 0, request, gpus[held]) if len(gpus) else request

    def last_held(self, rows: Ints, request: Ints) -> tuple[Ints, list[str]]:
        """[row] how many GPUs the job holds or has just given up, and of which type."""
        options, last = self.options, self.last[rows].tolist()
        gpus = [
            asked if number < 0 else options[number].gpus
            for number, asked in zip(last, request.tolist(), strict=True)
        ]
        kinds = ["" if number < 0 else options[number].gpu_type for number in last]
        return np.array(gpus, dtype=np.int64), kinds

    def what_jobs_could_hold(self, rows: Ints) -> Wishes:
        """Of these jobs, what they hold and what else they could."""
        types = {name: number for number, name in enumerate(self._types)}
        claim = self._claim[rows]
        return Wishes(
            tuple(types),
            np.array([types[option.gpu_type] for option in self._numbers], dtype=np.int64),
            np.array([option.gpus for option in self._numbers], dtype=np.int64),
            self._allowed[claim] | self._requested[claim],
            self._requested[claim],
            self.held[rows],
        )

    # What a policy may see.

    def view(self, rows: Ints, profile: Floats, profiled: Floats | None) -> Options:
        """Copies for these jobs. ``profile`` [job] are the seconds per epoch of their requests."""
        width = len(self._numbers)
        types = {name: number for number, name in enumerate(self._types)}
        rooms = list(self._types.values())
        kind = np.array([types[option.gpu_type] for option in self._numbers], dtype=np.int64)
        gpus = np.array([option.gpus for option in self._numbers], dtype=np.int64)
        node_gpus = np.array([room.largest_node for room in rooms], dtype=np.int64)
        claim = self._claim[rows]
        requested = self._requested[claim]
        declared = self.declared[rows, :width]
        own = requested & np.isnan(declared)
        return Options(
            types=tuple(types),
            type_gpus=np.array([room.gpus for room in rooms], dtype=np.int64),
            node_gpus=node_gpus,
            type=kind,
            gpus=gpus,
            spans=gpus > node_gpus[kind],
            allowed=self._allowed[claim],
            requested=requested,
            held=self.held[rows],
            last=self.last[rows],
            measured=self.measured[rows, :width],
            measured_epochs=self.epochs[rows, :width],
            declared=np.where(own, profile[:, None], declared),
            profiled=np.full((len(rows), width), np.nan) if profiled is None else profiled,
        )

    # Rows, and to a snapshot and back.

    def keep(self, rows: Ints) -> None:
        """Only these rows stay, in this order."""
        for name in (*_INTS, *_WIDE):
            old = getattr(self, name)
            new = np.full_like(old, {**_INTS, **_WIDE}[name])
            new[: len(rows)] = old[rows]
            setattr(self, name, new)

    def dump(self, count: int) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """Plain values and arrays that :meth:`load` makes the same table of."""
        width = len(self._numbers)
        arrays = {f"options.{name}": getattr(self, name)[:count] for name in ("held", "last")}
        arrays |= {f"options.{name}": getattr(self, name)[:count, :width] for name in _WIDE}
        plain = {
            "types": [[room.name, room.gpus, room.largest_node] for room in self._types.values()],
            "options": [[option.gpu_type, option.gpus] for option in self._numbers],
        }
        return plain, arrays

    @classmethod
    def load(
        cls,
        specs: Sequence[JobSpec],
        plain: dict[str, Any],
        arrays: dict[str, np.ndarray[Any, Any]],
    ) -> OptionTable:
        table = cls((), ())
        table._types = {name: TypeRoom(name, gpus, node) for name, gpus, node in plain["types"]}
        for gpu_type, gpus in plain["options"]:
            table._number(Option(gpu_type, gpus))
        for row, spec in enumerate(specs):
            table._declare(row, spec)
        table._judge()
        for name in ("held", "last"):
            getattr(table, name)[: len(specs)] = arrays[f"options.{name}"]
        for name in _WIDE:
            values = arrays[f"options.{name}"]
            getattr(table, name)[: len(values), : values.shape[1]] = values
        return table

    def _reserve(self, rows: int, width: int) -> None:
        old_rows, old_width = self.measured.shape
        if rows <= old_rows and width <= old_width:
            return
        rows = old_rows if rows <= old_rows else max(rows, 2 * old_rows)
        width = old_width if width <= old_width else max(width, 2 * old_width)
        for name, empty in (*_INTS.items(), *_WIDE.items()):
            old = getattr(self, name)
            shape = (rows,) if old.ndim == 1 else (rows, width)
            new = np.full(shape, empty, dtype=old.dtype)
            new[tuple(slice(size) for size in old.shape)] = old
            setattr(self, name, new)


def _counts(claim: _Claim) -> tuple[int, ...]:
    request, counts, *_ = claim
    return (*counts, *(() if request in counts else (request,)))


def _fits(claim: _Claim, room: TypeRoom, gpus: int) -> bool:
    """Whether the nodes of a type can hold a gang. Beyond a node, one with a choice takes nodes."""
    _, counts, types, needed_gb = claim
    if (types and room.name not in types) or not 0 < gpus <= room.gpus:
        return False
    if gpus in counts and gpus > room.largest_node and gpus % room.largest_node:
        return False
    has_gb = memory_gb(room.name)
    return needed_gb is None or has_gb is None or has_gb >= needed_gb

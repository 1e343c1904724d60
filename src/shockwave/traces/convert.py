"""A part of a trace in another form, one job at a time however long the trace is.

The source is read twice: once to learn when its jobs arrive, and once to give them out. So a
trace of millions of jobs needs no more memory than their arrivals and ids.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from shockwave.model.errors import InputError
from shockwave.model.job import TraceJob
from shockwave.model.view import Floats
from shockwave.traces.base import Rejects, RowError
from shockwave.traces.formats import FormatEntry
from shockwave.traces.recorded import instant, no_jobs
from shockwave.traces.synthesis import Synthesiser, stable_number

_OF_64_BITS = float(2**64)


@dataclass(frozen=True)
class Selection:
    """Which jobs to take, and how fast they arrive. Raises :class:`InputError` if impossible.

    ``jobs`` takes the first so many by arrival. ``from_time`` and ``to_time`` (not included)
    are dates where the source has dates, else seconds of the trace; the first job that is
    taken then arrives at 0. ``scale_arrivals`` multiplies arrivals: 0.5 is twice the load.
    ``sample`` is the share of the jobs to keep, chosen by ``seed`` and their ids.
    """

    jobs: int | None = None
    from_time: str | None = None
    to_time: str | None = None
    scale_arrivals: float = 1.0
    gpus_max: int | None = None
    sample: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for place, value in (("--jobs", self.jobs), ("--gpus-max", self.gpus_max)):
            if value is not None and value < 1:
                raise InputError("must be at least 1", place=place, value=value)
        if not 0 < self.scale_arrivals < 1e9:
            raise InputError("must be above 0", place="--scale-arrivals", value=self.scale_arrivals)
        if not 0 < self.sample <= 1:
            problem = "must be a share above 0, and 1 at most"
            raise InputError(problem, place="--sample", value=self.sample)


@dataclass
class Conversion:
    """The selected jobs of a source. ``left_out`` counts jobs by the option that left them out.

    ``on_row`` is called with the number of rows that were read so far, and of all rows once
    that is known.
    """

    path: Path
    entry: FormatEntry
    selection: Selection = field(default_factory=Selection)
    synthesiser: Synthesiser | None = None
    on_row: Callable[[int, int | None], None] | None = None
    left_out: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._calendar = self.entry.load().calendar
        self._from = self._moment("--from-time", self.selection.from_time)
        self._to = self._moment("--to-time", self.selection.to_time)

    def jobs(self, rejects: Rejects) -> Iterator[TraceJob]:
        """The jobs in the order of the source. Raises :class:`TraceError` if there are none."""
        arrivals = array("d")
        first_look = Rejects()
        for job in self._selected(first_look, None):
            arrivals.append(job.spec.arrival_seconds)
        if not arrivals:
            if self.left_out:
                raise InputError(f"no jobs are left: {self.told()}", source=str(self.path))
            raise no_jobs(self.path, first_look)
        self.left_out.clear()
        limit = _Limit(np.frombuffer(arrivals), self.selection.jobs)
        rebased = self._calendar or self._from is not None
        origin = min(arrivals) if rebased else 0.0
        taken = self._taken(rejects, first_look.rows, limit, origin)
        yield from taken if self.synthesiser is None else self.synthesiser.apply(taken)

    def told(self) -> str:
        """How many jobs were left out, by option, in words."""
        return ", ".join(f"{count:,} by {option}" for option, count in self.left_out.items())

    def header(self) -> dict[str, object]:
        """Where the jobs come from and what was assumed, for the first line of a trace."""
        chosen = {
            name: value
            for name, value in vars(self.selection).items()
            if value != getattr(Selection, name)
        }
        assumed = [*self.entry.load().assumptions]
        if self.synthesiser is not None:
            assumed += self.synthesiser.assumptions
        return {
            "source": self.path.name,
            "format": self.entry.name,
            "selection": chosen,
            "assumed": assumed,
        }

    def _taken(
        self, rejects: Rejects, rows: int, limit: _Limit, origin: float
    ) -> Iterator[TraceJob]:
        scale = self.selection.scale_arrivals
        for job in self._selected(rejects, rows):
            arrival = job.spec.arrival_seconds
            if not limit.admits(arrival):
                self.left_out["--jobs"] += 1
                continue
            if origin or scale != 1:
                moved = round((arrival - origin) * scale, 6)
                job = replace(job, spec=replace(job.spec, arrival_seconds=moved))
            yield job

    def _selected(self, rejects: Rejects, rows: int | None) -> Iterator[TraceJob]:
        choice = self.selection
        for job in self.entry.stream(self.path, rejects):
            if self.on_row is not None:
                self.on_row(rejects.rows, rows)
            arrival = job.spec.arrival_seconds
            if self._from is not None and arrival < self._from:
                self.left_out["--from-time"] += 1
            elif self._to is not None and arrival >= self._to:
                self.left_out["--to-time"] += 1
            elif choice.gpus_max is not None and job.spec.gpus > choice.gpus_max:
                self.left_out["--gpus-max"] += 1
            elif choice.sample < 1 and _lot(choice.seed, job.spec.id) >= choice.sample:
                self.left_out["--sample"] += 1
            else:
                yield job

    def _moment(self, place: str, text: str | None) -> float | None:
        if text is None:
            return None
        try:
            return instant(text, place) if self._calendar else float(text)
        except (RowError, ValueError):
            expected = "a date such as 2017-10-03 or 2017-10-03T12:00" if self._calendar else (
                "seconds of the trace, as this source has no dates"
            )  # fmt: skip
            raise InputError(f"must be {expected}", place=place, value=text) from None


class _Limit:
    """Admits the first so many jobs by arrival; of those that tie at the end, the first seen."""

    def __init__(self, arrivals: Floats, jobs: int | None) -> None:
        self._last = np.inf
        self._ties = len(arrivals)
        if jobs is not None and jobs < len(arrivals):
            self._last = float(np.partition(arrivals, jobs - 1)[jobs - 1])
            self._ties = jobs - int((arrivals < self._last).sum())

    def admits(self, arrival: float) -> bool:
        if arrival == self._last and self._ties > 0:
            self._ties -= 1
            return True
        return arrival < self._last


def _lot(seed: int, identifier: str) -> float:
    return stable_number(seed, f"sample:{identifier}") / _OF_64_BITS

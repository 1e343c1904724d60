"""Where jobs come from: a file in one of the known formats, or a recipe.

The formats of other packages are found by entry points of the group ``shockwave.traces``::

    [project.entry-points."shockwave.traces"]
    my-format = "my_package.traces:MyFormat"

A format is imported when it is used. One that cannot be imported is an error for whoever
uses it, and for nobody else.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from shockwave.model.errors import InputError, ShockwaveError, TraceError
from shockwave.model.job import TraceJob
from shockwave.model.registry import Registry
from shockwave.traces.base import TraceFormat
from shockwave.traces.generator import generate
from shockwave.traces.recipe import is_recipe, parse_recipe

FORMATS = Registry(
    "trace format",
    "shockwave.traces",
    TraceFormat,
    {"native": "shockwave.traces.native:NativeFormat"},
)


@dataclass(frozen=True)
class FormatEntry:
    """A format by name; it is imported when it is used."""

    name: str

    @property
    def provider(self) -> str:
        return FORMATS.provider(self.name)

    def load(self) -> TraceFormat:
        """The format itself. Raises :class:`InputError` that names the plug-in if it is broken."""
        return FORMATS.create(self.name)

    def read(self, path: Path) -> list[TraceJob]:
        """The jobs of the file by arrival, checked to be what the rest of Shockwave relies on."""
        reader = self.load()
        try:
            jobs: list[object] = list(reader.read(path))
        except ShockwaveError:
            raise
        except Exception as error:  # whatever a stranger's reader raises
            problem = f"{self._described()} failed to read it: {_one_line(error)}"
            raise TraceError(problem, source=str(path)) from error
        return self._checked(jobs, path)

    def _checked(self, given: list[object], path: Path) -> list[TraceJob]:
        described = self._described()
        if not given:
            raise TraceError(f"{described} found no jobs", source=str(path))
        jobs: dict[str, TraceJob] = {}
        for job in given:
            if not isinstance(job, TraceJob):
                problem = f"{described} gave something that is not a TraceJob"
                raise TraceError(problem, source=str(path), value=job)
            if job.spec.id in jobs:
                problem = f"{described} gave two jobs of the same id"
                raise TraceError(problem, source=str(path), value=job.spec.id)
            jobs[job.spec.id] = job
        return sorted(jobs.values(), key=operator.attrgetter("spec.arrival_seconds"))

    def _described(self) -> str:
        return f"trace format '{self.name}' (from {self.provider})"


def available() -> dict[str, FormatEntry]:
    """Every known format by name, the built-in ones first; no plug-in is imported.

    A plug-in cannot take the name of a built-in format.
    """
    return {name: FormatEntry(name) for name in FORMATS.names()}


def load(
    source: str | Path, *, seed: int | None = None, format: str | None = None
) -> list[TraceJob]:
    """The jobs of a trace file, or of a recipe ``generated:...``, by arrival.

    ``seed`` takes the place of the recipe's. ``format`` names the file's format; without it
    the suffix decides. Raises :class:`InputError` (:class:`TraceError` for the contents).
    """
    if is_recipe(source):
        mix = parse_recipe(str(source))
        return generate(mix if seed is None else replace(mix, seed=seed))
    path = Path(source)
    if format is not None:
        return FormatEntry(format).read(path)
    if not path.exists():
        hint = "Name a trace file, or a workload such as generated:jobs=120"
        raise TraceError("no such file", source=str(source), hint=hint)
    if path.is_dir():
        raise TraceError("is a folder, expected a trace file", source=str(source))
    return _by_suffix(path, available()).read(path)


def _by_suffix(path: Path, formats: dict[str, FormatEntry]) -> FormatEntry:
    broken: list[str] = []
    for entry in formats.values():
        try:
            suffixes = entry.load().suffixes
        except InputError as error:
            broken.append(str(error))  # told only if nobody else reads the file
            continue
        if path.name.lower().endswith(tuple(suffix.lower() for suffix in suffixes)):
            return entry
    hint = "; ".join([_known(formats.values()), *broken])
    raise InputError(
        "no trace format has this suffix", source=str(path), value=path.suffix, hint=hint
    )


def _known(entries: Iterable[FormatEntry]) -> str:
    names = []
    for entry in entries:
        try:
            suffixes = entry.load().suffixes
        except InputError:
            suffixes = ()
        names.append(f"{entry.name} ({', '.join(suffixes)})" if suffixes else entry.name)
    return f"Known formats are {', '.join(names)}"


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())

"""Where jobs come from: a file in one of the known formats, or a recipe.

The formats of other packages are found by entry points of the group ``shockwave.traces``::

    [project.entry-points."shockwave.traces"]
    my-format = "my_package.traces:MyFormat"

A format is imported when it is used. One that cannot be imported is an error for whoever
uses it, and for nobody else.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from shockwave.model.errors import InputError, ShockwaveError, TraceError
from shockwave.model.job import TraceJob
from shockwave.model.registry import Registry
from shockwave.traces.base import Rejects, Sample, TraceFormat
from shockwave.traces.files import lines
from shockwave.traces.generator import generate
from shockwave.traces.recipe import is_recipe, parse_recipe

FORMATS = Registry(
    "trace format",
    "shockwave.traces",
    TraceFormat,
    {
        "native": "shockwave.traces.native:NativeFormat",
        "gavel": "shockwave.traces.gavel:GavelFormat",
        "sia": "shockwave.traces.sia:SiaFormat",
        "philly": "shockwave.traces.philly:PhillyFormat",
        "philly-csv": "shockwave.traces.philly_csv:PhillyTableFormat",
        "helios": "shockwave.traces.helios:HeliosFormat",
        "acme": "shockwave.traces.acme:AcmeFormat",
        "alibaba-2020": "shockwave.traces.pai:PaiFormat",
        "alibaba-2023": "shockwave.traces.alibaba2023:Alibaba2023Format",
        "alibaba-2026": "shockwave.traces.alibaba2026:Alibaba2026Format",
        "slurm": "shockwave.traces.slurm:SlurmFormat",
        "journal": "shockwave.traces.journal:JournalFormat",
        # Of a later layer, which only the name refers to.
        "database": "shockwave.cli.database_trace:DatabaseFormat",
    },
)

_DATABASE_URL = re.compile(r"(sqlite|postgres(ql)?)(\+\w+)?:/")
_SAMPLE_LINES = 200
_SAMPLE_CHARACTERS = 20_000  # of a line


@dataclass(frozen=True)
class FormatEntry:
    """A format by name; it is imported when it is used."""

    name: str
    profiles: Path | None = None

    @property
    def provider(self) -> str:
        return FORMATS.provider(self.name)

    def load(self) -> TraceFormat:
        """The format itself. Raises :class:`InputError` that names the plug-in if it is broken."""
        reader = FORMATS.create(self.name)
        reader.profiles = self.profiles
        return reader

    def read(self, path: Path) -> list[TraceJob]:
        """The jobs of the file by arrival, checked to be what the rest of Shockwave relies on."""
        reader = self.load()
        try:
            jobs: list[object] = list(reader.read(path))
        except ShockwaveError:
            raise
        except Exception as error:  # whatever a stranger's reader raises
            raise self._failed(path, error) from error
        return self._checked(jobs, path)

    def stream(self, path: Path, rejects: Rejects) -> Iterator[TraceJob]:
        """The jobs in the order of the file, one at a time."""
        reader = self.load()
        try:
            yield from reader.stream(path, rejects)
        except ShockwaveError:
            raise
        except Exception as error:
            raise self._failed(path, error) from error

    def _failed(self, path: Path, error: Exception) -> TraceError:
        problem = f"{self._described()} failed to read it: {_one_line(error)}"
        return TraceError(problem, source=str(path))

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
    source: str | Path,
    *,
    seed: int | None = None,
    format: str | None = None,
    profiles: str | Path | None = None,
) -> list[TraceJob]:
    """The jobs of a trace file, or of a recipe ``generated:...``, by arrival.

    ``seed`` takes the place of the recipe's. ``format`` names the file's format; without it
    the file is recognised by what is in it. ``profiles`` names the file or folder of profiles
    that some formats need, where it does not lie beside the trace. Raises
    :class:`InputError` (:class:`TraceError` for the contents).
    """
    if is_recipe(source):
        mix = parse_recipe(str(source))
        return generate(mix if seed is None else replace(mix, seed=seed))
    path = Path(source)
    return find_format(path, format, None if profiles is None else Path(profiles)).read(path)


def find_format(path: Path, format: str | None = None, profiles: Path | None = None) -> FormatEntry:
    """The format that ``format`` names, or else the one that recognises the file.

    Raises :class:`InputError` if none does.
    """
    if profiles is not None and not profiles.exists():
        raise InputError("no such file or folder", source=str(profiles))
    if format is not None:
        entry = FormatEntry(format, profiles)
        entry.load()
        return entry
    if not path.exists() and _DATABASE_URL.match(str(path)):
        return FormatEntry("database", profiles)
    if not path.exists():
        hint = "Name a trace file, or a workload such as generated:jobs=120"
        raise TraceError("no such file", source=str(path), hint=hint)
    sample = _sample(path)
    broken: list[str] = []
    recognised: list[tuple[bool, FormatEntry]] = []
    for name in FORMATS.names():
        entry = FormatEntry(name, profiles)
        try:
            reader = entry.load()
            if reader.recognises(sample):
                recognised.append((TraceFormat.recognises(reader, sample), entry))
        except Exception as error:  # a stranger's; told only if nobody else reads the file
            broken.append(str(error) if isinstance(error, InputError) else _one_line(error))
    if recognised:
        # Who goes by the name of the file knows better than who goes by its contents.
        return max(recognised, key=operator.itemgetter(0))[1]
    if path.is_dir():
        raise TraceError("is a folder, expected a trace file", source=str(path))
    known = f"Known formats are {', '.join(FORMATS.names())}; choose one by --from"
    raise InputError(
        "no trace format recognises this file",
        source=str(path),
        value=next(iter(sample.lines), "")[:60] or None,
        hint="; ".join([known, *broken]),
    )


def _sample(path: Path) -> Sample:
    """The first lines, as far as they can be read; damage is for the reader to tell."""
    if path.is_dir():
        return Sample(path)
    found: list[str] = []
    try:
        for _, raw in islice(lines(path), _SAMPLE_LINES):
            found.append(raw[:_SAMPLE_CHARACTERS].decode("utf-8", "replace").strip("\r\n"))
    except TraceError:
        if not found:
            raise
    return Sample(path, tuple(found))


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())

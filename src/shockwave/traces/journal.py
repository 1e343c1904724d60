"""The journal of a run, live or simulated, as a trace: what its jobs really did.

Arrivals, gangs, epochs and regimes are as they happened. Epoch times are the measured ones,
or else the declared ones, scaled so that they add up to the productive time of the job.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from shockwave.model.errors import JournalError, TraceError
from shockwave.model.event_records import from_record
from shockwave.model.events import (
    Event,
    JobFinished,
    JobSubmitted,
    RegimeChanged,
)
from shockwave.model.job import Adaptation, JobSpec, Regime, TraceJob
from shockwave.model.progress import Progressed
from shockwave.traces.base import Rejects, RowError, Sample
from shockwave.traces.files import text_lines
from shockwave.traces.recorded import RecordedFormat


class JournalFormat(RecordedFormat):
    """JSON Lines of events, as ``shockwave simulate --journal`` writes them."""

    name = "journal"
    assumptions = (
        "epoch times are means of what was measured in a configuration, else the declared ones, "
        "else the job's mean, scaled to the productive time of the job",
    )

    def recognises(self, sample: Sample) -> bool:
        first = next(iter(sample.lines), "")
        return first.startswith("{") and '"kind"' in first and "run-started" in first

    def stream(self, path: Path, rejects: Rejects) -> Iterator[TraceJob]:
        return recorded_jobs(_events(path), f"{self.name}:{path.name}", rejects)


def recorded_jobs(
    events: Iterable[tuple[int, Event]], source: str, rejects: Rejects
) -> Iterator[TraceJob]:
    """The jobs that finished, from numbered events of a journal."""
    jobs: dict[str, _Observed] = {}
    for number, event in events:
        _observe(event, jobs, number)
    for job in jobs.values():
        rejects.rows += 1
        try:
            yield job.told(f"{source}:{job.line}")
        except RowError as unusable:
            rejects.add(job.line, unusable, job.spec.id)


def _events(path: Path) -> Iterator[tuple[int, Event]]:
    for line, text in text_lines(path):
        try:
            yield line, from_record(json.loads(text))
        except (JournalError, ValueError, RecursionError, AttributeError, TypeError) as error:
            problem = f"not an event of a journal: {' '.join(str(error).split())[:160]}"
            raise TraceError(problem, source=str(path), place=f"line {line}") from None


@dataclass
class _Observed:
    """What a journal says about one job."""

    spec: JobSpec
    line: int
    entered: list[tuple[int, int]] = field(default_factory=list)  # (epoch, configuration)
    measured: dict[int, list[float]] = field(default_factory=dict)  # by index of configuration
    productive_seconds: float | None = None

    def told(self, source: str) -> TraceJob:
        """Raises :class:`RowError` for a job that did not finish."""
        if self.productive_seconds is None:
            raise RowError("did not finish")
        spec = self.spec
        lengths = self._lengths()
        typical = self.productive_seconds / spec.epochs
        if not 0 < typical < math.inf:
            raise RowError("ran for no time")
        seconds = dict(zip(spec.configurations, spec.epoch_seconds, strict=True))
        for index, values in self.measured.items():
            seconds[spec.configurations[index]] = sum(values) / len(values)
        seconds = {size: each if each > 0 else typical for size, each in seconds.items()}
        total = sum(epochs * seconds[configuration] for configuration, epochs in lengths)
        if not math.isclose(total, self.productive_seconds, rel_tol=1e-9):
            factor = self.productive_seconds / total
            seconds = {size: each * factor for size, each in seconds.items()}
        adapts = len(lengths) > 1 and spec.adaptation is Adaptation.STATIC
        return TraceJob(
            replace(
                spec,
                epoch_seconds=tuple(seconds.values()),
                adaptation=Adaptation.CUSTOM if adapts else spec.adaptation,
            ),
            tuple(Regime(size, epochs, seconds[size]) for size, epochs in lengths),
            {"source": source},
        )

    def _lengths(self) -> list[tuple[int, int]]:
        """(configuration, epochs) in order, from the regimes that it entered."""
        entered = self.entered or [(0, self.spec.configurations[0])]
        ends = [epoch for epoch, _ in entered[1:]] + [self.spec.epochs]
        lengths: list[tuple[int, int]] = []
        for (begin, configuration), end in zip(entered, ends, strict=True):
            if configuration not in self.spec.configurations:
                raise RowError("entered a configuration that they had not declared")
            if end > begin:
                lengths.append((configuration, end - begin))
        if sum(epochs for _, epochs in lengths) != self.spec.epochs:
            raise RowError("have regimes that do not add up to their epochs")
        return lengths


def _observe(event: Event, jobs: dict[str, _Observed], line: int) -> None:
    if isinstance(event, JobSubmitted):
        jobs[event.job.id] = _Observed(event.job, line)
        return
    if isinstance(event, Progressed):
        _measure(event, list(jobs.values()))
        return
    job = jobs.get(getattr(event, "job", ""))
    if job is None:
        return
    if isinstance(event, RegimeChanged):
        # A crash may have taken the job back behind regimes that it had entered.
        job.entered = [item for item in job.entered if item[0] < event.epoch]
        if not job.entered or job.entered[-1][1] != event.configuration:
            job.entered.append((event.epoch, event.configuration))
    elif isinstance(event, JobFinished):
        job.productive_seconds = event.exclusive_seconds


def _measure(event: Progressed, jobs: list[_Observed]) -> None:
    """Handles count submissions from 0; what does not fit is not believed."""
    for handle, index, seconds in zip(
        event.handle.tolist(),
        event.configuration.tolist(),
        event.epoch_seconds.tolist(),
        strict=False,
    ):
        if 0 < seconds < math.inf and 0 <= handle < len(jobs):
            job = jobs[handle]
            if 0 <= index < len(job.spec.configurations):
                job.measured.setdefault(index, []).append(seconds)

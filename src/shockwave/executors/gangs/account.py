"""A job as a live executor keeps it: what it achieved, and what the scheduler knows of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shockwave.engine.executor import Known
from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.gang import Gang
from shockwave.executors.gangs.ledger import Entered, Ledger
from shockwave.executors.gangs.outcome import Ending, Outcome
from shockwave.model.job import JobSpec
from shockwave.model.progress import Progressed
from shockwave.protocol.reports import ReportReader


class ProgressRow(NamedTuple):
    """One element of every column of :class:`~shockwave.model.progress.Progressed`, in order."""

    handle: int
    epochs_done: float
    configuration: int
    epoch_seconds: float
    productive_seconds: float
    held_seconds: float
    restart_seconds: float
    unsaved_seconds: float
    silent_seconds: float


def columns(time: float, rows: Sequence[ProgressRow]) -> Progressed:
    """Rows as the columns of one event."""
    if not rows:
        return Progressed.nothing(time)
    return Progressed(time, *map(np.array, zip(*rows, strict=True)))


def one_a_job(rows: Sequence[ProgressRow]) -> list[ProgressRow]:
    """A job that ended and runs again did both."""
    merged: dict[int, ProgressRow] = {}
    for row in rows:
        before = merged.get(row.handle)
        if before is not None:
            row = row._replace(
                productive_seconds=before.productive_seconds + row.productive_seconds,
                held_seconds=before.held_seconds + row.held_seconds,
            )
        merged[row.handle] = row
    return list(merged.values())


class LiveJob:
    """Adds up what a job did in all its launches.

    A report to the scheduler holds only what changed since the last one.
    """

    def __init__(self, handle: int, spec: JobSpec, folder: JobFolder) -> None:
        self.handle = handle
        self.spec = spec
        self.folder = folder
        self.gang: Gang | None = None
        self.adopted = False
        self.stop_asked: float | None = None  # unix seconds
        self.idle_since: float | None = None  # unix seconds; None while a launch is under way
        self.refused: Ending | None = None  # why the launch came to nothing
        self.confirmed = False  # that the processes of the present launch run was told
        self.note = ""  # what was told last of what the backend says of it
        self.ledger = Ledger(spec.configurations)
        self.held_seconds = 0.0  # of all launches before this one
        self._told_regime: Entered | None = None
        self._told_productive = 0.0
        self._told_held = 0.0
        self._reports: ReportReader | None = None
        self._reports_of = 0  # generation

    @property
    def running(self) -> bool:
        """Whether the scheduler believes that it runs."""
        return (self.gang is not None or self.refused is not None) and self.stop_asked is None

    def begin(self, generation: int, known: Known | None, held_before: float | None = None) -> None:
        """A launch begins, or is found again; ``known`` is what the scheduler knows.

        ``held_before`` is how long all launches before this one held their GPUs; without it,
        what the scheduler knows is taken for that.
        """
        self.confirmed, self.note = False, ""
        if known is not None:
            self._told_productive = known.productive_seconds
            self._told_held = known.held_seconds
            self.confirmed = known.confirmed
            if known.epochs_done or known.regime_epoch:  # else not even the first was told
                self._told_regime = Entered(int(known.regime_epoch), known.configuration)
        self.held_seconds = self._told_held if held_before is None else held_before
        self.read()
        for older in self.folder.reported_generations():
            if self._reports_of < older < generation:
                self._follow(older)
        self._follow(generation)
        self.stop_asked = None
        self.refused = None
        self.idle_since = None

    def read(self) -> None:
        """Takes in what the job reported since the last time."""
        if self._reports is not None:
            for report in self._reports.new():
                self.ledger.add(report)

    def regime_news(self) -> list[Entered]:
        news = self.ledger.regimes_after(self._told_regime)
        if news:
            self._told_regime = news[-1]
        return news

    def row(self, now: float) -> ProgressRow:
        """Progress since the last row."""
        held, restart = self.held_seconds, math.nan
        if self.gang is not None:
            held += max(now - self.gang.launched, 0.0)
            restart = max(self.ledger.trains_since - self.gang.launched, 0.0)  # nan stays nan
        productive = self.ledger.productive_seconds
        row = ProgressRow(
            handle=self.handle,
            epochs_done=float(min(self.ledger.epochs_done, self.spec.epochs)),
            configuration=self._configuration_index(),
            epoch_seconds=self.ledger.epoch_seconds,
            productive_seconds=productive - self._told_productive,
            held_seconds=max(held - self._told_held, 0.0),
            restart_seconds=restart,
            unsaved_seconds=self.ledger.unsaved_seconds(now),
            silent_seconds=max(now - self.ledger.heard, 0.0),  # nan stays nan
        )
        self._told_productive = productive
        self._told_held = max(held, self._told_held)
        return row

    def last_row(self, ended: float, ending: Ending) -> ProgressRow:
        """Of a launch. One that has done all its epochs was silent, as for work, since the last."""
        row = self.row(ended)
        if ending.outcome is not Outcome.FINISHED or math.isnan(self.ledger.worked_until):
            return row
        return row._replace(silent_seconds=max(ended - self.ledger.worked_until, 0.0))

    def close(self, ending: Ending) -> None:
        """The launch is over: what was not saved is lost."""
        finished = ending.outcome is Outcome.FINISHED
        if not (finished or ending.clean or self.ledger.last_event == "stopped"):
            self.ledger.fall_back(self.folder.saved_epochs())

    def exclusive_seconds(self, ended: float) -> float:
        """What its epochs took; the last launch as a whole for a job that reports nothing."""
        measured = self.ledger.productive_seconds
        if measured > 0 or self.gang is None:
            return measured
        return max(ended - self.gang.launched, 0.0)

    def _follow(self, generation: int) -> None:
        self._reports = ReportReader(self.folder.reports(generation))
        self._reports_of = generation
        self.ledger.begin_launch()
        self.read()

    def _configuration_index(self) -> int:
        configuration = self.ledger.configuration
        if configuration is None and self._told_regime is not None:
            configuration = self._told_regime.configuration
        return 0 if configuration is None else self.spec.configurations.index(configuration)

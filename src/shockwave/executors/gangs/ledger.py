"""What a job has achieved, folded from the reports of all its launches.

An epoch counts once. A launch that restores an older state undoes the epochs beyond it, and
the regimes that were entered after it.
"""

from __future__ import annotations

import logging
import math
import statistics
from dataclasses import dataclass

from shockwave.protocol.reports import REMARKS, Report

logger = logging.getLogger(__name__)

_RECENT_EPOCHS = 5


@dataclass(frozen=True, slots=True)
class Entered:
    """The job entered ``configuration`` after ``epoch`` epochs, at ``time`` unix seconds."""

    epoch: int
    configuration: int
    time: float = 0.0


class Ledger:
    """Epochs that count, what they took, and the regimes they were in."""

    def __init__(self, configurations: tuple[int, ...]) -> None:
        self.epochs_done = 0
        self.regimes: list[Entered] = []
        self.last_event: str | None = None  # of the present launch, other than "saved"
        self.trains_since = math.nan  # when the present launch had started up, unix seconds
        self.heard = math.nan  # when the present launch last said anything, unix seconds
        self.worked_until = math.nan  # when its last epoch was done, unix seconds
        self._last_time = 0.0
        self._configurations = configurations
        self._epochs: list[tuple[int, float]] = []  # epochs done then, seconds it took
        self._has_saved = False
        self._saved_until = math.nan  # unix seconds; what was trained after it is not saved
        self._limit: int | None = None  # epochs beyond it are lost unless a restore finds them
        self._undeclared: set[int] = set()

    @property
    def productive_seconds(self) -> float:
        limit = math.inf if self._limit is None else self._limit
        return sum(seconds for epoch, seconds in self._epochs if epoch <= limit)

    @property
    def configuration(self) -> int | None:
        return self.regimes[-1].configuration if self.regimes else None

    @property
    def epoch_seconds(self) -> float:
        """Seconds per epoch in the present configuration: the median of the last few; or nan."""
        begin = self.regimes[-1].epoch if self.regimes else 0
        recent = []
        for (before, _), (epoch, seconds) in zip(
            [(begin, 0.0), *self._epochs], self._epochs, strict=False
        ):
            if epoch > begin:
                recent.append(seconds / (epoch - max(before, begin)))
        return statistics.median(recent[-_RECENT_EPOCHS:]) if recent else math.nan

    def begin_launch(self) -> None:
        """Reports from here on are of a new launch."""
        self.last_event = None
        self.trains_since = self._saved_until = self.heard = math.nan

    def add(self, report: Report) -> None:
        self.heard = report.time
        if report.event in REMARKS:
            return
        self._last_time = report.time
        if report.event == "saved":
            self._has_saved = True
            self._saved_until = report.time
            return
        self.last_event = report.event
        if math.isnan(self.trains_since):  # the first line, whatever it is
            self.trains_since = self._saved_until = report.time - (report.seconds or 0.0)
        if report.event in ("started", "epoch"):
            self._limit = None
        if report.event == "started":
            self._keep_up_to(report.epoch)
            self._enter(report.epoch, report)
            self.epochs_done = report.epoch
        elif report.event == "regime":
            self._enter(report.epoch, report)
        elif report.event == "epoch":
            self._keep_up_to(report.epoch - 1)
            before = min(self.epochs_done, max(report.epoch - 1, 0))
            self._enter(before if self.regimes else 0, report)
            self._epochs.append((report.epoch, report.seconds or 0.0))
            self.worked_until = report.time
            self.epochs_done = report.epoch

    def unsaved_seconds(self, now: float) -> float:
        """Work of the present launch that a crash would undo; nan if it never saved any."""
        if not self._has_saved:
            return math.nan
        return 0.0 if math.isnan(self._saved_until) else max(now - self._saved_until, 0.0)

    def fall_back(self, epochs: int) -> None:
        """The launch is gone without a word; only ``epochs`` epochs are known to be saved."""
        self._limit = epochs
        self.epochs_done = min(self.epochs_done, epochs)

    def regimes_after(self, told: Entered | None) -> list[Entered]:
        """The regimes that are news to somebody who was told of ``told`` last."""
        if told is None:
            return list(self.regimes)
        news = [
            regime
            for regime in self.regimes
            if regime.epoch > told.epoch
            or (regime.epoch == told.epoch and regime.configuration != told.configuration)
        ]
        if not news and self.regimes and self.regimes[-1].configuration != told.configuration:
            # A restore went back behind the change that was told.
            last = self.regimes[-1]
            epoch = max(last.epoch, min(told.epoch, self.epochs_done))
            news.append(Entered(epoch, last.configuration, self._last_time))
        return news

    def _keep_up_to(self, epoch: int) -> None:
        while self._epochs and self._epochs[-1][0] > epoch:
            self._epochs.pop()
        while self.regimes and self.regimes[-1].epoch > max(epoch, 0):
            self.regimes.pop()

    def _enter(self, epoch: int, report: Report) -> None:
        configuration = report.configuration
        if configuration is None:
            return
        if configuration not in self._configurations:
            if configuration not in self._undeclared:
                self._undeclared.add(configuration)
                logger.warning(
                    "a job reports configuration %s, which it did not declare (%s)",
                    configuration,
                    self._configurations,
                )
            return
        if configuration == self.configuration:
            return
        while self.regimes and self.regimes[-1].epoch >= epoch:
            self.regimes.pop()
        if configuration != self.configuration:
            self.regimes.append(Entered(epoch, configuration, report.time))

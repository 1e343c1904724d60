"""How far jobs are on their timelines: the true regimes of a trace, and the work done of them.

Work is exclusive seconds. Regimes change at epoch boundaries. A job of which the speeds with every
option are known has a timeline for each. When it starts with another option, the epochs that it
has done are looked up in the new timeline. It tells its speed as soon as it has worked for half a
minute, or an epoch if that is shorter.
"""

from __future__ import annotations

import math

import numpy as np

from shockwave.model.events import Event, JobFinished, RegimeChanged
from shockwave.model.job import Regime, TraceJob
from shockwave.model.options import Option
from shockwave.model.view import Bools, Floats, Ints

_TINY = 1e-7  # seconds; what is left of a job after rounding is not left
_PART = 1e-9  # of an epoch; the same for epochs
_TO_MEASURE_SECONDS = 30.0  # that a job works until it can tell how fast its steps are


class Timelines:
    """A row for each handle. It does not know what time it is, who runs, or what was told."""

    def __init__(self, count: int) -> None:
        self._jobs: list[TraceJob | None] = [None] * count
        self._regime = np.zeros(count, dtype=np.int64)
        self.configuration = np.zeros(count, dtype=np.int64)
        self.work = np.zeros(count)  # exclusive seconds done
        self.total = np.zeros(count)
        self.regime_start = np.zeros(count)  # exclusive seconds
        self.regime_end = np.zeros(count)
        self.regime_epoch = np.zeros(count)  # epochs done when the regime began
        self.epoch_seconds = np.ones(count)
        self._surprising = np.zeros(count, dtype=np.bool_)  # speed is not what was declared
        # Of jobs with options.
        self._of_option: dict[int, tuple[Regime, ...]] = {}
        self._options: dict[int, Option | None] = {}
        self._has_options = np.zeros(count, dtype=np.bool_)
        self._began_at = np.zeros(count)  # work done, by this timeline, when the option was new
        self._spent = np.zeros(count)  # productive seconds with other options before

    # Who is on them.

    def begin(self, handle: int, job: TraceJob, option: Option | None) -> None:
        self._jobs[handle] = job
        self.total[handle] = job.exclusive_seconds
        self._options[handle] = option
        if option is not None and job.speeds is not None:
            self._set_option(handle, job, option)

    def has_begun(self, handle: int) -> bool:
        return self._jobs[handle] is not None

    def job(self, handle: int) -> TraceJob:
        job = self._jobs[handle]
        assert job is not None  # launched before it runs
        return job

    def option(self, handle: int) -> Option | None:
        return self._options[handle]

    @property
    def any_options(self) -> bool:
        return bool(self._of_option)

    def _set_option(self, handle: int, job: TraceJob, option: Option | None) -> None:
        self._of_option[handle] = job.timeline(option)
        self.total[handle] = sum(regime.seconds for regime in self._of_option[handle])
        self._has_options[handle] = True

    def _regimes(self, handle: int) -> tuple[Regime, ...]:
        return self._of_option.get(handle, self.job(handle).regimes)

    # Where they are.

    def go_on(self, handle: int, epochs: float) -> None:
        """A job that has just begun has done so many epochs already."""
        self._seek(handle, epochs)
        if self._has_options[handle]:
            self._began_at[handle] = self._spent[handle] = self.work[handle]

    def switch(self, handle: int, option: Option | None) -> bool:
        """From one timeline to another, with as many epochs done. False if there is but one."""
        self._options[handle] = option
        job = self.job(handle)
        if job.speeds is None:
            return False
        self._spent[handle] += self.work[handle] - self._began_at[handle]
        inside = (self.work[handle] - self.regime_start[handle]) / self.epoch_seconds[handle]
        epochs = float(self.regime_epoch[handle] + inside)
        self._set_option(handle, job, option)
        self._seek(handle, epochs)
        self._began_at[handle] = self.work[handle]
        return True

    def fall_back(self, handle: int) -> float:
        """To the last whole epoch; returns how many epochs are done then."""
        seconds = self.epoch_seconds[handle]
        start = self.regime_start[handle]
        whole = math.floor((self.work[handle] - start) / seconds + _PART)
        self.work[handle] = start + whole * seconds
        return float(self.regime_epoch[handle] + whole)

    def _seek(self, handle: int, epochs: float) -> None:
        """Puts a job where it has done so many epochs of its timeline."""
        self.regime_start[handle] = self.regime_epoch[handle] = 0.0
        self._enter(handle, 0)
        regimes = self._regimes(handle)
        while self._regime[handle] + 1 < len(regimes):
            left = self.regime_epoch[handle] + regimes[self._regime[handle]].epochs
            if epochs < left - _PART:
                break
            self._enter(handle, int(self._regime[handle]) + 1)
        inside = max(epochs - self.regime_epoch[handle], 0.0)
        self.work[handle] = self.regime_start[handle] + inside * self.epoch_seconds[handle]

    def _enter(self, handle: int, index: int) -> None:
        job = self.job(handle)
        regimes = self._regimes(handle)
        regime = regimes[index]
        if index:
            previous = regimes[index - 1]
            self.regime_start[handle] += previous.seconds
            self.regime_epoch[handle] += previous.epochs
        self._regime[handle] = index
        self.regime_end[handle] = self.regime_start[handle] + regime.seconds
        self.epoch_seconds[handle] = regime.epoch_seconds
        configuration = job.spec.configurations.index(regime.configuration)
        self.configuration[handle] = configuration
        self._surprising[handle] = job.spec.epoch_seconds[configuration] != regime.epoch_seconds

    # How they get on.

    def advance(self, rows: Ints, work: Floats) -> tuple[Bools, Ints]:
        """Jobs have done so much ``work`` by now, or all of theirs if that is less.

        Returns which have ended, and the positions of those to :meth:`cross` with.
        """
        self.work[rows] = np.minimum(work, self.total[rows])
        ended = work >= self.total[rows] - _TINY
        return ended, np.flatnonzero((work >= self.regime_end[rows] - _TINY) | ended)

    def cross(self, handle: int, work: float, began: float, ended: bool) -> list[Event]:
        """Regime changes and the end of one job; ``began`` + work done = the time of it."""
        job = self.job(handle)
        events: list[Event] = []
        regimes = self._regimes(handle)
        while self._regime[handle] + 1 < len(regimes) and (
            ended or work >= self.regime_end[handle] - _TINY
        ):
            time = began + float(self.regime_end[handle])
            before = self.configuration[handle]
            self._enter(handle, int(self._regime[handle]) + 1)
            # What rounding left of the regime is done, or a crash would fall back behind it.
            self.work[handle] = max(self.work[handle], self.regime_start[handle])
            if self.configuration[handle] != before:
                events.append(self.present_regime(handle, time))
        if ended:
            total = float(self.total[handle])
            self.work[handle] = total
            spent = float(self._spent[handle]) + (total - float(self._began_at[handle]))
            events.append(JobFinished(began + total, job.spec.id, spent, _alone_seconds(job)))
        return events

    # What can be told of them.

    def present_regime(self, handle: int, time: float) -> RegimeChanged:
        job = self.job(handle)
        configuration = job.spec.configurations[self.configuration[handle]]
        return RegimeChanged(time, job.spec.id, int(self.regime_epoch[handle]), configuration)

    def epochs_in_regime(self, rows: Ints) -> Floats:
        return (self.work[rows] - self.regime_start[rows]) / self.epoch_seconds[rows]

    def knows_speed(self, rows: Ints) -> Bools:
        """[row] whether the job has worked long enough to tell how fast it is."""
        known = self.epochs_in_regime(rows) >= 1.0 - _PART
        if self._of_option:
            measured = np.isinf(self._next_measurement(rows))
            known = np.where(self._has_options[rows], measured, known)
        return known

    def next_news(self, rows: Ints) -> Floats:
        """[row] the work after which there is something new to tell of the job."""
        news = np.minimum(self.regime_end[rows], self.total[rows])
        # The first epoch of a regime measures its speed: news, unless it was declared.
        to_measure = self._surprising[rows] & (self.epochs_in_regime(rows) < 1.0 - _PART)
        measured = self.regime_start[rows] + self.epoch_seconds[rows]
        news = np.where(to_measure, np.minimum(news, measured), news)
        return np.minimum(news, self._next_measurement(rows)) if self._of_option else news

    def _next_measurement(self, rows: Ints) -> Floats:
        """[row] the work after which its speed is known; infinite if it is known already."""
        known_at = self._began_at[rows] + np.minimum(_TO_MEASURE_SECONDS, self.epoch_seconds[rows])
        waits = self._has_options[rows] & (self.work[rows] < known_at - _TINY)
        return np.where(waits, known_at, np.inf)


def _alone_seconds(job: TraceJob) -> tuple[tuple[str, int, float], ...]:
    """What the whole job takes with every option that it could use, or be given as its request."""
    if job.speeds is None:
        return ()
    counts = sorted({job.spec.gpus, *job.spec.gpu_counts})
    return tuple(
        (gpu_type, gpus, math.fsum(job.speeds.epoch_seconds(gpu_type, gpus)))
        for gpu_type in job.spec.gpu_types or job.speeds.types
        if gpu_type in job.speeds.by_type
        for gpus in counts
    )

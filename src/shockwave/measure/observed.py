"""A job of a live run, as its journal tells of it: its regimes, and how long its epochs took."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from shockwave.model.job import JobSpec, Preemptible, Regime
from shockwave.model.options import Option
from shockwave.model.speeds import Speeds
from shockwave.model.view import Floats

_UNKNOWN_EPOCH_SECONDS = 1.0  # of a job of which nothing was ever measured
_LOOKS_DIFFER_SECONDS = 0.02  # between a run and its replay
_SAME = 1e-9  # relative; what sums differ by when they are the same


@dataclass
class Launched:
    """Seconds of a launch so far; ``start`` is nan before it is over.

    Any but the first may go on within an epoch.
    """

    first: bool
    held: float = 0.0
    productive: float = 0.0
    start: float = math.nan


@dataclass
class ObservedJob:
    """What a journal says about one job."""

    spec: JobSpec
    regimes: list[tuple[int, int]] = field(default_factory=list)  # (epoch, configuration)
    measured: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    passed: dict[int, list[tuple[float, float]]] = field(default_factory=dict)  # between regimes
    epochs_done: float = 0.0
    exclusive_seconds: float | None = None  # of a finished job
    given_up: tuple[float, str] | None = None
    option: Option | None = None  # that it held last
    measured_with: dict[Option, list[tuple[float, float]]] = field(default_factory=dict)
    alone: dict[Option, float] = field(default_factory=dict)  # all epochs, where that is known
    saves: bool = False  # whether it ever told of a checkpoint
    entered: tuple[int, float] | None = None  # epoch and time of the regime; in this launch
    stretches: list[tuple[float, float, float]] = field(default_factory=list)  # see _stretched
    leaving: bool = False
    under_way: dict[int, float] = field(default_factory=dict)  # see _stretched
    told: dict[int, float] = field(default_factory=dict)  # seconds an epoch, by epochs done
    launch: Launched | None = None  # the present one, while it can be followed

    def start(self, attempt: int, option: Option | None) -> None:
        """It is launched. What is told of it next may still be of the launch before, if any."""
        self.entered = None
        self.option = option or self.option
        self.launch = None if self.leaving else Launched(attempt == 1)
        self.leaving = False

    def stop(self, epochs_done: float, *, ordered: bool) -> None:
        """What it held until it had left is still to be told, if it was ``ordered`` to stop."""
        self.epochs_done = epochs_done
        self.entered = self.launch = None
        self.leaving = ordered

    def enter(self, epoch: int, configuration: int, time: float | None) -> None:
        """A crash may have taken the job back behind regimes that it had entered.

        What a regime took that began and ended in one launch is measured, given its ``time``.
        """
        if self.entered is not None and time is not None and self.regimes:
            begin, since = self.entered
            if epoch > begin:
                values = self.passed.setdefault(self.regimes[-1][1], [])
                values.append(((time - since) / (epoch - begin), float(epoch - begin)))
        self.entered = None if time is None else (epoch, time)
        self.regimes = [item for item in self.regimes if item[0] < epoch]
        if not self.regimes or self.regimes[-1][1] != configuration:
            self.regimes.append((epoch, configuration))

    def progress(
        self, epochs_done: float, index: int, epoch_seconds: float, productive_seconds: float
    ) -> None:
        done = epochs_done - self.epochs_done
        self.stretches.append((self.epochs_done, epochs_done, productive_seconds))
        self.epochs_done = epochs_done
        if not math.isnan(epoch_seconds):
            self.told[int(epochs_done)] = epoch_seconds
            values = self.measured.setdefault(self.spec.configurations[index], [])
            values.append((epoch_seconds, max(done, 0.0)))
            if self.option is not None:
                with_it = self.measured_with.setdefault(self.option, [])
                with_it.append((epoch_seconds, max(done, 0.0)))

    def held(self, seconds: float, productive_seconds: float, start_seconds: float) -> None:
        """Of its GPUs, since this was last told; and so how far the epoch under way has come."""
        self.leaving = False
        if self.launch is None:
            return
        self.launch.held += seconds
        self.launch.productive += productive_seconds
        self.launch.start = start_seconds
        passed = self.launch.held - start_seconds - self.launch.productive
        least = -_LOOKS_DIFFER_SECONDS if self.launch.first else _LOOKS_DIFFER_SECONDS
        if passed > least:  # nan, while it starts, is not
            self.under_way[int(self.epochs_done)] = passed

    def epoch_seconds(self, configuration: int) -> float:
        """Measured, each measurement weighted by the epochs it stands for; else declared.

        A regime may pass before anybody asks how long its epochs take.
        """
        values = self.measured.get(configuration) or self.passed.get(configuration)
        if not values:
            return self.spec.epoch_seconds[self.spec.configurations.index(configuration)]
        return _mean(values)

    def speeds(self, types: Iterable[str]) -> Speeds | None:
        """With every option that it was measured with, or that the journal tells the times of.

        Every epoch is slower or faster by the same factor. A type that it never ran on is taken
        for one on which it did.
        """
        truth = self.truth()
        total = sum(regime.seconds for regime in truth)
        factors = {option: seconds / total for option, seconds in self.alone.items()}
        if not factors and self.measured_with:
            usual = _mean([entry for found in self.measured_with.values() for entry in found])
            factors = {option: _mean(found) / usual for option, found in self.measured_with.items()}
        by_type: dict[str, dict[int, tuple[float, ...]]] = {}
        for option, factor in factors.items():
            times = tuple(r.epoch_seconds * factor for r in truth for _ in range(r.epochs))
            by_type.setdefault(option.gpu_type, {})[option.gpus] = times
        if not by_type:
            return None
        first = next(iter(by_type.values()))
        return Speeds({**dict.fromkeys(types, first), **by_type})

    def spec_to_simulate(self) -> JobSpec:
        """Simulated jobs save whenever an epoch is over; one that never did must not be stopped."""
        if not self.saves and self.spec.preemptible is Preemptible.WHEN_SAVED:
            return replace(self.spec, preemptible=Preemptible.NEVER)
        return self.spec

    def truth(self) -> tuple[Regime, ...]:
        """Its regimes, with epoch times that add up to what the job took as a whole.

        A job that did not end is assumed to have gone on as it was.
        """
        regimes = self._usual()
        if len(self.measured_with) > 1 or not all(
            begin == int(begin) and end == int(end) for begin, end, _ in self.stretches
        ):
            return regimes  # measured with several options, or in parts of epochs
        whole = (0, self.spec.epochs, self.exclusive_seconds or 0.0)
        known = {*self.measured, *self.passed}
        return _stretched(regimes, [*self.stretches, whole], known, self.under_way)

    def _usual(self) -> tuple[Regime, ...]:
        """Its regimes, each with the time that an epoch of it usually took."""
        entered = self.regimes or [(0, self.spec.configurations[0])]
        ends = [epoch for epoch, _ in entered[1:]] + [self.spec.epochs]
        lengths = [max(end - begin, 0) for (begin, _), end in zip(entered, ends, strict=True)]
        seconds = np.array([self.epoch_seconds(configuration) for _, configuration in entered])
        epochs = np.array(lengths, dtype=np.float64)
        seconds = _completed(seconds, epochs, self.exclusive_seconds)
        return tuple(
            Regime(configuration, length, float(each))
            for (_, configuration), length, each in zip(entered, lengths, seconds, strict=True)
            if length > 0
        )


def _stretched(
    regimes: tuple[Regime, ...],
    stretches: Iterable[tuple[float, float, float]],
    measured: Container[int],
    under_way: Mapping[int, float],
) -> tuple[Regime, ...]:
    """Epochs as fast as they were: from ``begin`` to ``end`` took so many seconds, in each stretch.

    In a stretch, epochs in configurations that were never ``measured`` by themselves took what
    the others leave; and the first took longer than it had been ``under_way`` when the stretch
    began, which is hardly at all if the one before was only just done. What was done anew after a
    crash counts as it was at the last time.
    """
    configurations = [regime.configuration for regime in regimes for _ in range(regime.epochs)]
    times = np.repeat([r.epoch_seconds for r in regimes], [r.epochs for r in regimes])
    known = np.array([configuration in measured for configuration in configurations])
    for begin, end, seconds in stretches:
        part = slice(int(begin), int(end))
        if seconds <= 0 or len(times[part]) != end - begin or end <= begin:
            continue
        left = seconds - float(times[part][known[part]].sum())
        if math.isclose(float(times[part].sum()), seconds, rel_tol=_SAME):
            pass
        elif known[part].all() or left <= 0:
            times[part] *= seconds / times[part].sum()
        else:
            guessed = part.start + np.flatnonzero(~known[part])
            times[guessed] *= left / times[guessed].sum()
        first, later = part.start, slice(part.start + 1, part.stop)
        least = under_way.get(first, 0.0) + _LOOKS_DIFFER_SECONDS
        if len(times[later]) and times[first] < least < seconds:
            times[first] = least
            times[later] *= (seconds - least) / times[later].sum()
    for epochs, passed in under_way.items():
        early = _LOOKS_DIFFER_SECONDS - passed
        if 0 < epochs < len(times) and 0.0 < early < times[epochs - 1]:
            times[epochs - 1] -= early  # it was done just before the look
            times[epochs] += early
    found: list[Regime] = []
    for configuration, each in zip(configurations, times.tolist(), strict=True):
        last = found[-1] if found else None
        if last is not None and (last.configuration, last.epoch_seconds) == (configuration, each):
            found[-1] = replace(last, epochs=last.epochs + 1)
        else:
            found.append(Regime(configuration, 1, each))
    return tuple(found)


def _mean(values: list[tuple[float, float]]) -> float:
    """The mean of measurements, each weighted by the epochs it stands for."""
    seconds, weights = np.array(values).T
    return float(np.average(seconds, weights=weights if weights.sum() > 0 else None))


def _completed(seconds: Floats, epochs: Floats, total: float | None) -> Floats:
    """Epoch times without gaps that add up to ``total`` seconds, where that is known."""
    known = ~np.isnan(seconds)
    if total is None:
        typical = float(np.mean(seconds[known])) if known.any() else _UNKNOWN_EPOCH_SECONDS
        return np.where(known, seconds, typical)
    left = total - float(np.dot(seconds[known], epochs[known]))
    gap = float(epochs[~known].sum())
    filled = np.where(known, seconds, left / gap if gap and left > 0 else total / epochs.sum())
    summed = float(np.dot(filled, epochs))
    if summed <= 0 or total <= 0:
        return np.full(len(seconds), max(total, _SAME) / epochs.sum())
    return filled if math.isclose(summed, total, rel_tol=_SAME) else filled * (total / summed)

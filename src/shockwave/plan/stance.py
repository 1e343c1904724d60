"""The index that orders jobs: what a GPU-round is worth to each, for a given stance.

A stance says how much the fair finish, the common end and caution count in this round; which
stance is right depends on the workload, so it is chosen by looking ahead
(:mod:`shockwave.plan.rollout`). There are no classes: every term rises and falls steadily with
the slack that it is about, so that no second more or less turns the order round.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from shockwave.model.view import Bools, Floats, Ints
from shockwave.plan.futures import Futures

# Rollouts compare many rough futures: single precision is enough for them, and twice as fast.
Singles = NDArray[np.float32]

_UNDISTURBED = 1000.0  # what a gang bids that is not to be stopped: more than any other can
_LATEST = 8.0  # fair completion times: however much later, it no longer counts
_DUE = 2.0  # ... by which a job that waits has to starve to go before a reservation that is due


@dataclass(frozen=True)
class Stance:
    """How much each aim counts. 0 switches it off."""

    caution: float  # 0: plan by means, 1: by late cases for the end and early ones for fairness
    end: float  # not to delay the end of the whole
    fair: float  # not to finish later than fair
    prompt: float  # to finish within what a crowded cluster makes of the job's own runtime


STANCES = (
    Stance(0.0, 0.0, 0.0, 0.0),
    Stance(0.0, 0.0, 3.0, 1.0),
    Stance(0.0, 1.0, 3.0, 0.0),
    Stance(0.0, 1.0, 3.0, 1.0),
    Stance(0.5, 1.0, 3.0, 1.0),
    Stance(0.5, 1.0, 10.0, 1.0),
    Stance(1.0, 1.0, 3.0, 0.0),
    Stance(1.0, 1.0, 3.0, 2.0),
    Stance(1.0, 1.0, 10.0, 2.0),
    Stance(1.0, 1.0, 10.0, 5.0),
)


@dataclass(frozen=True)
class IndexSettings:
    """Lengths in rounds, heights in units of the bid of a one-GPU job with one round to go."""

    gang_exponent: float = 0.5  # 0: shortest time first, 1: least GPU-work first
    keep: float = 2.0  # a running job's progress counts this many times
    keep_per_restart: float = 6.0  # ... or 1 and so much per round that a restart takes, if more
    keep_rounds: float = 1.0  # of slack: by so much it presses earlier than one that waits
    fair_rounds: float = 20.0  # slack at which fairness begins to count
    fair_caution: float = 0.75  # at least, whatever the stance
    press_rounds: float = 2.0  # slack below which a job presses with all its weight
    prompt_rounds: float = 12.0  # laxity below which a job that can be prompt is
    pressing: float = 4.0  # the height at which it presses
    give_up: float = 0.05  # share of the fair completion time by which it may be late
    give_up_rounds: float = 5.0  # ... after which it returns to the index within about these
    starving: float = 1.45  # times the completion time in an equally shared cluster; from there on
    starved: float = 16.0  # ... it presses again, so much for each such time that it is later


@dataclass(frozen=True)
class Worth:
    """[stance, sample, job] what a GPU-round is worth, by its parts."""

    progress: Singles
    fairness: Singles
    end: Singles

    @property
    def total(self) -> Singles:
        return self.progress + self.fairness + self.end


@dataclass(frozen=True)
class _Weights:
    """What several stances say, ``[stance, 1, 1]``, or one for each sample, ``[1, sample, 1]``."""

    caution: Singles
    fair_caution: Singles
    end: Singles
    fair: Singles
    pressing: Singles
    prompt: Singles

    @staticmethod
    def of(stances: tuple[Stance, ...], s: IndexSettings) -> _Weights:
        caution = _column([stance.caution for stance in stances])
        return _Weights(
            caution=caution,
            fair_caution=np.maximum(caution, _single(s.fair_caution)),
            end=_column([s.pressing * stance.end for stance in stances]),
            fair=_column([stance.fair for stance in stances]),
            pressing=_column([s.pressing * min(stance.fair, 1.0) for stance in stances]),
            prompt=_column([stance.prompt for stance in stances]),
        )

    def by_sample(self, stances: Ints) -> _Weights:
        return _Weights(
            *(getattr(self, one.name)[stances, 0, 0][None, :, None] for one in fields(self))
        )


class Index:
    """The index of all jobs for several stances at once. All times in rounds inside."""

    def __init__(
        self, futures: Futures, stances: tuple[Stance, ...], settings: IndexSettings
    ) -> None:
        f, s, unit = futures, settings, futures.round_seconds
        self.stances = len(stances)
        self._settings = s
        self._unit = unit
        self._weights = _Weights.of(stances, s)
        self._mean = _single(f.mean / unit)
        self._late = _single(f.late / unit)
        self._early = _single(f.early / unit)
        self._scale = _single(f.weight / f.gpus**s.gang_exponent)
        self._share = _single(f.size / f.mean)
        stop = f.stop / unit
        self._kept = _single(np.maximum(s.keep, 1.0 + s.keep_per_restart * stop))
        self._held = _single(np.maximum(s.keep_rounds, s.keep_per_restart * stop))
        self._last = _single(np.maximum(stop, 1.0))
        self._stays = _single(2.0 * f.stays)  # before any reservation
        self._some_stay = bool(f.stays.any())
        # A finite stand-in for "nothing is promised", so that sums stay numbers.
        stretch = np.minimum(f.fair_stretch, 1e6)
        self._stretch = _single(stretch)
        self._owed = _single((stretch * f.worked - f.elapsed) / unit)
        self._worked = _single(f.worked / unit)
        self._on_time = _single(np.minimum(f.on_time / unit, 1e6))
        self._claim = _single(f.claim)
        self._all_claim = bool((f.claim == 1.0).all())
        self._age = _single(f.elapsed / unit)
        self._per_fair_jct = _single(unit / f.fair_jct)
        self._reserved = _single(f.reserved / unit)
        self._first_reserved = float(self._reserved.min(initial=np.inf))
        self._horizon = f.horizon / unit
        self._newcomers = f.newcomers

    def by_sample(self, stances: Ints) -> Index:
        """An index of one row of samples, each with a stance of its own."""
        rows = copy(self)
        rows.stances = 1
        rows._weights = self._weights.by_sample(stances)
        return rows

    def at(self, seconds: float, executed: Singles, running: Bools) -> Worth:
        """The worth of a round that begins in ``seconds``, for jobs that have run ``executed``.

        ``executed`` is in rounds. Blind to how long a job will really take: the belief about
        the rest is the mean's rest, or half of the late case's once the mean has passed.
        """
        s, w, now = self._settings, self._weights, float(seconds / self._unit)
        late = self._late - executed
        belief = np.maximum(self._mean - executed, 0.5 * late)
        np.maximum(belief, 0.25, out=belief)
        early = np.maximum(self._early - executed, 0.25 * belief)

        careful = belief - w.fair_caution * (belief - early)
        stretch, owed, horizon = self._promised(seconds)
        fair_jct = stretch * (executed + careful)
        slack = fair_jct - careful
        slack += owed - now
        fair_jct += stretch * self._worked
        laxity = (self._on_time - now) - belief
        over = np.maximum(late - belief, 0.0)
        end_slack = (horizon - now) - belief - w.caution * over

        soft = np.maximum(slack, -8.0 * slack)
        soft /= s.fair_rounds
        soft += 1.0
        soft = w.fair / np.square(soft, out=soft)
        prompt = _ramp(laxity)
        prompt *= _ramp(0.5 * (s.prompt_rounds - laxity))
        progress = self._scale / np.maximum(belief * self._share, 0.1)
        progress *= np.where(running, self._kept, np.float32(1.0))
        hopeless = np.maximum(-slack - s.give_up * fair_jct, 0.0)
        hopeless /= s.give_up_rounds
        np.square(hopeless, out=hopeless)
        hopeless += 1.0
        held = self._held * running
        pressed = w.pressing * self._pressed(slack - held)
        pressed /= hopeless
        gain = w.prompt * prompt
        gain *= 1.0 + soft
        gain += soft
        fairness = progress * gain
        fairness += pressed
        fairness += s.starved * self._starving(now + belief, running)
        if not self._all_claim:
            fairness *= self._claim
        # A reservation that is due yields to those who starve, until its gang runs.
        if self._first_reserved <= now or self._some_stay:
            due = self._reserved <= now
            fairness += _DUE * s.starved * due + _UNDISTURBED * ((due & running) + self._stays)
        # Work that ends within the round, or before it could go on elsewhere, is not taken away.
        ending = running & (belief <= self._last)
        progress += np.float32(4.0 * s.pressing) * ending
        end = w.end * self._pressed(end_slack - held)
        if not self._all_claim:
            end *= self._claim
        return Worth(progress, fairness, end)

    def _promised(self, seconds: float) -> tuple[Singles, Singles, Singles | float]:
        """What is fair to each job, what it has of that already, and when all should have ended."""
        if self._newcomers is None:
            return self._stretch, self._owed, self._horizon
        jobs_per_gpu = _single(self._newcomers.jobs_per_gpu(seconds))[:, None]
        stretch = np.minimum(self._stretch, _single(self._newcomers.fair_stretch) * jobs_per_gpu)
        later = _single(self._newcomers.later_end(seconds) / self._unit)[:, None]
        return stretch, stretch * self._worked - self._age, self._horizon + later

    def _starving(self, finish: Singles, running: Bools) -> Singles:
        """How many fair completion times too late a job will be, beyond what all may be.

        ``finish`` is in how many rounds it could end. It ends one later if it is passed over now,
        and after that it is too late to press: where rounds are as long as jobs, each of them
        counts. Counted twice for a running job: of two who starve, none is stopped for the other
        before that one is twice as late.
        """
        late = self._age + finish
        late += 1.0
        late *= self._per_fair_jct
        late -= np.float32(self._settings.starving)
        np.minimum(np.maximum(late, 0.0, out=late), np.float32(_LATEST), out=late)
        late *= np.where(running, np.float32(2.0), np.float32(1.0))
        return late

    def _pressed(self, slack: Singles) -> Singles:
        """From 0 to 1 as the slack runs out, and on from there: the less slack, the more."""
        begins = _ramp((self._settings.press_rounds + 1.5 - slack) / 3.0)
        height = 1.0 - slack / 30.0
        begins *= np.minimum(np.maximum(height, 0.5, out=height), 4.0, out=height)
        return begins


def _ramp(value: Singles) -> Singles:
    """0 below 0, 1 above 1, and straight in between."""
    above = np.maximum(value, 0.0)
    return np.asarray(np.minimum(above, 1.0, out=above))


def _single(value: Floats | Singles | float) -> Singles:
    return np.asarray(value, dtype=np.float32)


def _column(values: list[float]) -> Singles:
    return np.array(values, dtype=np.float32)[:, None, None]

"""A week of a cluster for people who do not schedule: how full, how long to wait, who got what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from shockwave.measure.fairness import UNFAIR_ABOVE, finish_time_fairness
from shockwave.measure.fold import fold_history
from shockwave.measure.history import RunHistory
from shockwave.measure.tenants import due_between
from shockwave.model.errors import InputError
from shockwave.model.events import Event
from shockwave.model.view import Bools, Floats

DAY_SECONDS = 86_400.0
WEEK_SECONDS = 7 * DAY_SECONDS


@dataclass(frozen=True, slots=True)
class Share:
    """What one person or tenant had. Means are None where there is no such job."""

    name: str
    gpu_hours: float
    submitted: int
    finished: int
    mean_wait_seconds: float | None  # until the first start, of jobs that began to run
    mean_ftf: float | None  # finish-time fairness by themis, of jobs that finished


@dataclass(frozen=True, slots=True)
class Day:
    """A day of the week; None where there is nothing to say."""

    begin: float
    use: float | None
    mean_wait_seconds: float | None  # of jobs that began to run on it
    finished: int


@dataclass(frozen=True)
class Week:
    """The last seven days of a journal, or all of it if it is shorter."""

    begin: float  # seconds since the run began
    end: float
    gpus: int
    use: float | None  # GPU-seconds held over those that there were
    days: tuple[Day, ...]
    total: Share
    people: tuple[Share, ...]
    tenants: tuple[Share, ...]
    due: Mapping[str, float]  # GPU hours that were due to tenants, where somebody declared any
    unfair: float | None  # share of the finished jobs with a fairness above 1.05
    history: RunHistory  # of the whole journal


def week_of(events: Iterable[Event]) -> Week:
    """Raises :class:`InputError` if there was no job."""
    history = fold_history(events)
    if not len(history.jobs):
        raise InputError("no job in this journal", hint="Report on a longer run")
    begin, end = max(history.horizon_seconds - WEEK_SECONDS, 0.0), history.horizon_seconds
    held = _held(history, begin, end)
    starts = np.arange(begin, max(end, begin + 1.0), DAY_SECONDS)
    days = tuple(_day(history, float(day), min(float(day) + DAY_SECONDS, end)) for day in starts)
    ftf = finish_time_fairness(history, "themis")
    done = _within(history.jobs.finish, begin, end) & ~np.isnan(ftf)
    people = np.array([owner or "-" for owner in history.jobs.owner])
    everybody = np.ones(len(history.jobs), dtype=np.bool_)
    return Week(
        begin,
        end,
        history.gpus,
        _use(history, begin, end),
        days,
        _share("all", history, everybody, held, ftf, begin, end),
        _shares(people, history, held, ftf, begin, end),
        _shares(np.array(history.jobs.tenant), history, held, ftf, begin, end),
        {name: seconds / 3600.0 for name, seconds in due_between(history, begin, end).items()},
        float((ftf[done] > UNFAIR_ABOVE).mean()) if done.any() else None,
        history,
    )


def fairness_of(week: Week, definition: str) -> Floats:
    """Finish-time fairness, by one definition, of the jobs that finished in the week."""
    values = finish_time_fairness(week.history, definition)
    return values[_within(week.history.jobs.finish, week.begin, week.end) & ~np.isnan(values)]


def _day(history: RunHistory, begin: float, end: float) -> Day:
    jobs = history.jobs
    waits = (jobs.first_start - jobs.arrival)[_within(jobs.first_start, begin, end)]
    return Day(
        begin,
        _use(history, begin, end),
        float(waits.mean()) if len(waits) else None,
        int(_within(jobs.finish, begin, end).sum()),
    )


def _within(times: Floats, begin: float, end: float) -> Bools:
    return np.asarray((times >= begin) & (times <= end))


def _overlap(history: RunHistory, begin: float, end: float) -> Floats:
    """[lease] GPU-seconds of it within the time."""
    leases = history.leases
    seconds = np.minimum(leases.stop, end) - np.maximum(leases.start, begin)
    return np.asarray(leases.gpus * np.maximum(seconds, 0.0))


def _held(history: RunHistory, begin: float, end: float) -> Floats:
    """[job] GPU-seconds that it held within the time."""
    gpu_seconds = _overlap(history, begin, end)
    held = np.bincount(history.leases.job, weights=gpu_seconds, minlength=len(history.jobs))
    return np.asarray(held, dtype=np.float64)


def _use(history: RunHistory, begin: float, end: float) -> float | None:
    there_were = history.available_gpu_seconds(end) - history.available_gpu_seconds(begin)
    return float(_overlap(history, begin, end).sum()) / there_were if there_were > 0 else None


def _shares(
    names: np.ndarray, history: RunHistory, held: Floats, ftf: Floats, begin: float, end: float
) -> tuple[Share, ...]:
    found = (
        _share(str(name), history, names == name, held, ftf, begin, end)
        for name in np.unique(names)
    )
    there = (share for share in found if share.gpu_hours or share.submitted or share.finished)
    return tuple(sorted(there, key=lambda share: -share.gpu_hours))


def _share(
    name: str,
    history: RunHistory,
    mine: Bools,
    held: Floats,
    ftf: Floats,
    begin: float,
    end: float,
) -> Share:
    jobs = history.jobs
    began = mine & _within(jobs.first_start, begin, end)
    done = mine & _within(jobs.finish, begin, end)
    fair = ftf[done & ~np.isnan(ftf)]
    waits = (jobs.first_start - jobs.arrival)[began]
    return Share(
        name,
        float(held[mine].sum()) / 3600.0,
        int((mine & _within(jobs.arrival, begin, end)).sum()),
        int(done.sum()),
        float(waits.mean()) if len(waits) else None,
        float(fair.mean()) if len(fair) else None,
    )

"""A week of a cluster for people who do not schedule: how full, how long to wait, who got what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from shockwave.measure.charts.svg import duration, escape
from shockwave.measure.fairness import UNFAIR_ABOVE, finish_time_fairness
from shockwave.measure.fold import fold_history
from shockwave.measure.history import RunHistory
from shockwave.measure.replay import Replay
from shockwave.measure.report import page, section
from shockwave.model.errors import InputError
from shockwave.model.events import Event, JobChanged, JobSubmitted
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


@dataclass(frozen=True)
class Week:
    """The last seven days of a journal, or all of it if it is shorter."""

    begin: float  # seconds since the run began
    end: float
    gpus: int
    use: float | None  # GPU-seconds held over those that there were
    days: tuple[tuple[float, float | None], ...]  # begin, use
    total: Share
    people: tuple[Share, ...]
    tenants: tuple[Share, ...]
    unfair: float | None  # share of the finished jobs with a fairness above 1.05


def week_of(events: Iterable[Event]) -> Week:
    """Raises :class:`InputError` if there was no job."""
    recorded = list(events)
    history = fold_history(recorded)
    if not len(history.jobs):
        raise InputError("no job in this journal", hint="Report on a longer run")
    owners = {
        event.job.id: event.job.owner
        for event in recorded
        if isinstance(event, JobSubmitted | JobChanged)
    }
    begin, end = max(history.horizon_seconds - WEEK_SECONDS, 0.0), history.horizon_seconds
    held = _held(history, begin, end)
    starts = np.arange(begin, max(end, begin + 1.0), DAY_SECONDS)
    days = tuple((float(day), _use(history, day, min(day + DAY_SECONDS, end))) for day in starts)
    ftf = finish_time_fairness(history, "themis")
    done = _within(history.jobs.finish, begin, end) & ~np.isnan(ftf)
    people = np.array([owners.get(job) or "-" for job in history.jobs.id])
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
        float((ftf[done] > UNFAIR_ABOVE).mean()) if done.any() else None,
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


# How it is told.


def render_week(
    week: Week, title: str, moment: Callable[[float], str], replays: Sequence[Replay] = ()
) -> str:
    """One page that needs nothing but itself; ``moment`` says what day a second was."""
    facts = [
        (_percent(week.use), "of the GPU time was used"),
        (duration(week.total.mean_wait_seconds), "mean wait for GPUs")
        if week.total.mean_wait_seconds is not None
        else ("-", "mean wait for GPUs"),
        (str(week.total.finished), "jobs finished"),
        (f"{week.total.gpu_hours:,.0f}", "GPU hours"),
        (_percent(week.unfair), "of the jobs unfairly late"),
    ]
    items = "".join(f"<li><b>{escape(value)}</b>{escape(name)}</li>" for value, name in facts)
    when = f"{moment(week.begin)} to {moment(week.end)}, {week.gpus} GPUs"
    parts = [
        f'<header><h1>{escape(title)}</h1><p class="caption">{escape(when)}</p>'
        f'<ul class="facts">{items}</ul></header><main>',
        section(
            "use",
            "How full it was",
            "GPU time held by jobs, of that which was there and not held by others.",
            _table(("Day", "used"), [(moment(day), _percent(use)) for day, use in week.days]),
        ),
        section("people", "Who got what", _ABOUT_SHARES, _share_table("Person", week.people)),
        section("tenants", "By tenant", _ABOUT_SHARES, _share_table("Tenant", week.tenants)),
    ]
    if replays:
        parts.append(_others(replays))
    return page(title, "\n".join([*parts, "</main>"]))


_ABOUT_SHARES = (
    "Wait is until a job first ran. Fairness is the time a job took over the time that is fair "
    "by themis: above 1.05 it was treated unfairly."
)


def text_of(week: Week, title: str, moment: Callable[[float], str]) -> str:
    """The same in a few lines, for people who read mail as text."""
    lines = [title, f"{moment(week.begin)} to {moment(week.end)}, {week.gpus} GPUs", ""]
    wait = week.total.mean_wait_seconds
    lines += [
        f"GPU time used: {_percent(week.use)}",
        f"Mean wait:     {'-' if wait is None else duration(wait)}",
        f"Jobs finished: {week.total.finished}",
        f"Unfairly late: {_percent(week.unfair)}",
        "",
    ]
    lines += [f"{share.name}: {share.gpu_hours:,.1f} GPU hours" for share in week.people]
    return "\n".join(lines) + "\n"


def _others(replays: Sequence[Replay]) -> str:
    rows = []
    for one in replays:
        figures = {figure.name: figure for figure in one.figures}
        jct, makespan = figures["mean_jct_seconds"], figures["makespan_seconds"]
        change = jct.relative_difference
        rows.append(
            (
                one.policy,
                duration(jct.live or 0.0),
                duration(jct.simulated or 0.0),
                "-" if change is None else f"{change:+.1%}",
                duration(makespan.simulated or 0.0),
            )
        )
    about = (
        "The jobs of this journal once more in the simulator, as this policy would have scheduled "
        "them: same arrivals, same speeds, same failures. Not what will happen next week."
    )
    head = ("Policy", "mean JCT as it was", "mean JCT then", "difference", "makespan then")
    return section("others", "What another policy would have done", about, _table(head, rows))


def _share_table(what: str, shares: Sequence[Share]) -> str:
    total = sum(share.gpu_hours for share in shares)
    rows = [
        (
            share.name,
            f"{share.gpu_hours:,.1f}",
            _percent(share.gpu_hours / total if total else None),
            str(share.submitted),
            str(share.finished),
            "-" if share.mean_wait_seconds is None else duration(share.mean_wait_seconds),
            "-" if share.mean_ftf is None else f"{share.mean_ftf:.2f}",
        )
        for share in shares
    ]
    head = (what, "GPU hours", "share", "submitted", "finished", "mean wait", "fairness")
    return _table(head, rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    titles = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{titles}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"

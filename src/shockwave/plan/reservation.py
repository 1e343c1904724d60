"""Wide gangs get a time from which they go before all others, and are left alone once they run.

A gang that takes a large part of the cluster finds it free by chance only: there is always a
smaller job that is worth more per GPU. So it is promised a start, early enough for a fair
wait; until then others fill the GPUs, and from then on nobody is ahead of it. In return for
having let others pass it is not stopped. Both hold for gangs that have waited several times as
long as they will run, and the longer beyond the usual they run, the longer: nobody waits for a
wide gang longer than it has waited for others, nor many times as long as jobs usually take. And
they hold only where the others keep up: in a cluster that has more to do than it can, everybody
waits for everybody, and a gang that nobody may stop would turn minutes of waiting into hours. Other
gangs have to find their place in the order like everybody, and are stopped for those who starve.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.model.view import Bools, Floats, View
from shockwave.plan.restarts import start_seconds


@dataclass(frozen=True)
class ReservationRules:
    """Which gangs are wide, and when they may claim the cluster."""

    wide_share: float = 0.5  # of the GPUs; gangs larger than this are wide
    wait_limit: float = 1.45  # of the time that it would wait in an equally shared cluster
    kept_share: float = 1.0 / 3.0  # of the time waited: so long it runs undisturbed at most
    backlog_limit: float = 2.0  # usual job lengths: while others have more work left, it waits


@dataclass(frozen=True)
class Reservations:
    """Seconds from now, one element per job of the view."""

    wide: Bools
    start: Floats  # when the gang goes before all others; infinite for other jobs
    may_start: Bools  # a waiting gang that has let others pass for long enough to start now


def reserve(
    view: View, remaining: Floats, fair_jct: Floats, usual_seconds: float, rules: ReservationRules
) -> Reservations:
    """The promised starts; ``fair_jct`` is the completion time in an equally shared cluster.

    A gang may run undisturbed for a share of what it has waited, and for the geometric mean of
    that and of the ``usual_seconds`` that jobs take.
    """
    wide = view.gpus > rules.wide_share * view.gpus_total
    excess = _backlog(view, remaining, wide) - rules.backlog_limit * usual_seconds
    waited = np.maximum(view.elapsed - view.received_seconds, 0.0)
    kept = np.minimum(rules.kept_share * waited, np.sqrt(usual_seconds * waited))
    credit = kept - view.received_seconds
    waiting = wide & ~view.running
    fair_wait = np.maximum(fair_jct - view.productive_seconds - remaining, 0.0)
    latest = np.maximum(rules.wait_limit * fair_wait - waited, 0.0)
    # With some to spare: a start takes time, and the last round is begun before it ends.
    takes = view.received_seconds + remaining + start_seconds(view) + 2.0 * view.round_seconds
    enough = np.maximum(takes / rules.kept_share, np.square(takes) / usual_seconds)
    earned = np.maximum(enough - waited, 0.0)
    kept_up = np.maximum(excess, 0.0)  # when the others will have, if nobody else comes
    start = np.where(waiting, np.maximum(np.maximum(latest, earned), kept_up), np.inf)
    # One that takes longer than it has earned would be in everybody's way until it is stopped.
    start[wide & view.running & (kept_up == 0.0) & (credit > 0.5 * remaining)] = 0.0
    may_start = waiting & (earned == 0.0) & (kept_up == 0.0) & (latest > 0.0)
    return Reservations(wide, start, may_start)


def _backlog(view: View, remaining: Floats, wide: Bools) -> Floats:
    """[job] the seconds that all GPUs need for the others.

    While a wide gang runs, those who came after it had begun do not count: they cannot take back
    what it was promised.
    """
    seconds = view.gpus * remaining / view.gpus_total
    backlog = seconds.sum() - seconds
    for gang in np.flatnonzero(wide & view.running).tolist():  # one at most: it is wide
        came_later = view.arrival > view.now - view.received_seconds[gang]
        backlog[gang] -= seconds[came_later].sum()
    return np.asarray(backlog)

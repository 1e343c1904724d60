"""Wide gangs get a time from which they go before all others, and are left alone once they run.

A gang that takes a large part of the cluster finds it free by chance only: there is always a
smaller job that is worth more per GPU. So it is promised a start, early enough for a fair
wait; until then others fill the GPUs, and from then on nobody is ahead of it. In return for
having let others pass it is not stopped. Both hold for gangs that have waited several times as
long as they will run, and the longer beyond the usual they run, the longer: nobody waits for a
wide gang longer than it has waited for others, nor many times as long as jobs usually take. Other
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
    wait_limit: float = 1.4  # of the time that it would wait in an equally shared cluster
    kept_share: float = 1.0 / 3.0  # of the time waited: so long it runs undisturbed at most


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
    start = np.where(waiting, np.maximum(latest, earned), np.inf)
    # One that takes longer than it has earned would be in everybody's way until it is stopped.
    start[wide & view.running & (credit > 0.5 * remaining)] = 0.0
    return Reservations(wide, start, waiting & (earned == 0.0) & (latest > 0.0))

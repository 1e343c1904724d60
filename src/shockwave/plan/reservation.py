"""Wide gangs get a time from which they go before all others, and are left alone once they run.

A gang that takes a large part of the cluster finds it free by chance only: there is always a
smaller job that is worth more per GPU. So it is promised a start, early enough for a fair
finish; until then others fill the GPUs, and from then on nobody is ahead of it. In return for
having let others pass it is not stopped: a wide gang keeps its GPUs until it has run for as
long as it has waited.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.model.view import Bools, Floats, View


@dataclass(frozen=True)
class ReservationRules:
    """Which gangs are wide, and when they may claim the cluster."""

    wide_share: float = 0.25  # of the GPUs; gangs larger than this are wide
    least_rounds: float = 20.0  # a shorter stretch of running is not worth the restarts
    lead_rounds: float = 2.0  # before the latest start that is fair


@dataclass(frozen=True)
class Reservations:
    """Seconds from now, one element per job of the view."""

    wide: Bools
    start: Floats  # when the gang goes before all others; infinite for other jobs
    may_start: Bools  # a waiting gang that has let others pass for long enough to start now


def reserve(
    view: View, remaining: Floats, fair_finish: Floats, rules: ReservationRules
) -> Reservations:
    """The promised starts; ``fair_finish`` is the latest, in seconds from now.

    Negative starts are promises that are due.
    """
    wide = view.gpus > rules.wide_share * view.gpus_total
    waited = view.elapsed - view.received_seconds
    credit = waited - view.received_seconds
    kept = wide & view.running & (credit > 0.0)
    stretch = np.minimum(remaining, rules.least_rounds * view.round_seconds)
    earned = wide & ~view.running & (credit >= stretch)
    lead = view.restart_seconds + rules.lead_rounds * view.round_seconds
    latest = np.maximum(fair_finish - remaining - lead, stretch - credit)
    start = np.where(kept, 0.0, np.where(wide & ~view.running, np.maximum(latest, 0.0), np.inf))
    return Reservations(wide, start, earned & (start > 0.0))

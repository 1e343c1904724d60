"""What is remembered from round to round for the futures."""

from __future__ import annotations

from collections.abc import Sequence

from tests.policies.views import make_view

from shockwave.model.view import View
from shockwave.plan.outlook import Outlook, OutlookSettings
from shockwave.plan.reservation import ReservationRules
from shockwave.predict.reactive import Reactive

YEAR = 365 * 86_400.0


def two_gpus(gpus: Sequence[int], now: float) -> View:
    return make_view(gpus, gpus_total=2, arrival=0.0, now=now)


def crowded_for(outlook: Outlook, view: View) -> float:
    return outlook.futures(view, Reactive().forecast(view), 2).since


def test_a_cluster_is_crowded_from_when_there_is_no_room_for_everybody() -> None:
    """However long it was busy before, and however long ago a job was submitted."""
    outlook = Outlook(OutlookSettings(), ReservationRules())
    outlook.pass_over(two_gpus([1], 0.0))
    outlook.pass_over(two_gpus([1, 1], YEAR))
    assert crowded_for(outlook, two_gpus([1, 1, 1], YEAR + 120.0)) == 120.0
    assert crowded_for(outlook, two_gpus([1, 1, 1], YEAR + 3600.0)) == 3600.0
    assert crowded_for(outlook, two_gpus([1, 1], YEAR + 7200.0)) == 0.0
    assert crowded_for(outlook, two_gpus([1, 2], YEAR + 7320.0)) == 120.0


def test_who_begins_in_a_crowd_counts_from_there() -> None:
    outlook = Outlook(OutlookSettings(), ReservationRules())
    assert crowded_for(outlook, two_gpus([2, 2], YEAR)) == 0.0
    assert crowded_for(outlook, two_gpus([2, 2], YEAR + 600.0)) == 600.0

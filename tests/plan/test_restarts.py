"""What starts and stops cost, as far as it was measured."""

from __future__ import annotations

import numpy as np
from tests.policies.views import make_view

from shockwave.plan.restarts import start_seconds, stop_seconds


def test_settings_count_where_nothing_was_measured() -> None:
    view = make_view([1, 1], restart_seconds=3.0)
    assert start_seconds(view).tolist() == stop_seconds(view).tolist() == [3.0, 3.0]


def test_measurements_count_and_stand_for_those_without() -> None:
    view = make_view(
        [1, 1, 1], restart_seconds=3.0, measured_restart_seconds=[13.5, np.nan, 15.5],
        unsaved_seconds=[np.nan, np.nan, 40.0],
    )  # fmt: skip
    assert start_seconds(view).tolist() == [13.5, 14.5, 15.5]
    assert stop_seconds(view).tolist() == [13.5, 14.5, 55.5]

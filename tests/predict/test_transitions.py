"""Which configurations remain possible decides what a predictor expects."""

from __future__ import annotations

from typing import Any

import pytest

from shockwave.model.job import Adaptation
from shockwave.predict.transitions import reachable

THREE = (9.0, 6.0, 3.0)


@pytest.mark.parametrize(
    ("adaptation", "schedule", "done", "expected"),
    [
        (Adaptation.STATIC, [(0, 10)], 5, []),
        (Adaptation.GNS, [(0, 4), (1, 6)], 2, [1, 2]),
        (Adaptation.GNS, [(0, 4), (1, 6)], 5, [2]),
        (Adaptation.GNS, [(0, 4), (2, 6)], 5, []),
        (Adaptation.GNS, [(0, 2), (1, 2), (2, 4), (0, 2)], 9, []),  # breaks its rule
        (Adaptation.ACCORDION, [(0, 4), (1, 6)], 5, [0, 2]),
        (Adaptation.CUSTOM, [(1, 10)], 5, [0, 2]),
        (Adaptation.PRUNING, [(0, 4), (1, 6)], 5, [2]),
        (Adaptation.PRUNING, [(2, 4), (1, 6)], 5, [0]),  # declared the other way round
        (Adaptation.PRUNING, [(2, 10)], 5, [0, 1]),
    ],
)
def test_what_can_still_come(
    job: Any,
    view: Any,
    adaptation: Adaptation,
    schedule: list[tuple[int, int]],
    done: float,
    expected: list[int],
) -> None:
    seen = view((job(schedule, THREE, adaptation), done))
    assert reachable(seen)[0].nonzero()[0].tolist() == expected


def test_padding_columns_of_a_wider_view_are_never_reachable(job: Any, view: Any) -> None:
    narrow = job([(0, 10)], (9.0, 6.0), Adaptation.CUSTOM)
    wide = job([(0, 10)], (9.0, 6.0, 3.0, 2.0), Adaptation.CUSTOM, model="other")
    assert reachable(view((narrow, 1.0), (wide, 1.0))).tolist() == [
        [False, True, False, False],
        [False, True, True, True],
    ]

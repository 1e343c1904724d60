"""When waiting jobs can expect to start."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shockwave.plan.rundown import expected_waits


def waits(jobs: list[tuple[int, float]], gpus: int, order: list[int] | None = None) -> list[float]:
    """``jobs`` are (gang, remaining)."""
    gangs, remaining = zip(*jobs, strict=True)
    queue = np.array(range(len(jobs)) if order is None else order)
    found = expected_waits(queue, np.array(gangs), np.array(remaining, dtype=float), gpus)
    return [float(wait) for wait in found]


def test_whoever_fits_starts_now() -> None:
    assert waits([(2, 60.0), (2, 30.0)], gpus=4) == [0.0, 0.0]


def test_the_next_one_starts_when_the_first_to_end_gives_back_enough() -> None:
    assert waits([(2, 60.0), (2, 30.0), (1, 10.0), (4, 5.0)], gpus=4) == [0.0, 0.0, 30.0, 60.0]


def test_the_order_decides_and_the_answer_is_by_job() -> None:
    assert waits([(1, 60.0), (1, 30.0)], gpus=1, order=[1, 0]) == [30.0, 0.0]


def test_nobody_overtakes_a_large_gang() -> None:
    assert waits([(3, 60.0), (4, 20.0), (1, 10.0)], gpus=4) == [0.0, 60.0, 80.0]


@given(
    st.lists(st.tuples(st.integers(1, 6), st.floats(1.0, 500.0)), min_size=1, max_size=12),
    st.integers(6, 12),
)
def test_the_schedule_fits_and_starts_in_order(jobs: list[tuple[int, float]], gpus: int) -> None:
    start = waits(jobs, gpus)
    assert start == sorted(start)
    for moment in start:
        held = sum(
            gang
            for (gang, seconds), begin in zip(jobs, start, strict=True)
            if begin <= moment < begin + seconds
        )
        assert held <= gpus
    busy = sum(gang * seconds for gang, seconds in jobs[:-1])
    assert start[-1] <= busy + 1e-6  # some GPU worked at any time before


def test_a_gang_larger_than_what_is_left_of_the_cluster_waits_for_all() -> None:
    """A node went down: the job will not start, but the answer stays a number."""
    assert waits([(1, 60.0), (4, 20.0)], gpus=2) == pytest.approx([0.0, 60.0])

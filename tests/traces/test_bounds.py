"""The makespan lower bound: its figures, and that no schedule can beat it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shockwave.model.errors import InputError
from shockwave.traces import makespan_lower_bound, native
from shockwave.traces.inspect import describe

JOBS = st.lists(
    st.tuples(st.floats(0, 1000), st.floats(0.1, 500), st.integers(1, 8)), min_size=1, max_size=12
)


def test_the_longest_job_decides_where_gpus_abound() -> None:
    assert makespan_lower_bound([0, 40], [100, 70], [1, 2], total_gpus=100) == 110


def test_work_that_comes_late_counts_from_its_arrival() -> None:
    # Idle until 1000; then 4 jobs of 10 s on one GPU.
    assert makespan_lower_bound([0] + [1000] * 4, [5] + [10] * 4, [1] * 5, total_gpus=1) == 1040


def test_no_jobs_take_no_time_and_no_gpus_are_an_error() -> None:
    assert makespan_lower_bound([], [], [], total_gpus=4) == 0
    with pytest.raises(InputError, match="--gpus: must be at least 1"):
        makespan_lower_bound([0], [1], [1], total_gpus=0)


@given(jobs=JOBS, total_gpus=st.integers(1, 16))
def test_the_sorted_sweep_equals_the_equation(
    jobs: list[tuple[float, float, int]], total_gpus: int
) -> None:
    arrival, exclusive, gpus = (np.array(column, dtype=float) for column in zip(*jobs, strict=True))
    times = np.unique(np.concatenate([arrival, arrival + exclusive]))
    done = (gpus * np.clip(times[:, None] - arrival, 0, exclusive)).sum(axis=1)
    equation = max(
        (arrival + exclusive).max(), (times + (gpus @ exclusive - done) / total_gpus).max()
    )
    bound = makespan_lower_bound(arrival, exclusive, gpus, total_gpus)
    assert bound == pytest.approx(equation, rel=1e-9)


@given(jobs=JOBS, spare=st.integers(0, 8))
def test_no_list_schedule_ends_earlier(jobs: list[tuple[float, float, int]], spare: int) -> None:
    total_gpus = 8 + spare
    free_at = [0.0] * total_gpus
    for start, seconds, gang in sorted(jobs):
        free_at.sort()
        end = max(start, free_at[gang - 1]) + seconds
        free_at[:gang] = [end] * gang
    arrival, exclusive, gpus = (list(column) for column in zip(*jobs, strict=True))
    bound = makespan_lower_bound(arrival, exclusive, gpus, total_gpus)
    assert max(free_at) >= bound * (1 - 1e-9)


@pytest.mark.parametrize(
    ("name", "gpus", "seconds"),
    [("paper-32gpu-120jobs", 32, 20_552), ("paper-128gpu-460jobs", 128, 22_194)],
)
def test_the_bounds_of_the_shared_traces(
    shared_traces: Path, name: str, gpus: int, seconds: int
) -> None:
    description = describe(native.read(shared_traces / f"{name}.jsonl"), gpus)
    assert description.makespan_lower_bound_seconds is not None
    assert round(description.makespan_lower_bound_seconds) == seconds

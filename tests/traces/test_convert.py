"""Parts of traces: what a selection takes and leaves, and that nothing disappears silently."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from shockwave.model.errors import InputError, TraceError
from shockwave.model.job import TraceJob
from shockwave.traces import load, native
from shockwave.traces.base import Rejects
from shockwave.traces.convert import Conversion, Selection
from shockwave.traces.formats import find_format
from shockwave.traces.synthesis import Synthesiser


def table(folder: Path, rows: int = 400) -> Path:
    """Philly's table with one job a minute, not in order, and a tenth of no use."""
    lines = ["timestamp,duration,num_gpus,gpu_time,cluster"]
    for row in range(rows):
        minute = row * 7 % rows
        at = f"2017-10-{1 + minute // 1440:02d} {minute // 60 % 24:02d}:{minute % 60:02d}:00"
        lines.append(f"{at},{0 if row % 10 == 9 else 600},{2 ** (row % 4)},0,vc{row % 3}")
    path = folder / "philly.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def converted(path: Path, **chosen: Any) -> tuple[list[TraceJob], Conversion, Rejects]:
    conversion = Conversion(path, find_format(path), Selection(**chosen))
    rejects = Rejects()
    jobs = list(conversion.jobs(rejects))
    assert rejects.rows == len(jobs) + rejects.total + conversion.left_out.total()
    return jobs, conversion, rejects


def test_everything_is_the_same_as_loading(tmp_path: Path) -> None:
    path = table(tmp_path)
    jobs, _, rejects = converted(path)
    assert sorted(jobs, key=lambda job: job.spec.arrival_seconds) == load(path)
    assert rejects.reasons == Counter({"ran for no time": 40})


def test_the_first_jobs_are_first_by_arrival(tmp_path: Path) -> None:
    jobs, conversion, _ = converted(table(tmp_path), jobs=25)
    everything = load(table(tmp_path))
    assert {job.spec.id for job in jobs} == {job.spec.id for job in everything[:25]}
    assert conversion.left_out == Counter({"--jobs": 335})


def test_of_jobs_that_tie_at_the_limit_the_first_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    jobs = load("generated:jobs=20,span_hours=0")
    native.write(jobs, path)
    taken, _, _ = converted(path, jobs=7)
    assert taken == jobs[:7]


def test_dates_bound_what_is_taken_and_the_first_arrives_at_0(tmp_path: Path) -> None:
    jobs, conversion, _ = converted(
        table(tmp_path), from_time="2017-10-01 01:00", to_time="2017-10-01T02:00:00+00:00"
    )
    arrivals = sorted(job.spec.arrival_seconds for job in jobs)
    assert arrivals[0] == 0
    assert arrivals[-1] < 3600
    assert set(conversion.left_out) == {"--from-time", "--to-time"}


def test_seconds_bound_a_trace_without_dates(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    everything = load("generated:jobs=50")
    native.write(everything, path)
    middle = everything[25].spec.arrival_seconds
    jobs, _, _ = converted(path, from_time=str(middle))
    assert len(jobs) == 25
    assert jobs[0].spec.arrival_seconds == 0
    with pytest.raises(InputError, match="--to-time: must be seconds of the trace"):
        converted(path, to_time="2017-10-01")


def test_arrivals_are_scaled(tmp_path: Path) -> None:
    half, _, _ = converted(table(tmp_path), scale_arrivals=0.5)
    whole, _, _ = converted(table(tmp_path))
    assert [job.spec.arrival_seconds * 2 for job in half] == [
        job.spec.arrival_seconds for job in whole
    ]


def test_large_jobs_can_be_left_out(tmp_path: Path) -> None:
    jobs, conversion, _ = converted(table(tmp_path), gpus_max=2)
    assert max(job.spec.gpus for job in jobs) == 2
    assert set(conversion.left_out) == {"--gpus-max"}


def test_a_sample_depends_on_its_seed_and_on_ids_only(tmp_path: Path) -> None:
    path = table(tmp_path)
    first, _, _ = converted(path, sample=0.3, seed=1)
    again, _, _ = converted(path, sample=0.3, seed=1)
    other, _, _ = converted(path, sample=0.3, seed=2)
    small, _, _ = converted(path, sample=0.3, seed=1, gpus_max=2)
    assert first == again
    assert 70 <= len(first) <= 150
    ids = {job.spec.id for job in first}
    assert ids != {job.spec.id for job in other}
    assert {job.spec.id for job in small} <= ids


def test_nothing_left_says_what_took_it_away(tmp_path: Path) -> None:
    path = table(tmp_path)
    with pytest.raises(InputError, match="no jobs are left: 360 by --from-time"):
        converted(path, from_time="2020-01-01")
    path.write_text("timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-01,0,1,0,a\n")
    with pytest.raises(TraceError, match=r"none of its 1 rows can be used\. 1 ran for no time"):
        converted(path)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"jobs": 0}, "--jobs: must be at least 1"),
        ({"gpus_max": -1}, "--gpus-max: must be at least 1"),
        ({"sample": 0.0}, "--sample: must be a share"),
        ({"sample": 1.5}, "--sample: must be a share"),
        ({"scale_arrivals": float("nan")}, "--scale-arrivals: must be above 0"),
    ],
)
def test_impossible_selections_are_refused(chosen: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Selection(**chosen)


def test_the_header_tells_source_selection_and_assumptions(tmp_path: Path) -> None:
    path = table(tmp_path)
    conversion = Conversion(
        path, find_format(path), Selection(jobs=5, sample=0.5, seed=3), Synthesiser(seed=9)
    )
    out = tmp_path / "out.jsonl.gz"
    assert native.write(conversion.jobs(Rejects()), out, header=conversion.header()) == 5
    header = native.read_header(out)
    assert header is not None
    assert header["source"] == "philly.csv"
    assert header["format"] == "philly-csv"
    assert header["selection"] == {"jobs": 5, "sample": 0.5, "seed": 3}
    assert any("seed 9" in line and "accordion 0.4" in line for line in header["assumed"])  # type: ignore[attr-defined]
    assert len(native.read(out)) == 5

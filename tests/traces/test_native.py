"""The native format: what is read, what is written, and that a trace survives both."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shockwave.model.errors import InputError, TraceError
from shockwave.model.job import Adaptation, JobSpec, Regime, TraceJob
from shockwave.traces import native

GOLDEN = Path(__file__).parent / "golden" / "native.jsonl"


def record(**changes: Any) -> dict[str, Any]:
    return {
        "id": "1",
        "arrival": 55.0,
        "model": "ResNet-18",
        "gpus": 1,
        "epochs": 92,
        "adaptation": "accordion",
        "batch_sizes": [32, 256],
        "epoch_seconds": {"32": 36.5, "256": 30.25},
        "schedule": [[32, 28], [256, 64]],
    } | changes


def saved(folder: Path, *records: dict[str, Any]) -> Path:
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in records), encoding="utf-8")
    return path


def test_the_golden_trace_reads_as_these_jobs() -> None:
    jobs = native.read(GOLDEN)

    assert [job.spec.id for job in jobs] == ["a", "b", "c", "d"]
    assert jobs[1] == TraceJob(
        spec=JobSpec(
            id="b",
            arrival_seconds=12.5,
            gpus=2,
            epochs=92,
            configurations=(32, 256),
            epoch_seconds=(28.3032, 18.9133),
            adaptation=Adaptation.ACCORDION,
            model="ResNet-18",
            tenant="vision",
            weight=2.5,
            name="cifar sweep",
        ),
        regimes=(Regime(32, 28, 28.3032), Regime(256, 64, 18.9133)),
    )
    assert jobs[2].extra == {"owner": {"team": "speech"}, "note": None}
    assert jobs[0].exclusive_seconds == pytest.approx(12 * 53.73 + 10 * 35.82 + 26.874)


def test_the_golden_trace_is_written_byte_for_byte(tmp_path: Path) -> None:
    written = tmp_path / "again.jsonl"
    native.write(native.read(GOLDEN), written)
    assert written.read_bytes() == GOLDEN.read_bytes()


@pytest.mark.parametrize("name", ["paper-32gpu-120jobs", "paper-128gpu-460jobs"])
def test_the_shared_traces_survive_a_round_trip(
    shared_traces: Path, tmp_path: Path, name: str
) -> None:
    original = shared_traces / f"{name}.jsonl"
    native.write(native.read(original), tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == original.read_bytes()


def test_jobs_come_by_arrival_and_in_file_order_when_they_tie(tmp_path: Path) -> None:
    arrivals = {"late": 9, "first": 0, "tie-1": 5, "tie-2": 5.0}
    path = saved(tmp_path, *(record(id=name, arrival=at) for name, at in arrivals.items()))
    assert [job.spec.id for job in native.read(path)] == ["first", "tie-1", "tie-2", "late"]


def test_neighbouring_regimes_of_one_configuration_are_one_regime(tmp_path: Path) -> None:
    path = saved(tmp_path, record(schedule=[[32, 20], [32, 8], [256, 60], [32, 4]]))
    regimes = native.read(path)[0].regimes
    assert [(regime.configuration, regime.epochs) for regime in regimes] == [
        (32, 28),
        (256, 60),
        (32, 4),
    ]


def test_a_static_job_may_spell_its_one_regime_in_parts(tmp_path: Path) -> None:
    path = saved(tmp_path, record(adaptation="static", schedule=[[32, 20], [32, 72]]))
    assert len(native.read(path)[0].regimes) == 1


def test_blank_lines_windows_line_ends_and_a_byte_order_mark_do_not_matter(
    tmp_path: Path,
) -> None:
    path = tmp_path / "trace.jsonl"
    lines = [json.dumps(record(id="1")), "", json.dumps(record(id="2")), "  "]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    assert [job.spec.id for job in native.read(path)] == ["1", "2"]


def test_line_separators_inside_of_strings_do_not_break_lines(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    text = json.dumps(record(comment="one\u2028two\x85three"), ensure_ascii=False)
    path.write_text(text, encoding="utf-8")
    assert native.read(path)[0].extra == {"comment": "one\u2028two\x85three"}


CONFIGURATION = st.integers(1, 2**40)
SECONDS = st.floats(1e-6, 1e9)
LABEL = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=8)
JSON_VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
EXTRA_FIELD = st.text(max_size=12).filter(
    lambda field: field not in record(tenant=0, weight=0, name=0)
)


@st.composite
def jobs_of_a_trace(draw: st.DrawFn) -> list[TraceJob]:
    jobs = []
    for identifier in draw(st.lists(LABEL, min_size=1, max_size=4, unique=True)):
        sizes = draw(st.lists(CONFIGURATION, min_size=1, max_size=4, unique=True))
        seconds = draw(st.lists(SECONDS, min_size=len(sizes), max_size=len(sizes)))
        adaptation = draw(st.sampled_from(Adaptation))
        order = draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=5))
        order = [now for now, before in zip(order, [-1, *order], strict=False) if now != before]
        if adaptation is Adaptation.STATIC:
            order = order[:1]
        regimes = tuple(
            Regime(sizes[index], draw(st.integers(1, 10_000)), seconds[index]) for index in order
        )
        spec = JobSpec(
            id=identifier,
            arrival_seconds=draw(st.floats(0, 1e12)),
            gpus=draw(st.integers(1, 4096)),
            epochs=sum(regime.epochs for regime in regimes),
            configurations=tuple(sizes),
            epoch_seconds=tuple(seconds),
            adaptation=adaptation,
            model=draw(LABEL),
            tenant=draw(LABEL),
            weight=draw(st.floats(1e-3, 1e3)),
            name=draw(LABEL | st.just("")),
        )
        extra = draw(st.dictionaries(EXTRA_FIELD, JSON_VALUE, max_size=3))
        jobs.append(TraceJob(spec, regimes, extra))
    return jobs


@settings(max_examples=150, deadline=None)
@given(jobs=jobs_of_a_trace())
def test_what_is_written_is_read_back(
    jobs: list[TraceJob], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("round-trip") / "trace.jsonl"
    native.write(jobs, path)
    assert native.read(path) == sorted(jobs, key=lambda job: job.spec.arrival_seconds)


def test_a_failed_write_leaves_the_old_trace_and_no_litter(tmp_path: Path) -> None:
    path = saved(tmp_path, record(id="old"))
    good, other, *_ = native.read(GOLDEN)
    bad = dataclasses.replace(other, extra={"gpus": 3})

    with pytest.raises(TraceError, match="job 'b', field 'gpus': cannot be written"):
        native.write([good, bad], path)

    assert [job.spec.id for job in native.read(path)] == ["old"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_written_trace_replaces_what_a_link_points_to(tmp_path: Path) -> None:
    target = saved(tmp_path, record(id="old"))
    link = tmp_path / "latest.jsonl"
    link.symlink_to(target)
    native.write(native.read(GOLDEN), link)
    assert link.is_symlink()
    assert target.read_bytes() == GOLDEN.read_bytes()


def other_truth(job: TraceJob) -> TraceJob:
    return dataclasses.replace(
        job, regimes=tuple(dataclasses.replace(r, epoch_seconds=1.0) for r in job.regimes)
    )


def with_spec(job: TraceJob, **changes: Any) -> TraceJob:
    return dataclasses.replace(job, spec=dataclasses.replace(job.spec, **changes))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (other_truth, r"field 'epoch_seconds'.*truly takes another time.*got 1\.0"),
        (lambda job: with_spec(job, epoch_seconds=(float("nan"),) * 4), "'epoch_seconds'.*finite"),
        (lambda job: with_spec(job, epoch_seconds=()), "field 'epoch_seconds'.*entry for \"10\""),
        (lambda job: with_spec(job, epochs=24), "field 'schedule'.*sum to the 24"),
        (lambda job: with_spec(job, gpus=np.float64(2)), "field 'gpus'.*whole number"),
        (lambda job: dataclasses.replace(job, extra={"x": {1, 2}}), "field 'x'.*plain JSON"),
    ],
)
def test_a_job_that_the_format_cannot_hold_is_refused(
    tmp_path: Path, change: Any, message: str
) -> None:
    with pytest.raises(TraceError, match=message):
        native.write([change(native.read(GOLDEN)[0])], tmp_path / "trace.jsonl")
    assert not list(tmp_path.iterdir())


def test_writing_two_jobs_of_one_id_or_none_at_all_is_refused(tmp_path: Path) -> None:
    job = native.read(GOLDEN)[0]
    with pytest.raises(TraceError, match="job 'a': cannot be written: the id is used twice"):
        native.write([job, job], tmp_path / "trace.jsonl")
    with pytest.raises(InputError, match="at least one job"):
        native.write([], tmp_path / "trace.jsonl")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing.trace\.jsonl: cannot be written: No such file"):
        native.write(native.read(GOLDEN), tmp_path / "missing" / "trace.jsonl")


def test_numbers_of_numpy_are_written_as_plain_ones(tmp_path: Path) -> None:
    job = native.read(GOLDEN)[0]
    numbers: dict[str, Any] = {
        "arrival_seconds": np.float32(job.spec.arrival_seconds),
        "gpus": np.int64(job.spec.gpus),
        "epochs": np.int32(job.spec.epochs),
        "configurations": tuple(np.array(job.spec.configurations)),
        "epoch_seconds": tuple(np.array(job.spec.epoch_seconds)),
    }
    regimes: list[Any] = [
        (np.int64(r.configuration), np.int64(r.epochs), np.float64(r.epoch_seconds))
        for r in job.regimes
    ]
    given = TraceJob(
        spec=dataclasses.replace(job.spec, **numbers),
        regimes=tuple(Regime(*regime) for regime in regimes),
        extra={"losses": np.array([1.5, 0.5]), "best": np.float32(0.5)},
    )
    native.write([given], tmp_path / "trace.jsonl")
    assert native.read(tmp_path / "trace.jsonl") == [
        dataclasses.replace(job, extra={"losses": [1.5, 0.5], "best": 0.5})
    ]


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_a_header_and_compression_leave_the_jobs_as_they_are(tmp_path: Path, suffix: str) -> None:
    if suffix == ".zst" and sys.version_info < (3, 14):
        pytest.importorskip("zstandard", reason="Zstandard needs the package zstandard")
    path = tmp_path / f"trace.jsonl{suffix}"
    jobs = native.read(GOLDEN)
    assert native.write(jobs, path, header={"source": "here", "assumed": ["nothing"]}) == len(jobs)
    first = path.read_bytes()
    assert native.read(path) == jobs
    assert native.read_header(path) == {
        "shockwave_trace": 1,
        "source": "here",
        "assumed": ["nothing"],
    }
    native.write(jobs, path, header={"source": "here", "assumed": ["nothing"]})
    assert path.read_bytes() == first


def test_a_trace_without_a_header_has_none() -> None:
    assert native.read_header(GOLDEN) is None

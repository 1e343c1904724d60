"""Traces of jobs that can use several types and numbers of GPUs, and the speeds beside them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from shockwave.model.cluster import Cluster
from shockwave.model.errors import InputError, TraceError
from shockwave.model.job import Regime, TraceJob
from shockwave.testing.workloads import elastic_jobs
from shockwave.traces import load, native
from shockwave.traces.speeds import read_speeds

SHARED = Path(__file__).parents[3] / "shared" / "elastic"
SHORT: dict[str, Any] = {
    "id": "a", "arrival": 0.0, "model": "net", "gpus_requested": 3, "batch_size_requested": 64,
}  # fmt: skip
FULL: dict[str, Any] = {
    "id": "a", "arrival": 0.0, "model": "net", "gpus": [1, 2], "epochs": 3,
    "adaptation": "gns", "batch_sizes": [32, 64], "schedule": [[32, 1], [64, 2]],
    "speeds": {"T4": {"1": {"32": 8.0, "64": 6.0}, "2": [4.5, 3.5, 2.5]}, "A100": {"1": 2.0}},
}  # fmt: skip
SPEEDS: dict[str, Any] = {
    "net": {
        "epochs": 2,
        "restart_seconds": 50,
        "gpus": {
            "T4": {str(n): {"epoch_seconds": [80 / n, 40 / n]} for n in (1, 2, 4, 12)},
            "A100": {"1": {"epoch_seconds": [10, 5]}},
        },
    }
}


def read(tmp_path: Path, line: dict[str, Any], speeds: object = None) -> TraceJob:
    trace, beside = tmp_path / "t.jsonl", tmp_path / "speeds.json"
    trace.write_text(json.dumps(line) + "\n")
    if speeds is not None:
        beside.write_text(json.dumps(speeds))
    return load(trace, profiles=None if speeds is None else beside)[0]


def test_a_short_line_can_use_all_that_the_speeds_of_its_model_cover(tmp_path: Path) -> None:
    job = read(tmp_path, SHORT, SPEEDS)
    assert job.spec.gpus == 3
    assert job.spec.gpu_counts == (1, 2, 4, 12)
    assert job.spec.gpu_types == ("T4", "A100")
    assert job.spec.epochs == 2
    assert all(math.isnan(seconds) for seconds in job.spec.epoch_seconds)
    assert job.restart_seconds == 50
    assert job.exclusive_seconds == pytest.approx(40)  # 3 T4 between 2 and 4
    assert job.speeds is not None
    assert job.speeds.epoch_seconds("A100", 4) == (10, 5)


@pytest.mark.parametrize(
    ("gpus", "counts", "request_"),
    [({"min": 2, "max": 8}, (2, 4), 2), ([4, 1], (1, 4), 1), (2, (), 2), ({"max": 2}, (1, 2), 1)],
)
def test_gpus_may_be_a_number_a_list_or_a_range(
    tmp_path: Path, gpus: object, counts: tuple[int, ...], request_: int
) -> None:
    line = {key: value for key, value in SHORT.items() if key != "gpus_requested"}
    job = read(tmp_path, {**line, "gpus": gpus}, SPEEDS)
    assert (job.spec.gpu_counts, job.spec.gpus) == (counts, request_)


def test_speeds_of_a_line_may_differ_by_configuration_and_by_epoch(tmp_path: Path) -> None:
    job = read(tmp_path, FULL)
    assert job.speeds is not None
    assert job.speeds.epoch_seconds("T4", 1) == (8.0, 6.0, 6.0)
    assert job.speeds.epoch_seconds("A100", 1) == (2.0, 2.0, 2.0)
    assert job.regimes == (Regime(32, 1, 8.0), Regime(64, 2, 6.0))
    fast = read(tmp_path, {**FULL, "gpu_types": ["T4"], "gpus_requested": 2})
    assert fast.regimes == (Regime(32, 1, 4.5), Regime(64, 1, 3.5), Regime(64, 1, 2.5))


def test_jobs_with_options_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    jobs = [*elastic_jobs(4), read(tmp_path, FULL), read(tmp_path, {**SHORT, "id": "b"}, SPEEDS)]
    jobs = [job for job in jobs if job.spec.id != "b"] + [jobs[-1]]
    native.write(jobs, tmp_path / "again.jsonl")
    again = {job.spec.id: job for job in native.read(tmp_path / "again.jsonl")}
    for job in jobs:
        other = again[job.spec.id]
        assert repr(other.spec) == repr(job.spec)  # nan equals nan
        assert (other.regimes, other.speeds) == (job.regimes, job.speeds)
        assert other.restart_seconds == job.restart_seconds


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"gpus": {"min": 5, "max": 8}}, "field 'gpus': must have a number in it that the speeds"),
        ({"gpus": [1, "2"]}, "field 'gpus': must be a whole number of at least 1, a list of them"),
        ({"gpus": [1, 1]}, "field 'gpus': must not name a number twice"),
        ({"gpus": {"least": 1}}, "field 'gpus': must be a whole number of at least 1, a list of"),
        ({"gpus_requested": 0}, "field 'gpus_requested': must be a whole number of at least 1"),
        ({"gpu_types": ["H100"]}, "types that its speeds cover, which are T4, A100 (got 'H100')"),
        ({"gpu_types": []}, "field 'gpu_types': must be a list of types of GPUs (got [])"),
        ({"preferred_type": "H100"}, "field 'preferred_type': must be one of T4, A100"),
        ({"gpu_memory_gb": -1}, "field 'gpu_memory_gb': must be a number above 0 (got -1)"),
        ({"speeds": {"T4": {"1": [1.0, 2.0]}}}, "one for each of the 3 epochs"),
        ({"speeds": {"T4": {"1": {"32": 1.0}}}}, "of 1 x T4 must be a number of seconds above 0"),
        ({"speeds": {"T4": {"zero": 1.0}}}, "must be an object from types of GPUs to numbers"),
        ({"declared_speeds": {"T4": {"1": 0}}}, "field 'declared_speeds': of 1 x T4 must be"),
        ({"speeds": None}, "a choice of numbers needs speeds"),
        ({"schedule": [32, 3]}, "field 'schedule': must be a list of [configuration, epochs]"),
        ({"epochs": 4}, "must sum to the 4 of field 'epochs'"),
        ({"restart_seconds": -5}, "field 'restart_seconds': must be a number of at least 0"),
    ],
)
def test_what_is_wrong_with_a_line_is_told_with_its_field(
    tmp_path: Path, change: dict[str, Any], problem: str
) -> None:
    line = {key: value for key, value in {**FULL, **change}.items() if value is not None}
    with pytest.raises(TraceError, match="line 1") as raised:
        read(tmp_path, line)
    assert problem in str(raised.value)


def test_lines_that_need_speeds_say_how_to_give_them(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="Name a file of speeds by --speeds"):
        read(tmp_path, SHORT)
    with pytest.raises(TraceError, match="'model': must be one that the speeds cover: net"):
        read(tmp_path, {**SHORT, "model": "other"}, SPEEDS)


def changed(*path: str, value: object) -> dict[str, Any]:
    speeds = json.loads(json.dumps(SPEEDS))
    inside = speeds
    for part in path[:-1]:
        inside = inside[part]
    inside[path[-1]] = value
    return dict(speeds)


@pytest.mark.parametrize(
    ("speeds", "place"),
    [
        (changed("net", "gpus", "T4", "2", value={"epoch_seconds": [1.0]}), "net.gpus.T4.2"),
        (changed("net", "gpus", "T4", "2", "epoch_seconds", value=[1, -2]), "epoch_seconds.1"),
        (changed("net", "gpus", "T4", "many", value={"epoch_seconds": [1, 2]}), "gpus.T4.many"),
        (changed("net", "epochs", value=None), "net.epochs"),
        ({}, "Expected {model:"),
        ([1], "Expected {model:"),
    ],
)
def test_a_bad_file_of_speeds_is_told_with_the_place(
    tmp_path: Path, speeds: object, place: str
) -> None:
    path = tmp_path / "speeds.json"
    path.write_text(json.dumps(speeds))
    with pytest.raises(InputError) as raised:
        read_speeds(path)
    assert place in str(raised.value)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("text", ["T4", "T4:6", "T4:0x4", "T4:6x4,T4:1x8", ":6x4", "T4:6x4,", ""])
def test_a_bad_cluster_is_told_with_an_example_or_the_reason(text: str) -> None:
    with pytest.raises(InputError, match="--cluster"):
        Cluster.parse(text)


def test_a_cluster_of_types_has_nodes_of_each() -> None:
    cluster = Cluster.parse("T4:6x4, 2080Ti:3x8,A100-80GB:2x8")
    assert cluster.types == {"T4": 24, "2080Ti": 24, "A100-80GB": 16}
    assert len({node.id for node in cluster.nodes}) == 11


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared elastic workloads are not there")
@pytest.mark.parametrize("name", ["philly-1", "helios-1"])
def test_the_shared_elastic_workloads_are_read(name: str) -> None:
    jobs = load(SHARED / f"{name}.jsonl", profiles=SHARED / "speeds.json")
    assert len(jobs) == 160
    assert all(job.spec.gpu_counts and job.restart_seconds for job in jobs)

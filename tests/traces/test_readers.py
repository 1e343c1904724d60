"""Every public format: what its rows become, and what becomes of those that are of no use."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from tests.traces import sources

from shockwave.model.errors import InputError, TraceError
from shockwave.model.job import Adaptation, TraceJob
from shockwave.traces import load, native
from shockwave.traces.base import Rejects
from shockwave.traces.formats import FORMATS, FormatEntry, find_format
from shockwave.traces.gavel import SAMPLES


def read(path: Path, format: str | None = None) -> tuple[dict[str, TraceJob], dict[str, int]]:
    """Jobs by id, with arrivals as the source has them, and rejects by reason."""
    rejects = Rejects()
    entry = find_format(path, format)
    jobs = {job.spec.id: job for job in entry.stream(path, rejects)}
    assert rejects.rows == len(jobs) + rejects.total
    return jobs, dict(rejects.reasons)


def made(folder: Path, name: str) -> tuple[dict[str, TraceJob], dict[str, int]]:
    path = sources.MAKERS[name](folder)
    assert find_format(path).name == name
    return read(path)


def seconds(job: TraceJob) -> float:
    return round(job.exclusive_seconds, 6)


def test_there_is_a_source_for_every_format() -> None:
    assert {*sources.MAKERS, "native"} == set(FORMATS.built_in)


@pytest.mark.parametrize("name", sources.MAKERS)
def test_jobs_are_consistent_sorted_and_survive_the_native_format(
    tmp_path: Path, name: str
) -> None:
    jobs = load(sources.MAKERS[name](tmp_path))
    arrivals = [job.spec.arrival_seconds for job in jobs]
    assert arrivals == sorted(arrivals)
    assert len(jobs) >= 2
    if FORMATS.load(name).calendar:
        assert arrivals[0] == 0
    for job in jobs:
        assert sum(regime.epochs for regime in job.regimes) == job.spec.epochs
        assert str(job.extra["source"]).startswith(f"{name}:")
    native.write(jobs, tmp_path / "out.jsonl")
    assert native.read(tmp_path / "out.jsonl") == jobs
    assert FORMATS.load(name).assumptions


@pytest.mark.parametrize("name", sources.MAKERS)
@pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe garbage", b"{", b"[", b"a,b\n1,2\n"])
def test_a_file_of_something_else_is_an_error_that_names_it(
    tmp_path: Path, name: str, content: bytes
) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"bad|pai_job_table"):
        FormatEntry(name).read(path)


def test_helios(tmp_path: Path) -> None:
    jobs, rejects = made(tmp_path, "helios")
    assert {key: (job.spec.gpus, seconds(job)) for key, job in jobs.items()} == {
        "11": (8, 3600.0),
        "13": (1, 30.0),
        "18": (2, 120.0),  # no dates, but a duration
    }
    assert jobs["11"].spec.tenant == "vc1"
    assert jobs["11"].extra == {
        "user": "ua",
        "state": "COMPLETED",
        "source": "helios:cluster_log.csv:2",
    }
    assert rejects == {
        "need no GPU": 1,
        "ran for no time": 1,
        "never ran, or have no end": 1,
        "have a submission that is no date": 1,
        "use the id of an earlier row": 1,
        "have a number of GPUs that is no number": 1,
        "have more or fewer cells than the header": 1,
    }
    loaded = load(tmp_path / "cluster_log.csv")
    assert [job.spec.id for job in loaded] == ["13", "11", "18"]
    assert [job.spec.arrival_seconds for job in loaded] == [0.0, 60.0, 360.0]


def test_a_runtime_becomes_epochs_of_about_a_minute(tmp_path: Path) -> None:
    jobs, _ = made(tmp_path, "helios")
    assert [(job.spec.epochs, job.spec.epoch_seconds) for job in jobs.values()] == [
        (60, (60.0,)),
        (1, (30.0,)),
        (2, (60.0,)),
    ]


def test_acme_knows_time_zones_and_distrusts_durations(tmp_path: Path) -> None:
    jobs, _ = made(tmp_path, "acme")
    assert jobs["2"].spec.arrival_seconds - jobs["1"].spec.arrival_seconds == 1.0
    assert [seconds(job) for job in jobs.values()] == [117.0, 60.0]
    assert (jobs["1"].spec.model, jobs["1"].spec.tenant) == ("Pretrain", "u1")

    kalos = tmp_path / "trace_kalos.csv"
    kalos.write_text(sources.KALOS, encoding="utf-8")
    jobs, rejects = read(kalos)
    assert [seconds(job) for job in jobs.values()] == [8.0, 70.0]  # less the time in the queue
    assert rejects == {}


def test_philly_as_a_table(tmp_path: Path) -> None:
    jobs, rejects = made(tmp_path, "philly-csv")
    assert {key: (job.spec.gpus, seconds(job)) for key, job in jobs.items()} == {
        "2": (1, 66.0),
        "3": (4, 2951.0),
    }
    assert rejects == {"ran for no time": 1, "have no duration": 1}


def test_philly_as_published(tmp_path: Path) -> None:
    jobs, rejects = made(tmp_path, "philly")
    assert {key: (job.spec.gpus, seconds(job)) for key, job in jobs.items()} == {
        "application_1": (16, 7274.0),
        "application_3": (1, 60.0),
    }
    assert jobs["application_1"].extra["attempts_without_times"] == 1
    assert rejects == {
        "have no attempts": 1,
        "have no attempt with a start and an end": 1,
        "need no GPU": 1,
    }


def test_a_philly_log_that_is_cut_off_names_the_line(tmp_path: Path) -> None:
    path = sources.philly(tmp_path)
    text = path.read_text()
    cut = text.index("application_3")
    path.write_text(text[:cut])
    line = text.count("\n", 0, text.rindex("\n  {", 0, cut) + 1) + 1
    with pytest.raises(TraceError, match=rf"cluster_job_log, line {line}: .*the file ends inside"):
        load(path, format="philly")


def test_alibaba_2020_adds_up_the_parts_of_gpus_of_all_tasks(tmp_path: Path) -> None:
    jobs, rejects = made(tmp_path, "alibaba-2020")
    assert {key: (job.spec.gpus, seconds(job)) for key, job in jobs.items()} == {
        "j1": (2, 490.0),
        "j2": (2, 60.0),
    }
    assert jobs["j1"].extra["gpu_request"] == 1.5
    assert (jobs["j1"].spec.model, jobs["j2"].spec.model) == ("bert", "unknown")
    assert rejects == {
        "need no GPU": 1,
        "never ran, or have no end": 1,
        "have no submission": 1,
        "have no tasks": 1,
        "have more or fewer cells than the header (in pai_task_table.csv)": 1,
    }
    by_table = load(tmp_path / "pai" / "pai_job_table.csv")
    assert {job.spec.id for job in by_table} == set(jobs)


def test_alibaba_2020_needs_its_tasks(tmp_path: Path) -> None:
    (sources.pai(tmp_path) / "pai_task_table.csv").unlink()
    with pytest.raises(TraceError, match=r"pai_task_table\.csv is missing\. Unpack"):
        load(tmp_path / "pai")


def test_alibaba_2023(tmp_path: Path) -> None:
    jobs, rejects = made(tmp_path, "alibaba-2023")
    assert {key: (job.spec.gpus, seconds(job)) for key, job in jobs.items()} == {
        "pod-0": (1, 12537486.0),
        "pod-1": (1, 90.0),
        "pod-4": (8, 103.0),
    }
    assert "gpu_request" not in jobs["pod-0"].extra
    assert jobs["pod-1"].extra["gpu_request"] == 0.46
    assert rejects == {"need no GPU": 1, "were never scheduled": 1}


def test_alibaba_2026(tmp_path: Path) -> None:
    jobs, rejects = made(tmp_path, "alibaba-2026")
    assert {key: job.spec.gpus for key, job in jobs.items()} == {"1": 1, "2": 16, "3": 2}
    assert jobs["3"].extra["gpu_request"] == 1.5
    assert jobs["2"].extra["job_type"] == "Spot"
    assert rejects == {"need no GPU": 1}


def test_slurm(tmp_path: Path) -> None:
    jobs, rejects = made(tmp_path, "slurm")
    assert {key: (job.spec.gpus, seconds(job)) for key, job in jobs.items()} == {
        "100": (8, 90_010.0),
        "101_3": (2, 150.0),
    }
    assert (jobs["100"].spec.tenant, jobs["100"].spec.name) == ("gpu", "train a")
    assert rejects == {
        "are steps of a job": 1,
        "never started": 1,
        "need no GPU": 1,
        "have more or fewer cells than the header": 1,
    }


@pytest.mark.parametrize(
    ("columns", "cells", "gpus", "runtime"),
    [
        ("ReqGRES|NNodes|ElapsedRaw", "gpu:2|3|77", 6, 77.0),
        ("AllocGRES|AllocNodes|ElapsedRaw", "gpu:tesla:2(IDX:0,1),shard:9|1|77", 2, 77.0),
        ("AllocTRES|Start|End", "gres/gpu:h100=4|2026-01-01T00:00:00|2026-01-01T00:01:00", 4, 60.0),
        ("ReqTRES|Elapsed", "cpu=3,gres/gpu=1|12:34", 1, 754.0),
    ],
)
def test_slurm_takes_the_columns_that_there_are(
    tmp_path: Path, columns: str, cells: str, gpus: int, runtime: float
) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text(f"JobID|Submit|{columns}\n1|2026-01-01T00:00:00|{cells}\n")
    (job,) = load(path)
    assert (job.spec.gpus, seconds(job)) == (gpus, runtime)


def test_gavel_epochs_times_and_configurations(tmp_path: Path) -> None:
    jobs, rejects = made(tmp_path, "gavel")
    first = jobs["0"].spec
    assert (first.epochs, first.adaptation) == (23, Adaptation.GNS)
    assert first.configurations == (10, 20, 40)  # what was profiled with a speed above 0
    assert first.epoch_seconds == (59.675, 39.7833, 29.8375)
    second = jobs["1"].spec
    assert (second.gpus, second.epochs, second.adaptation) == (2, 3, Adaptation.ACCORDION)
    assert second.configurations == (32, 256)
    assert jobs["2"].spec.configurations == (10,)
    assert [jobs[key].spec.arrival_seconds for key in ("5", "6")] == [70.0, 71.0]
    assert rejects == {
        "have no throughput in the profiles": 1,
        "have an unknown mode": 1,
        "have neither 7, 10 nor 12 columns": 1,
    }


def test_gavel_without_throughputs_has_the_durations_that_it_tells(tmp_path: Path) -> None:
    path = tmp_path / "jobs.trace"
    path.write_text(sources.GAVEL)
    jobs, rejects = read(path)
    assert {seconds(job) for job in jobs.values()} == {1418.0}
    assert rejects["tell no duration, and there are no throughputs"] == 2


def test_gavel_with_several_throughputs_asks_which(tmp_path: Path) -> None:
    path = sources.gavel(tmp_path)
    (tmp_path / "other_throughputs.json").write_text("{}")
    with pytest.raises(InputError, match=r"2 files of throughputs.*--profiles: .*other_through"):
        load(path)
    jobs = load(path, profiles=tmp_path / "v100_throughputs.json")
    assert len(jobs) == 5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ('{"p100": {}}', "no throughputs of 'v100'. It has p100"),
        ('{"v100": {"LM": {"null": 1}}}', "steps a second"),
        ('{"v100": {"(\'LM (batch size 5)\', 1)": 3}}', "steps a second"),
    ],
)
def test_bad_throughputs_are_named(tmp_path: Path, content: str, message: str) -> None:
    path = sources.gavel(tmp_path)
    (tmp_path / "v100_throughputs.json").write_text(content)
    with pytest.raises(TraceError, match=message):
        load(path)


@pytest.mark.parametrize("name", ["paper-32gpu-120jobs", "paper-128gpu-460jobs"])
def test_gavel_gives_the_jobs_of_the_native_traces(
    shared_traces: Path, tmp_path: Path, name: str
) -> None:
    """The paper's jobs as a .trace and throughputs, as their authors write them."""
    expected = native.read(shared_traces / f"{name}.jsonl")
    profile: dict[str, dict[str, float]] = {}
    lines = []
    for job in expected:
        spec = job.spec
        for size, each in zip(spec.configurations, spec.epoch_seconds, strict=True):
            key = f"('{spec.model} (batch size {size})', {spec.gpus})"
            profile[key] = {"null": SAMPLES[spec.model] / size / each}
        size = spec.configurations[0]
        steps = spec.epochs * math.ceil(SAMPLES[spec.model] / size)
        kind = f"{spec.model} (batch size {size})"
        mode = str(spec.adaptation)
        lines.append(sources.trace_line(kind, steps, spec.gpus, mode, spec.arrival_seconds))
    (tmp_path / "throughputs.json").write_text(json.dumps({"v100": profile}))
    (tmp_path / "paper.trace").write_text("\n".join(lines))

    jobs = load(tmp_path / "paper.trace")

    for job, other in zip(jobs, expected, strict=True):
        assert job.spec.epochs == other.spec.epochs
        assert set(other.spec.configurations) <= set(job.spec.configurations)
        for size, each in zip(other.spec.configurations, other.spec.epoch_seconds, strict=True):
            index = job.spec.configurations.index(size)
            assert job.spec.epoch_seconds[index] == pytest.approx(each, abs=1e-3)
        assert (job.spec.arrival_seconds, job.spec.gpus, job.spec.model) == (
            other.spec.arrival_seconds,
            other.spec.gpus,
            other.spec.model,
        )


def test_sia_takes_speeds_from_profiles(tmp_path: Path) -> None:
    jobs, rejects = made(tmp_path, "sia")
    # 100 steps an epoch of one GPU at 0.2 s.
    assert jobs["toy-0"].spec.epoch_seconds == (20.0,)
    assert jobs["toy-0"].spec.epochs == 2
    # 40 steps at 8 samples a GPU on two nodes of four.
    assert jobs["toy-1"].spec.epoch_seconds == (12.0,)
    # Between batch sizes: 80 steps; three GPUs are half way between two and four of one node.
    local = 32 / 3
    step = (0.15 + (local - 8) / 8 * 0.1 + 0.3 + (local - 8) / 8 * 0.1) / 2
    assert jobs["toy-2"].spec.epoch_seconds[0] == pytest.approx(80 * step, abs=1e-3)
    assert {key: value for key, value in jobs["toy-1"].extra.items() if key != "source"} == {
        "elastic_gpus_min": 1,
        "elastic_gpus_max": 8,
        "elastic_batch_size_min": 16,
        "elastic_batch_size_max": 64,
    }
    assert rejects == {
        "have an application without profiles": 1,
        "have a batch size outside of the profiled ones": 1,
        "need no GPU, or more than anyone has": 1,
    }


def test_sia_jobs_with_gradients_are_elastic_and_tune_their_batch_size(tmp_path: Path) -> None:
    job = next(job for job in load(sources.elastic_sia(tmp_path)) if job.spec.id == "toy-1")
    assert job.speeds is not None
    assert job.speeds.types == job.spec.gpu_types == ("gpu", "T4", "A100")
    assert job.spec.gpu_counts == (1, 2, 4, 8)  # what fits into nodes of four, then whole nodes
    assert job.speeds.by_type["gpu"] == job.speeds.by_type["T4"]
    # One GPU computes twice the samples in twice the time: the smallest batch is best, 16 samples.
    assert job.speeds.epoch_seconds("A100", 1) == (10.0, 20.0)
    # Four GPUs take 32 samples in 0.3 s and 64 in 0.4 s. Without noise in the gradients both are
    # worth one step; with a variance of 3, ``b`` samples are worth 4 / (3 * 16 / b + 1).
    first, second = job.speeds.epoch_seconds("T4", 4)
    assert first == pytest.approx(100 * 0.3)
    tried = range(32, 65)
    best = min(200 * (0.2 + b / 320) / (4 / (48 / b + 1)) for b in tried)
    assert second == pytest.approx(best, rel=1e-3)
    # Two GPUs of one node, not of two; eight lie on two nodes.
    assert job.speeds.epoch_seconds("T4", 2)[0] == pytest.approx(100 * 0.15)
    assert job.speeds.epoch_seconds("T4", 8)[1] == pytest.approx(200 * 0.3 / (4 / 1.75), rel=1e-4)
    assert [regime.epoch_seconds for regime in job.regimes] == list(
        job.speeds.epoch_seconds("T4", 8)
    )


def test_sia_computes_a_batch_that_does_not_fit_in_parts(tmp_path: Path) -> None:
    path = sources.sia(tmp_path)
    path.write_text("time,name,batch_size,num_replicas,application\n0,a,64,1,toy\n")
    (job,) = load(path)
    assert job.spec.epoch_seconds == (round(40 * (0.2 + 3 * 0.19), 4),)


def test_sia_without_profiles_says_where_to_find_them(tmp_path: Path) -> None:
    path = tmp_path / "workload.csv"
    path.write_text(sources.SIA)
    with pytest.raises(InputError, match="--profiles"):
        load(path)


def test_a_bad_profile_is_named_with_its_line(tmp_path: Path) -> None:
    path = sources.sia(tmp_path)
    bad = tmp_path / "traces" / "toy" / "placements.csv"
    bad.write_text("placement,local_bsz,step_time,sync_time\n1,8,fast,0.01\n")
    with pytest.raises(TraceError, match=r"placements\.csv, line 2: .*step_time"):
        load(path)


def test_a_journal_gives_back_the_jobs_that_ran(tmp_path: Path) -> None:
    jobs, rejects = made(tmp_path, "journal")
    assert rejects == {}
    for job in load("generated:jobs=6,min_hours=0.2,max_hours=0.4"):
        again = jobs[job.spec.id]
        assert again.spec.arrival_seconds == job.spec.arrival_seconds
        assert [(r.configuration, r.epochs) for r in again.regimes] == [
            (r.configuration, r.epochs) for r in job.regimes
        ]
        assert again.exclusive_seconds == pytest.approx(job.exclusive_seconds)


def test_a_damaged_journal_names_the_line(tmp_path: Path) -> None:
    path = sources.journal(tmp_path)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], '{"kind": "party"}']))
    with pytest.raises(TraceError, match=r"run\.jsonl, line 2: not an event"):
        load(path)


def test_a_database_gives_the_jobs_of_its_journal(tmp_path: Path) -> None:
    jobs, rejects = made(tmp_path, "database")
    from_journal, _ = read(tmp_path / "run.jsonl")
    assert rejects == {}
    assert [(job.spec, job.regimes) for job in jobs.values()] == [
        (job.spec, job.regimes) for job in from_journal.values()
    ]
    assert find_format(tmp_path / "state" / "shockwave.db").name == "database"

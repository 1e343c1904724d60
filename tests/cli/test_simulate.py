"""``shockwave simulate`` as a user meets it: a real process, its files, its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shockwave.cli.main import app

WALL_CLOCK = ("wall_seconds", "plan_seconds_mean", "plan_seconds_p95", "plan_seconds_max")
JOB: dict[str, Any] = {
    "id": "a",
    "arrival": 0.0,
    "model": "ResNet-18",
    "gpus": 2,
    "epochs": 10,
    "adaptation": "gns",
    "batch_sizes": [32, 64],
    "epoch_seconds": {"32": 40.0, "64": 30.0},
    "schedule": [[32, 4], [64, 6]],
}


def shockwave(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shockwave.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def invoked(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The same without a process of its own, for what ends before anything is simulated."""
    words = [str(argument) for argument in arguments]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.jsonl"
    jobs = [JOB | {"id": str(n), "arrival": 60.0 * n, "gpus": 1 + n % 2} for n in range(8)]
    path.write_text("".join(json.dumps(job) + "\n" for job in jobs))
    return path


def test_compares_policies_and_writes_the_record_that_others_rely_on(
    trace: Path, tmp_path: Path
) -> None:
    out = tmp_path / "figures.json"
    done = shockwave("simulate", trace, "--gpus", 4, "-p", "gavel", "-p", "srtf", "--json", out)
    assert done.returncode == 0, done.stderr
    assert "gavel" in done.stdout
    assert "srtf" in done.stdout
    rows = json.loads(out.read_text())
    assert [row["policy"] for row in rows] == ["gavel", "srtf"]
    assert list(rows[0])[:23] == [
        "policy", "trace", "jobs", "gpus", "makespan_seconds", "makespan_lower_bound_seconds",
        "mean_jct_seconds", "p50_jct_seconds", "p99_jct_seconds", "worst_ftf_static",
        "unfair_static", "worst_ftf_themis", "unfair_themis", "worst_ftf_egalitarian",
        "unfair_egalitarian", "utilization", "restarts", "rounds", "plan_seconds_mean",
        "plan_seconds_p95", "plan_seconds_max", "plan_gap_max", "wall_seconds",
    ]  # fmt: skip
    assert rows[0]["jobs"] == 8
    assert rows[0]["makespan_seconds"] >= rows[0]["makespan_lower_bound_seconds"]


def test_a_window_counts_the_jobs_that_arrive_in_it(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    done = shockwave("simulate", trace, "--gpus", 4, "-p", "srtf", "--window", "0.25,0.75",
                     "--json", out)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "25%-75%" in done.stdout
    (row,) = json.loads(out.read_text())
    # Of arrivals at 0, 60, ... 420 s those from 105 to 315 s.
    assert (row["window"], row["counted_jobs"], row["jobs"]) == ([0.25, 0.75], 4, 8)
    assert row["makespan_seconds"] is None
    assert row["mean_jct_seconds"] > 0


@pytest.mark.parametrize("window", ["0.8,0.2", "early", "0.41,0.42"])
def test_a_window_that_cannot_be_is_refused_before_anything_runs(trace: Path, window: str) -> None:
    done = invoked("simulate", trace, "--gpus", 4, "--window", window)
    assert done.returncode == 2
    assert "--window" in done.stderr
    assert window in done.stderr
    assert done.stdout == ""


def test_the_same_command_twice_gives_the_same_json(tmp_path: Path) -> None:
    figures = []
    for name in ("first.json", "second.json"):
        done = shockwave(
            "simulate", "generated:jobs=8", "--gpus", 8, "--seed", 5, "--json", tmp_path / name
        )
        assert done.returncode == 0, done.stderr
        rows = json.loads((tmp_path / name).read_text())
        for row in rows:
            for key in WALL_CLOCK:
                row.pop(key)
        figures.append(rows)
    assert figures[0] == figures[1]


def test_several_seeds_in_processes_give_means_with_intervals(tmp_path: Path) -> None:
    out = tmp_path / "seeds.json"
    done = shockwave(
        "simulate", "generated:jobs=10", "--gpus", 8, "-p", "gavel", "--seeds", 3,
        "--workers", 2, "--json", out,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(out.read_text())
    assert row["runs"] == 3
    assert row["mean_jct_seconds"]["ci95"] > 0


def test_a_report_is_written_whole(trace: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    done = shockwave("simulate", trace, "--gpus", 4, "-p", "fifo", "--report", report)
    assert done.returncode == 0, done.stderr
    text = report.read_text()
    assert text.startswith("<!")
    assert text.rstrip().endswith("</html>")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


BAD_LINES = {
    "missing field": ({key: JOB[key] for key in JOB if key != "epochs"}, "epochs"),
    "negative epochs": (JOB | {"epochs": -3}, "epochs"),
    "unknown configuration": (JOB | {"schedule": [[32, 4], [128, 6]]}, "schedule"),
}


@pytest.mark.parametrize("case", BAD_LINES)
def test_a_bad_line_is_one_clear_line_and_exit_code_2(tmp_path: Path, case: str) -> None:
    line, field = BAD_LINES[case]
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(JOB | {"id": "fine"}) + "\n" + json.dumps(line) + "\n")
    done = invoked("simulate", path, "--gpus", 4)
    assert_one_line(done, "bad.jsonl", "line 2", field)


@pytest.mark.parametrize("content", ["{not json\n", "", "[1, 2]\n"])
def test_a_file_that_is_no_trace_is_one_clear_line(tmp_path: Path, content: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(content)
    assert_one_line(invoked("simulate", path, "--gpus", 4), "bad.jsonl")


def test_a_gang_larger_than_the_cluster_names_the_job_and_the_next_step(trace: Path) -> None:
    assert_one_line(invoked("simulate", trace, "--gpus", 1), "job 1", "--gpus 2")


def test_a_folder_and_a_missing_file(tmp_path: Path) -> None:
    assert_one_line(invoked("simulate", tmp_path, "--gpus", 4), str(tmp_path))
    assert_one_line(invoked("simulate", tmp_path / "none.jsonl", "--gpus", 4), "none.jsonl")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--gpus", 0), ("--gpus",)),
        (("--gpus", 4, "--round", 0), ("--round",)),
        (("--gpus", 4, "--restart", 120), ("--restart",)),
        (("--gpus", 4, "-p", "nope"), ("nope", "gavel")),
        (("--gpus", 4, "--predictor", "nope"), ("nope", "restatement")),
        (("--gpus", 4, "--json", "/nowhere/x.json"), ("/nowhere",)),
        (("--gpus", 4, "--faults", "/nowhere.jsonl"), ("/nowhere.jsonl",)),
    ],
)
def test_bad_options_are_one_clear_line(
    trace: Path, arguments: tuple[str | int, ...], words: tuple[str, ...]
) -> None:
    assert_one_line(invoked("simulate", trace, *arguments), *words)


def test_a_wrong_flag_is_exit_code_2(trace: Path) -> None:
    done = shockwave("simulate", trace, "--gpus", 4, "--polciy", "gavel")
    assert done.returncode == 2
    assert "--polciy" in done.stderr


def test_faults_are_injected(trace: Path, tmp_path: Path) -> None:
    faults = tmp_path / "faults.jsonl"
    faults.write_text('{"time": 200, "event": "job-crash", "job": "0"}\n')
    out = tmp_path / "figures.json"
    done = shockwave(
        "simulate", trace, "--gpus", 16, "-p", "fifo", "--faults", faults, "--json", out
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(out.read_text())[0]["restarts"] == 1


def test_a_journal_is_written_and_replays_to_the_same_figures(trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    done = shockwave("simulate", trace, "--gpus", 4, "-p", "las", "--journal", path)
    assert done.returncode == 0, done.stderr
    replayed = shockwave("replay", path, "--json")
    figures = json.loads(replayed.stdout)["figures"]
    assert all(abs(figure["relative_difference"]) < 1e-9 for figure in figures.values())


def test_a_journal_of_several_runs_is_refused(trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    done = shockwave("simulate", trace, "--gpus", 4, "-p", "las", "-p", "fifo", "--journal", path)
    assert_one_line(done, "--journal", "2 were asked for")
    assert not path.exists()


def assert_one_line(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    for word in words:
        assert word in lines[0], (word, lines[0])


def test_tenants_of_a_file_share_as_it_says_and_mistakes_are_named(tmp_path: Path) -> None:
    table, figures = tmp_path / "tenants.toml", tmp_path / "figures.json"
    table.write_text("[tenants.tenant-1]\nweight = 3\n[tenants.tenant-2]\nusers = ['ann']\n")
    words = ["simulate", "generated:jobs=16,tenants=2,span_hours=0.2", "--gpus", "8"]
    words += ["-p", "fifo", "--tenants", str(table), "--json", str(figures)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    (record,) = json.loads(figures.read_text())
    assert [one["tenant"] for one in record["tenants"]] == ["tenant-1", "tenant-2"]
    assert record["worst_tenant_share"] == min(one["share"] for one in record["tenants"])
    assert sum(one["jobs"] for one in record["tenants"]) == 16
    table.write_text("[tenants.tenant-1]\nmost = 0\n")
    assert "tenant-1 may hold 0 GPUs" in CliRunner().invoke(app, words).stderr
    table.write_text("[tenants.a]\nwieght = 2\n")
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, "tenants.a.wieght" in result.stderr) == (2, True)

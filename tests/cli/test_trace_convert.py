"""``shockwave trace convert`` and what takes its results: inspect and simulate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.traces import sources
from typer.testing import CliRunner

from shockwave.cli.main import app
from shockwave.traces import load, native


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result.exit_code, " ".join(result.output.split())


@pytest.mark.parametrize("name", sources.MAKERS)
def test_every_format_converts_and_says_what_it_left(tmp_path: Path, name: str) -> None:
    source = sources.MAKERS[name](tmp_path)
    out, rejects = tmp_path / "out.jsonl.gz", tmp_path / "rejects.jsonl"
    code, said = run("trace", "convert", source, "-o", out, "--rejects", rejects)
    assert code == 0, said
    jobs = native.read(out)
    assert jobs == load(source)
    rejected = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert f"Wrote {len(jobs)} of {len(jobs) + len(rejected)} rows ({name})" in said
    for reject in rejected:
        assert reject["line"] >= 1
        assert reject["text"]
        assert f"rows that {reject['reason']}" in said
    header = native.read_header(out)
    assert header is not None
    assert header["format"] == name


def test_a_source_can_be_simulated_directly(tmp_path: Path) -> None:
    source = sources.MAKERS["helios"](tmp_path)
    code, said = run("simulate", source, "--gpus", 8, "-p", "fifo", "--json", tmp_path / "out.json")
    assert code == 0, said
    assert json.loads((tmp_path / "out.json").read_text())[0]["jobs"] == 3


def test_options_reach_the_selection_and_the_synthesiser(tmp_path: Path) -> None:
    source = sources.MAKERS["helios"](tmp_path)
    out = tmp_path / "out.jsonl"
    code, said = run(
        "trace", "convert", source, "-o", out, "--gpus-max", 2, "--scale-arrivals", 2,
        "--synthesise", "-s", "gns=1", "--seed", 4, "--from-time", "2020-06-09 18:40:00",
    )  # fmt: skip
    assert code == 0, said
    assert "Left out: 1 by --gpus-max" in said
    jobs = native.read(out)
    assert [job.spec.arrival_seconds for job in jobs] == [0.0, 720.0]
    assert {str(job.spec.adaptation) for job in jobs} == {"gns"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "out.csv"], "--output: must end in .jsonl"),
        (["-o", "out.jsonl", "--from", "tarot"], "no such trace format (got 'tarot')"),
        (["-o", "out.jsonl", "-s", "gns=1"], "--set: needs --synthesise"),
        (["-o", "out.jsonl", "--profiles", "nowhere"], "nowhere: no such file or folder"),
        (["-o", "nowhere/out.jsonl"], "the folder does not exist"),
        (["-o", "out.jsonl", "--jobs", "0"], "--jobs: must be at least 1"),
        (["-o", "out.jsonl", "--from", "slurm"], "is no slurm trace: column 'JobID' is missing"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    source = sources.MAKERS["helios"](tmp_path)
    monkeypatch.chdir(tmp_path)
    code, said = run("trace", "convert", source, *arguments)
    assert code == 2
    assert message in said
    assert list(tmp_path.iterdir()) == [source]


def test_inspect_draws_a_page_that_needs_nothing_else(tmp_path: Path) -> None:
    source = sources.MAKERS["helios"](tmp_path)
    page = tmp_path / "page.html"
    code, said = run("trace", "inspect", source, "--gpus", 8, "--html", page)
    assert code == 0, said
    assert "users" in said
    text = page.read_text()
    for heading in ("Arrivals", "Load", "Runtimes", "GPUs per job", "Tenants and queues", "Users"):
        assert f"<h2>{heading}</h2>" in text
    assert "http" not in text.replace("http-equiv", "")
    run("trace", "inspect", source, "--html", page)
    assert page.read_text() == text


def test_inspect_counts_users_and_gpus_wanted_at_once(tmp_path: Path) -> None:
    source = sources.MAKERS["helios"](tmp_path)
    code, said = run("trace", "inspect", source, "--json")
    assert code == 0
    about = json.loads(said[said.index("{") :])
    assert about["users"] == {"ub": 2, "ua": 1}
    assert about["most_gpus_wanted"] == 10
    assert about["tenants"] == {"vc2": 2, "vc1": 1}

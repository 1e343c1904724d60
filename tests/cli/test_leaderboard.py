"""``shockwave leaderboard``: the same figures every time, a newcomer's policy, results kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shockwave.cli import leaderboard, leaderboard_cache
from shockwave.cli.main import app
from shockwave.traces import load, write
from shockwave.traces.families import FAMILIES

NEWCOMER = '''
from shockwave.policies.fifo import Fifo

class Mine(Fifo):
    """First come, first served, by another name."""
    name = "mine"
'''


@pytest.fixture(autouse=True)
def small_suite(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(leaderboard.SUITES, "quick", (("small", "long-rounds"), (101,)))
    recipe = "generated:jobs=8,max_hours=0.5,elastic=0.5,types=T4:1/A100:4"
    monkeypatch.setitem(leaderboard.ELASTIC, "half-elastic", (recipe, "T4:2x4,A100:1x4"))
    monkeypatch.chdir(tmp_path)


def run(*arguments: object) -> tuple[int, str]:
    given = [str(argument) for argument in ("leaderboard", "--workers", 1, *arguments)]
    result = CliRunner().invoke(app, given)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result.exit_code, " ".join(result.output.split())


def document(path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(path).read_text())
    return found


def test_two_runs_differ_in_wall_clock_only() -> None:
    chosen = ("--only", "fifo", "--only", "srtf")
    assert run(*chosen, "--cache", "one", "--json", "one.json")[0] == 0
    assert run(*chosen, "--cache", "two", "--json", "two.json")[0] == 0
    one, two = document("one.json"), document("two.json")
    assert one.pop("wall_clock") != two.pop("wall_clock")
    assert one == two
    assert len(one["runs"]) == 4
    assert one["ranks"]["srtf"]["mean_jct_seconds"]["rank"] == 1
    page = Path("leaderboard.html").read_text()
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert "long-rounds" in page


def test_elastic_workloads_are_the_same_every_time_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(leaderboard.SUITES, "quick", (("half-elastic",), (101,)))
    chosen = [part for name in ("allox", "pollux", "sia") for part in ("--only", name)]
    assert run(*chosen, "--cache", "one", "--json", "one.json")[0] == 0
    assert run(*chosen, "--cache", "two", "--json", "two.json")[0] == 0
    one, two = document("one.json"), document("two.json")
    assert one.pop("wall_clock") != two.pop("wall_clock")
    assert one == two
    assert {entry["finished_jobs"] for entry in one["runs"]} == {8}


def test_results_are_kept_until_what_they_follow_from_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "newcomers.py").write_text(NEWCOMER)
    monkeypatch.syspath_prepend(str(tmp_path))
    chosen = ("--only", "fifo", "-p", "newcomers:Mine", "--json", "out.json")
    code, said = run(*chosen)
    assert code == 0, said
    assert "known already" not in said
    ranks = document("out.json")["ranks"]
    assert ranks["newcomers:Mine"]["mean_jct_seconds"] == ranks["fifo"]["mean_jct_seconds"]

    assert "4 of 4 results are known already" in run(*chosen)[1]
    for file in Path(".leaderboard").glob("*.json"):
        file.write_text("{")  # damaged files are as good as none
    assert "known already" not in run(*chosen)[1]

    (tmp_path / "newcomers.py").write_text(NEWCOMER + "# changed\n")
    leaderboard_cache._policy_source.cache_clear()  # as a new process would begin
    assert "2 of 4 results are known already" in run(*chosen)[1]


def test_a_trace_at_hand_is_a_workload_too() -> None:
    write(load("generated:jobs=10,max_hours=0.5"), "mine.jsonl")
    code, said = run("--only", "fifo", "--trace", "mine.jsonl@16", "--json", "out.json")
    assert code == 0, said
    families = [entry["family"] for entry in document("out.json")["runs"]]
    assert families == ["small", "long-rounds", "mine.jsonl, 16 GPUs"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--suite", "endless"], "--suite: must be one of quick, standard, full"),
        (["-p", "nowhere:Mine"], "cannot be loaded"),
        (["--only", "fifo", "--trace", "x.jsonl"], "--trace: must be FILE@GPUS"),
        (["--only", "fifo", "--trace", "x.jsonl@8"], "--trace: no such file"),
        (["-o", "nowhere/page.html"], "the folder does not exist"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str) -> None:
    code, said = run(*arguments)
    assert code == 2
    assert message in said


def test_the_suites_name_families_that_exist() -> None:
    for families, seeds in leaderboard.SUITES.values():
        assert set(families) <= {*FAMILIES, *leaderboard.ELASTIC}
        assert seeds

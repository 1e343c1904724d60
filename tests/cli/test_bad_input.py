"""What is wrong is said in one line, with the place and the next step, before anything is done."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from shockwave.cli.main import app
from shockwave.engine.journal import FileJournal
from shockwave.executors.simulation import simulate
from shockwave.model.cluster import Cluster
from shockwave.policies import registry as policies
from shockwave.predict import registry as predictors
from shockwave.traces import load

WHAT_IF = ["what-if", "--journal", "run.jsonl"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bad")
    (made / "junk.txt").write_text("not a trace\n")
    (made / "empty").mkdir()
    (made / "job.yaml").write_text("command: ['true']\nepochs: many\n")
    shadow = made / "shadow"
    shadow.mkdir()
    (shadow / "seen.json").write_text('[{"number": "1"')
    with FileJournal(made / "run.jsonl") as journal:
        jobs, predictor = load("generated:jobs=3", seed=1), predictors.create("restatement")
        simulate(jobs, Cluster.uniform(4), policies.create("las"), predictor, journal=journal)
    return made


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["what-if", "--journal", "junk.txt", "--more-gpus", "1"], "junk.txt, line 1: not JSON"),
        (["what-if", "--journal", "empty", "--more-gpus", "1"], "Name a state directory"),
        (WHAT_IF, "nothing would be different. Name a job to submit"),
        ([*WHAT_IF, "--more-gpus", "-3"], "--more-gpus: Input should be greater than"),
        ([*WHAT_IF, "--more-type", "T4"], "gpu_type: is of no use without more_gpus (got 'T4')"),
        ([*WHAT_IF, "--drain", "n0@1999-01-01T00:00"], "--drain: lies in the past"),
        ([*WHAT_IF, "--drain", "n0@25:99"], "--drain: expected 22:00, 2h or"),
        ([*WHAT_IF, "--drain", "nowhere"], "no such node is up (got 'nowhere')"),
        ([*WHAT_IF, "--policy", "fiffo"], "no such policy (got 'fiffo'). There are: shockwave"),
        ([*WHAT_IF, "--tenant-weight", "=2"], "--tenant-weight: expected TENANT=FACTOR (got '=2')"),
        ([*WHAT_IF, "--tenant-weight", "a=nan"], "--tenant-weight.a: Input should be a finite"),
        ([*WHAT_IF, "--promise", "a:moost=3"], "--promise.a.moost: there is no such field"),
        ([*WHAT_IF, "--promise", "a:most=-3"], "--promise.a.most: Input should be greater"),
        ([*WHAT_IF, "--promise", "nobody:most=3"], "no such tenant is declared or has jobs"),
        (["submit", "--dry-run", "job.yaml"], "job.yaml, line 2, field epochs"),
        (["submit", "--dry-run", "none.yaml"], "none.yaml: No such file"),
        (["tenants", "../x", "weight=2"], "TENANT: is no name of a tenant (got '../x')"),
        (["shadow", "pbs"], "only slurm can be watched (got 'pbs')"),
        (["shadow", "slurm", "--report", "--state-dir", "empty"], "nothing was seen there yet"),
        (["shadow", "slurm", "--report", "--state-dir", "shadow"], "seen.json: is not what a shad"),
        (["shadow", "slurm", "-p", "nope", "--hours", "0"], "no such policy (got 'nope')"),
        (["serve", "--shadow", "pbs"], "only slurm can be watched (got 'pbs')"),
        (["report", "junk.txt", "--weekly"], "junk.txt, line 1: not JSON"),
        (["report", "run.jsonl", "--weekly", "--against", "nope"], "no such policy (got 'nope')"),
        (["report", "run.jsonl", "--weekly", "--mail-to", "boss"], "--mail-to: is no address"),
        (["report", "run.jsonl", "--weekly", "--mail-to", "a@b"], "--mail-to: there is no server"),
        (["trace", "convert", "generated:jobs=5", "-o", "x.jsonl"], "`shockwave trace generate"),
        (["trace", "convert", "junk.txt", "-o", "x.jsonl"], "no trace format recognises this"),
        (["trace", "inspect", "none.csv"], "none.csv: no such file"),
        (["reproduce", "nsdi23", "--source", "empty"], "git clone https://github.com/uw-mad-dash"),
        (["reproduce", "nsdi23", "--source", "empty", "-p", "nope"], "no such policy"),
        (["reproduce", "sia", "--source", "empty"], "git clone https://github.com/siasosp23"),
        (["leaderboard", "--trace", "junk.txt@4"], "junk.txt: no trace format recognises"),
        (["leaderboard", "--trace", "junk.txt"], "--trace: must be FILE@GPUS (got 'junk.txt')"),
        (["leaderboard", "--cache", "junk.txt"], "--cache: is not a folder (got 'junk.txt')"),
        (["leaderboard", "--only", "nope"], "no such policy (got 'nope')"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line_and_exit_code_2(
    folder: Path, arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    for name in ("SHOCKWAVE_SMTP", "SHOCKWAVE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    there = sorted(path.name for path in folder.iterdir())
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert words in done.stderr
    assert sorted(path.name for path in folder.iterdir()) == there, "something was written"

"""``shockwave trace`` and ``shockwave predict``."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.test_simulate import assert_one_line, shockwave


def test_generate_is_seeded_and_inspect_describes_it(tmp_path: Path) -> None:
    first, second, other = (tmp_path / f"{name}.jsonl" for name in ("first", "second", "other"))
    for path, seed in ((first, 7), (second, 7), (other, 8)):
        done = shockwave("trace", "generate", path, "-s", "jobs=12", "--seed", seed)
        assert done.returncode == 0, done.stderr
    assert first.read_bytes() == second.read_bytes() != other.read_bytes()
    described = shockwave("trace", "inspect", first, "--gpus", 8, "--json")
    assert json.loads(described.stdout)["jobs"] == 12
    shown = shockwave("trace", "inspect", first, "--gpus", 8)
    assert "jobs per GPU" in shown.stdout


def test_a_bad_knob_lists_the_good_ones(tmp_path: Path) -> None:
    done = shockwave("trace", "generate", tmp_path / "x.jsonl", "-s", "jbos=12")
    assert_one_line(done, "jbos", "jobs")
    assert not (tmp_path / "x.jsonl").exists()


def test_predict_scores_every_predictor_and_plots_calibration(tmp_path: Path) -> None:
    scores, plot = tmp_path / "scores.json", tmp_path / "calibration.svg"
    done = shockwave("predict", "generated:jobs=25", "--json", scores, "--plot", plot)
    assert done.returncode == 0, done.stderr
    found = json.loads(scores.read_text())
    names = {row["predictor"] for row in found["runtimes"]}
    assert found["speeds"] == []  # nobody has a choice
    assert {"restatement", "bayesian", "reactive"} <= names
    assert plot.read_text().startswith("<svg")

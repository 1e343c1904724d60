"""The names that others import from the top of the package. Changing one is a decision."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import shockwave
from shockwave.model.job import JobSpec, Regime

PUBLIC = [
    "Cluster",
    "Decision",
    "Forecast",
    "InputError",
    "Policy",
    "TraceJob",
    "View",
    "__version__",
    "compare",
    "generate",
    "load",
    "simulate",
]


class LongestFirst(shockwave.Policy):
    """A policy of one's own."""

    name = "longest-first"
    predictor = "restatement"

    def decide(self, view: shockwave.View, forecast: shockwave.Forecast) -> shockwave.Decision:
        order = np.argsort(-forecast.remaining_seconds, kind="stable")
        room, chosen = view.gpus_total, []
        for index in order:
            if view.gpus[index] <= room:
                room -= int(view.gpus[index])
                chosen.append(int(index))
        return shockwave.Decision(np.array(chosen, dtype=np.int64))


def test_exactly_these_names_are_public_and_documented() -> None:
    assert sorted(shockwave.__all__) == PUBLIC
    assert len(PUBLIC) <= 12
    for name in PUBLIC:
        assert getattr(shockwave, name).__doc__


def test_importing_the_package_stays_light() -> None:
    """Extras and heavy doors are imported where they are used, not by everybody."""
    script = (
        "import sys, shockwave\n"
        "heavy = {'torch', 'ray', 'highspy', 'scipy', 'matplotlib', 'fastapi', 'sqlalchemy',"
        " 'typer', 'pytest', 'hypothesis', 'pandas', 'zstandard'} & set(sys.modules)\n"
        "sys.exit(f'imported: {sorted(heavy)}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_policies_by_name_and_of_ones_own_are_compared(tmp_path: Path) -> None:
    jobs = shockwave.generate(jobs=15, seed=3, max_hours=0.5)
    comparison = shockwave.compare(jobs, 8, ["fifo", LongestFirst()])
    assert [result.policy for result in comparison] == ["fifo", "longest-first"]
    assert comparison["longest-first"].figures["jobs"] == 15
    assert comparison.figures[0]["mean_jct_seconds"] > 0
    comparison.report(tmp_path / "report.html", "Ours")
    assert "longest-first" in (tmp_path / "report.html").read_text()


def test_a_comparison_gives_the_figures_of_the_command_line(tmp_path: Path) -> None:
    from shockwave.cli.runs import Run, execute
    from shockwave.engine.rounds import Rounds

    recipe = "generated:jobs=12,max_hours=0.5"
    cluster = shockwave.Cluster.uniform(8, 4)
    expected = execute(Run(recipe, "themis", 0, cluster, Rounds(120.0, 20.0))).summary
    figures = shockwave.simulate(shockwave.load(recipe), 8, "themis").figures
    timed = ("wall_seconds", "trace", "plan_seconds_mean", "plan_seconds_p95", "plan_seconds_max")
    assert {key: value for key, value in figures.items() if key not in timed} == {
        key: value for key, value in expected.items() if key not in timed
    }


def test_figures_become_a_frame_where_pandas_is_there() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    frame = shockwave.compare(shockwave.generate(5, max_hours=0.3), 8, ["fifo", "las"]).frame()
    assert list(frame.index) == ["fifo", "las"]
    assert frame.loc["las", "jobs"] == 5


def test_numbers_of_numpy_are_as_good_as_others() -> None:
    spec = JobSpec(
        id="a",
        arrival_seconds=np.float64(0.0),
        gpus=np.int64(2),  # type: ignore[arg-type]
        epochs=np.int32(4),  # type: ignore[arg-type]
        configurations=(np.int64(32),),  # type: ignore[arg-type]
        epoch_seconds=(np.float32(60.0),),  # type: ignore[arg-type]
    )
    regime = Regime(np.int64(32), np.int64(4), np.float32(60.0))  # type: ignore[arg-type]
    job = shockwave.TraceJob(spec, (regime,))
    figures = shockwave.simulate([job], np.int64(4), "fifo").figures  # type: ignore[arg-type]
    assert figures["makespan_seconds"] == pytest.approx(260.0)


def test_mistakes_are_input_errors() -> None:
    with pytest.raises(shockwave.InputError, match=r"no such knob of a workload: .*colour"):
        shockwave.generate(5, colour="red")
    with pytest.raises(shockwave.InputError, match="no such policy"):
        shockwave.simulate(shockwave.generate(5), 8, "astrology")

"""SIGKILL at random moments, twenty times: little is lost, and nothing is different at the end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.train.helpers import finish, start
from tests.train.killed_training import SAVE_EVERY, STEPS

KILLS = 20


@pytest.mark.parametrize("kind", ["plain", "lightning", "huggingface"])
def test_a_killed_job_loses_no_more_than_it_may(tmp_path: Path, kind: str) -> None:
    if kind != "plain":
        pytest.importorskip("torch", reason="needs PyTorch")
        pytest.importorskip(
            "lightning" if kind == "lightning" else "transformers", reason=f"needs {kind}"
        )
    script = Path(__file__).with_name("killed_training.py")
    out = finish(start(["-W", "ignore", str(script), kind, str(tmp_path), str(KILLS)], {}))
    result = json.loads(out.splitlines()[-1])
    assert len(result["launches"]) >= KILLS
    for reached, began in result["launches"]:
        # The very last step may have been saved before it was noted.
        assert began <= reached + 1, f"skipped steps: began at {began}, {reached} were done"
        assert reached - began <= SAVE_EVERY + STEPS, f"lost {reached - began} steps"
    assert result["weights"] == pytest.approx(result["whole"], rel=1e-6), "other weights at the end"

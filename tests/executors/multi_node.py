"""Two ranks of PyTorch on two nodes, preempted and resumed: for every backend the same."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from shockwave.engine.executor import Launch
from shockwave.executors.gangs.executor import GangExecutor
from shockwave.model.command import Command
from shockwave.model.events import JobStopped, Placement
from shockwave.model.job import Adaptation, JobSpec
from shockwave.testing.executors import Watch

EPOCHS = 12
DDP = Path(__file__).resolve().parents[2] / "examples" / "ddp_gloo.py"
COMMAND = Command(
    (sys.executable, str(DDP), "--epochs", str(EPOCHS)),
    str(DDP.parent),
    {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
)
BATCH_SIZES = (32, 64, 128, 256)
PLACEMENT: Placement = (("n0", (0,)), ("n1", (0,)))
BESIDE: Placement = (("n0", (1,)), ("n1", (1,)))
STEP_SECONDS = 0.5
PATIENCE_SECONDS = 240.0  # a busy machine takes long to start PyTorch


def job(name: str) -> JobSpec:
    return JobSpec(name, 0.0, 2, EPOCHS, BATCH_SIZES, (1.0,) * 4, Adaptation.GNS)


def is_as_good_as_uninterrupted(executor: GangExecutor) -> None:
    """Both jobs of ``executor``, side by side: the same losses to the last digit."""
    watch = Watch(executor, STEP_SECONDS, int(PATIENCE_SECONDS / STEP_SECONDS))
    interrupted, whole = job("interrupted"), job("whole")
    watch.poll()  # a backend looks at its nodes before it is told to use them
    watch.launch([Launch(0, interrupted, PLACEMENT, 1), Launch(1, whole, BESIDE, 1)])
    watch.until(lambda: watch.epochs(0) >= 2)
    executor.stop(np.array([0]))
    watch.poll()
    watch.launch([Launch(0, interrupted, PLACEMENT, 2)])
    watch.until_finished([interrupted, whole])
    assert not watch.of(JobStopped)
    assert losses(executor, "interrupted", launches=2) == losses(executor, "whole", launches=1)


def losses(executor: GangExecutor, name: str, *, launches: int) -> list[float]:
    """The losses of all epochs, which were run in so many launches."""
    said = [_epochs(executor.folder(name) / f"reports-{g}.jsonl") for g in (1, 2)]
    assert sum(map(bool, said)) == launches, "the second launch trains what the first has left"
    epochs = [line["epoch"] for lines in said for line in lines]
    assert epochs == list(range(1, EPOCHS + 1)), "no epoch twice, none left out"
    return [line["loss"] for lines in said for line in lines]


def _epochs(path: Path) -> list[dict[str, float]]:
    if not path.exists():
        return []
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if line["event"] == "epoch"]

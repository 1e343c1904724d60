"""Trains in children that are killed at random moments, until one ends; run by test_killed.py.

    python killed_training.py plain|lightning|huggingface FOLDER KILLS

Prints one JSON object: the weights at the end, those of an undisturbed run, and for every kill
the steps that were done then and the step that the next launch began with. A process of its
own, because it forks: the framework is imported once.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.train.helpers import FakeScheduler

from shockwave.train import Session, session

EPOCHS, STEPS, BATCH = 12, 12, 4
SAVE_EVERY = 5  # steps: the session's clock counts them
STEP_SECONDS = 0.002
_steps = 0  # of this launch
_marks = -1  # where a step is noted, so that the parent knows of it after a kill


def step_done(number: int) -> None:
    """After every step; ``number`` counts over all launches, from 0."""
    global _steps
    _steps += 1
    os.write(_marks, f"{number}\n".encode())
    time.sleep(STEP_SECONDS)


def train_plain(job: Session, folder: Path) -> list[float]:
    state: dict[str, Any] = job.load() or {"step": 0, "weights": np.zeros(3)}
    for step in range(int(state["step"]), EPOCHS * STEPS):
        sample = np.random.default_rng(step).normal(size=3)
        state["weights"] = state["weights"] + 0.1 * (sample - state["weights"])
        state["step"] = step + 1
        step_done(step)
        if (step + 1) % STEPS == 0:
            job.report((step + 1) // STEPS, BATCH, STEPS * BATCH, 0.0)
        job.should_stop()
        if job.should_save():
            job.save(state)
    weights: list[float] = np.asarray(state["weights"]).tolist()
    return weights


def train_lightning(job: Session, folder: Path) -> list[float]:
    from tests.train import test_lightning as example

    class Marked(example.Regression):
        def on_train_batch_end(self, *_: Any) -> None:
            step_done(self.global_step - 1)

    example.EPOCHS, example.BATCHES, example.Regression = EPOCHS, STEPS, Marked  # type: ignore
    return [float(w) for w in example.fit(job, folder).layer.weight.flatten()]


def train_huggingface(job: Session, folder: Path) -> list[float]:
    from tests.train import test_huggingface as example
    from transformers import TrainerCallback

    class Marks(TrainerCallback):  # type: ignore[misc, unused-ignore]
        def __init__(self, _: object) -> None:
            pass

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            step_done(state.global_step - 1)

    example.EPOCHS, example.STEPS, example.Act = EPOCHS, STEPS, Marks  # type: ignore
    return [float(w) for w in example.fit(job, folder).model.layer.weight.flatten()]


TRAIN: dict[str, Callable[[Session, Path], list[float]]] = {
    "plain": train_plain,
    "lightning": train_lightning,
    "huggingface": train_huggingface,
}


def launch(kind: str, scheduler: FakeScheduler, folder: Path) -> int:
    """Forks a launch of the job; returns its process id."""
    child = os.fork()
    if child:
        return child
    global _marks
    name = folder / f"marks-{scheduler.generation}"
    _marks = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    status = 1
    try:
        with session(
            epochs=EPOCHS,
            batch_size=BATCH,
            save_every=SAVE_EVERY,
            environment=scheduler.environment(),
            steady_clock=lambda: float(_steps),
        ) as job:
            weights = TRAIN[kind](job, folder / "out")
        (folder / "weights.json").write_text(json.dumps(weights))
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)


def marks(folder: Path, generation: int) -> list[int]:
    path = folder / f"marks-{generation}"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [int(line) for line in lines if line.endswith("\n")]


def wait_for_steps(folder: Path, generation: int, steps: int) -> None:
    while len(marks(folder, generation)) < steps:
        time.sleep(0.001)


def run(kind: str, folder: Path, kills: int) -> dict[str, Any]:
    folder.mkdir(parents=True)
    scheduler, moments = FakeScheduler(folder / "job"), random.Random(7)
    lost: list[list[int]] = []
    reached, status = 0, -1
    while status != 0:
        child = launch(kind, scheduler, folder)
        if len(lost) < kills:
            wait_for_steps(folder, scheduler.generation, moments.randrange(9))
            time.sleep(moments.uniform(0.0, 3 * STEP_SECONDS))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        seen = marks(folder, scheduler.generation)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
            raise SystemExit("a launch failed by itself")
        if seen:
            lost.append([reached, seen[0]])
            reached = seen[-1] + 1
        elif status != 0:
            lost.append([reached, reached])  # killed before its first step
        scheduler.launch(scheduler.generation + 1)
    return {"weights": json.loads((folder / "weights.json").read_text()), "launches": lost}


def main() -> None:
    kind, folder, kills = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    if kind != "plain":
        import torch

        torch.set_num_threads(1)
        __import__(f"tests.train.test_{kind}")
    whole = run(kind, folder / "whole", 0)
    killed = run(kind, folder / "killed", kills)
    print(json.dumps({"whole": whole["weights"], **killed}))


if __name__ == "__main__":
    main()

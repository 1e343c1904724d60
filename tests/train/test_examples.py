"""The examples run, survive preemption unchanged, and lose no accuracy by adapting."""

from __future__ import annotations

import importlib
import json
import os
import signal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.train.helpers import EXAMPLES, FakeScheduler, finish, start, wait_until

from shockwave.train import Session, session


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    torch.set_num_threads(1)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("compare")


@pytest.mark.parametrize(
    ("technique", "epochs"),
    [
        ("accordion", 6),
        ("noise scale", 6),
        # A model that loses three quarters of its neurons needs time to recover from it: with
        # 8 epochs it stays 2.1 points behind.
        ("pruning", 12),
    ],
)
def test_accuracy_with_adaptation_holds(compare: ModuleType, technique: str, epochs: int) -> None:
    """Within two points of the accuracy without, on the mean of three seeds."""
    seeds = range(3)
    plain = [compare.run(technique, epochs, seed, adapt=False) for seed in seeds]
    adapted = [compare.run(technique, epochs, seed, adapt=True) for seed in seeds]
    without = sum(outcome.accuracy for outcome in plain) / len(plain)
    with_adaptation = sum(outcome.accuracy for outcome in adapted) / len(adapted)
    assert without > 0.8, "the problem was not even learned"
    assert with_adaptation > without - 0.02
    if technique == "pruning":
        assert all(outcome.parameters == 2058 for outcome in adapted)
        assert all(outcome.parameters == 20490 for outcome in plain)
    else:
        assert all(a.steps < 0.8 * p.steps for a, p in zip(adapted, plain, strict=True))


def stop_in_call(job: Session, number: int) -> None:
    """Sends the process a real SIGTERM at the ``number``-th question whether to stop."""
    asked = job.should_stop
    calls = 0

    def should_stop() -> bool:
        nonlocal calls
        calls += 1
        if calls == number:
            os.kill(os.getpid(), signal.SIGTERM)
        return asked()

    job.should_stop = should_stop  # type: ignore[method-assign]


@pytest.mark.parametrize("technique", ["accordion", "noise scale", "pruning"])
def test_a_preempted_example_ends_with_the_same_numbers(
    compare: ModuleType, tmp_path: Path, technique: str
) -> None:
    epochs = 4
    expected = compare.run(technique, epochs, 1, adapt=True)
    outcome = None
    launches = 0
    while outcome is None or outcome.epochs < epochs:
        launches += 1
        with session(tmp_path, environment={}) as job:
            stop_in_call(job, 43)  # in the middle of some epoch
            outcome = compare.TECHNIQUES[technique].train(job, epochs, 1)
    assert launches > 3
    assert outcome.accuracy == expected.accuracy
    assert outcome.loss == expected.loss
    assert outcome.parameters == expected.parameters


def numpy_job(scheduler: FakeScheduler, epoch_seconds: float) -> Any:
    script = str(EXAMPLES / "numpy_sgd.py")
    command = [script, "--epochs", "6", "--epoch-seconds", str(epoch_seconds)]
    return start(command, scheduler.environment())


@pytest.mark.parametrize("how", ["signal", "lease"])
def test_the_numpy_job_continues_where_it_was_stopped(tmp_path: Path, how: str) -> None:
    alone = FakeScheduler(tmp_path / "alone")
    expected = json.loads(finish(numpy_job(alone, 0.0)))
    assert expected["accuracy"] > 0.9
    assert expected["batch_size"] > 32

    scheduler = FakeScheduler(tmp_path / "job")
    process = numpy_job(scheduler, 5.0)
    wait_until(lambda: "started" in scheduler.events(), process)
    if how == "signal":
        process.send_signal(signal.SIGTERM)
    else:
        scheduler.lease(stop=True)
    assert json.loads(finish(process)) == {"stopped": True, "epoch": 0}
    assert scheduler.events() == ["started", "saved", "stopped"]

    scheduler.launch(2)
    assert json.loads(finish(numpy_job(scheduler, 0.0))) == expected
    events = scheduler.events()
    assert (events[0], events[-1]) == ("started", "done")
    assert events.count("epoch") == 6
    assert "regime" in events

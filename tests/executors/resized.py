"""One job that grows from 1 rank to 4, shrinks to 2, and moves to another type of GPU.

The round loop does it, with a policy that orders the options one after the other; the same for
every backend. The losses are those of a run that nobody disturbed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tests.engine.runs import ListJournal
from tests.executors import elastic_job
from tests.executors.local.test_with_loop import Given, RealTime

from shockwave.engine.log import Log
from shockwave.engine.loop import RoundLoop
from shockwave.engine.state import SchedulerState
from shockwave.executors.gangs.executor import GangExecutor
from shockwave.model.cluster import Node
from shockwave.model.command import Command
from shockwave.model.events import JobFinished, JobStarted, JobStopped, RunStarted, StopReason
from shockwave.model.job import JobSpec
from shockwave.model.options import Option
from shockwave.model.view import View
from shockwave.policies.base import Decision, Policy
from shockwave.predict.base import Forecast
from shockwave.predict.reactive import Reactive
from shockwave.train import session

JOB = "elastic"
GPU_COUNTS = (1, 4, 2, 2)  # the last on the other type
EPOCHS = elastic_job.EPOCHS_A_LAUNCH * len(GPU_COUNTS)
PATIENCE_SECONDS = 600.0
ROUND_SECONDS = 0.5


def command(workdir: Path) -> Command:
    argv = (sys.executable, elastic_job.__file__, str(EPOCHS), str(len(GPU_COUNTS)))
    return Command(argv, str(workdir), {"OMP_NUM_THREADS": "1"})


class OneAfterTheOther(Policy):
    """Another option after every two epochs."""

    name = "one-after-the-other"

    def __init__(self, options: Sequence[Option]) -> None:
        self._options = options

    def decide(self, view: View, forecast: Forecast) -> Decision:
        if not len(view):
            return Decision(np.empty(0, dtype=np.int64))
        assert view.options is not None
        phase = int(view.epochs_done[0]) // elastic_job.EPOCHS_A_LAUNCH
        wanted = self._options[min(phase, len(self._options) - 1)]
        return Decision(np.array([0]), options=np.array([view.options.keys.index(wanted)]))


def has_the_losses_of_an_undisturbed_run(
    executor: GangExecutor, first: str, second: str, origin: float, folder: Path
) -> None:
    """``executor`` has the command for ``JOB``, and GPUs of the types ``first`` and ``second``."""
    nodes = executor.nodes()
    assert nodes is not None
    types = [first] * (len(GPU_COUNTS) - 1) + [second]
    options = [Option(name, gpus) for name, gpus in zip(types, GPU_COUNTS, strict=True)]
    journal = _run(executor, nodes, options, origin)
    starts = [event for event in journal.events if isinstance(event, JobStarted)]
    assert [event.option for event in starts] == options
    type_of = {node.id: node.gpu_type for node in nodes}
    for event, option in zip(starts, options, strict=True):
        assert sum(len(slots) for _, slots in event.placement) == option.gpus
        assert {type_of[node] for node, _ in event.placement} == {option.gpu_type}
    stops = [event.reason for event in journal.events if isinstance(event, JobStopped)]
    assert stops == [StopReason.RESIZED] * (len(options) - 1)
    found = [_losses(executor.folder(JOB) / f"reports-{n}.jsonl") for n in (1, 2, 3, 4)]
    assert [len(losses) for losses in found] == [elastic_job.EPOCHS_A_LAUNCH] * len(options)
    np.testing.assert_allclose(np.concatenate(found), _undisturbed(folder), rtol=1e-12)


def _run(
    executor: GangExecutor, nodes: tuple[Node, ...], options: Sequence[Option], origin: float
) -> ListJournal:
    job = JobSpec(
        JOB,
        0.0,
        gpus=1,
        epochs=EPOCHS,
        configurations=(elastic_job.BATCH_SIZE,),
        epoch_seconds=(0.1,),
        gpu_counts=tuple(sorted(set(GPU_COUNTS))),
    )
    journal, state = ListJournal(), SchedulerState()
    log = Log(state, journal)
    began = RunStarted(
        0.0,
        policy=OneAfterTheOther.name,
        predictor=Reactive.name,
        trace="",
        nodes=nodes,
        round_seconds=ROUND_SECONDS,
        restart_seconds=0.1,
        seed=0,
        version="0",
    )
    log.emit(began)
    loop = RoundLoop(
        policy=OneAfterTheOther(options),
        predictor=Reactive(),
        executor=executor,
        feed=Given([job]),
        log=log,
        clock=RealTime(origin),
    )
    deadline = time.monotonic() + PATIENCE_SECONDS
    while loop.step() and not any(isinstance(event, JobFinished) for event in journal.events):
        assert time.monotonic() < deadline, journal.events[-20:]
    assert any(isinstance(event, JobFinished) for event in journal.events), journal.events[-20:]
    return journal


def _losses(reports: Path) -> list[float]:
    lines = [json.loads(line) for line in reports.read_text().splitlines()]
    return [line["loss"] for line in lines if line["event"] == "epoch"]


def _undisturbed(folder: Path) -> list[float]:
    with session(folder, epochs=EPOCHS, environment={}) as job:
        elastic_job.train(job, EPOCHS, launches=1)
        return [float(str(r["loss"])) for r in job.reports if r["event"] == "epoch"]

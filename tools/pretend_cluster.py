"""A cluster that only pretends: jobs get on by the clock, and no process is ever started.

For looking at the dashboard with hundreds of running jobs on a small machine
(``tools/dashboard_images.py``, ``bench/dashboard.py``):
``shockwave serve --executor tools.pretend_cluster:PretendExecutor``.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from shockwave.engine.executor import Launch
from shockwave.executors import options
from shockwave.executors.live import LiveExecutor, Site
from shockwave.model.cluster import Node
from shockwave.model.events import Event, JobFinished, JobRunning, Progressed, RegimeChanged
from shockwave.model.view import Ints
from shockwave.protocol.paths import JobPaths


class PretendOptions(options.SiteOptions):
    speed: float = 1.0
    """How many seconds of work a job does in a second."""
    types: str = ""
    """Types of the nodes in turn, with commas."""
    writes: bool = False
    """Whether jobs seem to report and to write output."""


@dataclass
class _Gang:
    """A job's progress, kept over its launches."""

    launch: Launch
    running: bool = True
    confirmed: bool = False
    epochs: float = 0.0
    regime: int = 0
    productive: float = 0.0
    seen: float = 0.0
    held: float = 0.0
    worked: float = 0.0
    told_epoch: int = 0


class PretendExecutor(LiveExecutor):
    """Epochs take what the job declares; at each third of them it may change its configuration."""

    name: ClassVar[str] = "pretend"
    SiteOptions = PretendOptions

    def __init__(self, site: Site) -> None:
        self._site = site
        self._options = site.options_as(PretendOptions)
        self._gangs: dict[int, _Gang] = {}

    @classmethod
    def at(cls, site: Site) -> Self:
        return cls(site)

    def nodes(self) -> tuple[Node, ...]:
        types = self._options.types.split(",") if self._options.types else [""]
        return tuple(
            replace(node, gpu_type=types[number % len(types)] or node.gpu_type)
            for number, node in enumerate(self._site.nodes)
        )

    def launch(self, launches: Sequence[Launch]) -> None:
        for launch in launches:
            known = self._gangs.setdefault(launch.handle, _Gang(launch))
            known.launch, known.running, known.confirmed = launch, True, False
            known.seen = self._now()

    def adopt(self, launches: Sequence[Launch]) -> None:
        for launch in launches:
            gang = self._gangs[launch.handle] = _Gang(launch, confirmed=True, seen=self._now())
            if launch.known is not None:
                gang.epochs = launch.known.epochs_done
                gang.told_epoch = int(gang.epochs)
                gang.productive = launch.known.productive_seconds

    def stop(self, handles: Ints) -> None:
        for handle in handles.tolist():
            if handle in self._gangs:
                self._gangs[handle].running = False

    def poll(self, until: float) -> list[Event]:
        time.sleep(max(0.0, until - self._now()))
        events: list[Event] = []
        for handle, gang in list(self._gangs.items()):
            if gang.running:
                events += self._go_on(gang, until)
                if gang.epochs >= gang.launch.job.epochs:
                    events.append(JobFinished(until, gang.launch.job.id, gang.productive))
                    del self._gangs[handle]
        return events

    def _go_on(self, gang: _Gang, until: float) -> list[Event]:
        job, events = gang.launch.job, list[Event]()
        seconds, gang.seen = max(until - gang.seen, 0.0) * self._options.speed, until
        if not gang.confirmed:
            gang.confirmed = True
            events.append(JobRunning(until, job.id))
            if gang.launch.attempt == 1:
                events.append(RegimeChanged(until, job.id, 0, job.configurations[0]))
        gang.held += seconds
        gang.worked += seconds
        gang.productive += seconds
        took = job.epoch_seconds[gang.regime]
        gang.epochs = min(gang.epochs + seconds / took, float(job.epochs))
        regime = min(int(3 * gang.epochs / job.epochs), len(job.configurations) - 1)
        if regime > gang.regime:
            gang.regime = regime
            epoch, configuration = int(gang.epochs), job.configurations[regime]
            events.append(RegimeChanged(until, job.id, epoch, configuration))
        if self._options.writes:
            self._write(gang)
        return events

    def _write(self, gang: _Gang) -> None:
        job = gang.launch.job
        paths = JobPaths.of(self._site.state_dir, job.id)
        paths.log(0).parent.mkdir(parents=True, exist_ok=True)
        while gang.told_epoch < int(gang.epochs):
            gang.told_epoch += 1
            epoch, wave = gang.told_epoch, math.sin(1.7 * gang.told_epoch + gang.launch.handle)
            loss = 2.2 * math.exp(-3.0 * epoch / job.epochs) + 0.25 + 0.03 * wave
            took = job.epoch_seconds[gang.regime] * (1.0 + 0.04 * wave)
            report = {
                "event": "epoch", "time": self._site.clock(), "epoch": epoch, "seconds": took,
                "configuration": job.configurations[gang.regime], "loss": loss,
                "metrics": {"accuracy": 0.94 - 0.3 * loss, "gradient noise": 40 + 9 * epoch**0.5},
            }  # fmt: skip
            with paths.reports(gang.launch.attempt).open("a") as file:
                file.write(json.dumps(report) + "\n")
            with paths.log(0).open("a") as file:
                file.write(
                    f"epoch {epoch:4d}/{job.epochs}  loss {loss:.4f}  "
                    f"batch {job.configurations[gang.regime]}  {took:.1f} s\n"
                )

    def progress(self, handles: Ints | None = None) -> Progressed:
        told = [
            (handle, gang)
            for handle, gang in self._gangs.items()
            if gang.held > 0 and (handles is None or handle in handles)
        ]
        columns = np.array(
            [
                (handle, gang.epochs, gang.regime, gang.launch.job.epoch_seconds[gang.regime],
                 gang.worked, gang.held)
                for handle, gang in told
            ]
        ).reshape(-1, 6)  # fmt: skip
        for _, gang in told:
            gang.held = gang.worked = 0.0
        handle, epochs, regime, took, worked, held = columns.T
        saved = np.zeros(len(told))
        return Progressed(
            self._now(), handle.astype(np.int64), epochs, regime.astype(np.int64), took, worked,
            held, unsaved_seconds=saved,
        )  # fmt: skip

    def shutdown(self, stop_jobs: bool) -> None:
        self._gangs.clear()

    def _now(self) -> float:
        return self._site.clock() - self._site.origin_unix

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
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from shockwave.engine.executor import Launch
from shockwave.executors import options
from shockwave.executors.live import LiveExecutor, Site
from shockwave.model.cluster import Node
from shockwave.model.events import Event, JobFinished, JobRunning, RegimeChanged
from shockwave.model.progress import Progressed
from shockwave.model.view import Ints
from shockwave.protocol.paths import JobPaths


class PretendOptions(options.SiteOptions):
    speed: float = 1.0
    """How many seconds of work a job does in a second."""
    like: str = ""
    """The nodes, as ``NAME:GPUS:TYPE`` with commas. Without it, those of the settings."""
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


def seems(epoch: int, epochs: int, size: int, seconds: float, now: float) -> tuple[str, str]:
    """What a job seems to report of an epoch, and the line that it seems to write."""
    wave = math.sin(1.7 * epoch)
    loss = 2.1 * math.exp(-3.2 * epoch / epochs) + 0.3 + 0.02 * wave
    took, accuracy = seconds * (1.0 + 0.03 * wave), 0.95 - 0.28 * loss
    report = {
        "event": "epoch", "time": now, "epoch": epoch, "configuration": size, "seconds": took,
        "loss": loss, "metrics": {"accuracy": accuracy, "gradient noise": 40 + 9 * epoch**0.5},
    }  # fmt: skip
    line = f"epoch {epoch:4d}/{epochs}  loss {loss:.4f}  accuracy {accuracy:.3f}  batch {size}\n"
    return json.dumps(report) + "\n", line


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
        if not self._options.like:
            return self._site.nodes
        told = (node.split(":") for node in self._options.like.split(","))
        return tuple(Node(name, int(gpus), kind) for name, gpus, kind in told)

    def launch(self, launches: Sequence[Launch]) -> None:
        for launch in launches:
            gang = self._gangs.get(launch.handle) or self._found(launch)
            gang.launch, gang.running, gang.confirmed = launch, True, False
            gang.seen = self._now()

    def adopt(self, launches: Sequence[Launch]) -> None:
        for launch in launches:
            self._found(launch).confirmed = True

    def _found(self, launch: Launch) -> _Gang:
        """A job that goes on from where the scheduler knows it to be."""
        gang = self._gangs[launch.handle] = _Gang(launch, seen=self._now())
        known, job = launch.known, launch.job
        if known is not None:
            gang.epochs, gang.told_epoch = known.epochs_done, int(known.epochs_done)
            gang.productive = known.productive_seconds
            if known.configuration in job.configurations:
                gang.regime = job.configurations.index(known.configuration)
        return gang

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
            size, took = job.configurations[gang.regime], job.epoch_seconds[gang.regime]
            told, line = seems(gang.told_epoch, job.epochs, size, took, self._site.clock())
            with paths.reports(gang.launch.attempt).open("a") as file:
                file.write(told)
            with paths.log(0).open("a") as file:
                file.write(line)

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

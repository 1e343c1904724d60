"""An executor as another package would bring it: every gang is one process of this machine.

A job counts its finished epochs in the file ``$EPOCHS_FILE`` and goes on from there when it is
started again. ``shockwave serve --executor tests.plugins.scripted_executor:ScriptedExecutor``
"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from pydantic import Field

from shockwave.engine.executor import Launch
from shockwave.executors import options
from shockwave.executors.live import LiveExecutor, Site
from shockwave.model.cluster import Node
from shockwave.model.events import Event, JobFinished, JobStopped, Progressed, StopReason
from shockwave.model.view import Ints


class ScriptedSiteOptions(options.SiteOptions):
    wrapper: str = Field("env", min_length=1)
    """What every job is started by."""


class ScriptedJobOptions(options.JobOptions):
    greeting: str | None = Field(None, max_length=80)
    """Told to the job as $GREETING."""


@dataclass
class Gang:
    launch: Launch
    process: subprocess.Popen[bytes] | None  # None for one that an earlier scheduler started
    epochs_file: Path
    seen_seconds: float  # when it was last looked at
    untold_seconds: float = 0.0  # that it ran and nobody was told of

    def take_untold(self) -> float:
        seconds, self.untold_seconds = self.untold_seconds, 0.0
        return seconds

    def epochs(self) -> int:
        try:
            return min(int(self.epochs_file.read_text() or 0), self.launch.job.epochs)
        except FileNotFoundError:
            return 0


class ScriptedExecutor(LiveExecutor):
    """Gangs as single processes, which are stopped when the scheduler ends."""

    name: ClassVar[str] = "scripted"
    SiteOptions = ScriptedSiteOptions
    JobOptions = ScriptedJobOptions

    def __init__(self, site: Site) -> None:
        self._site = site
        self._wrapper = shlex.split(site.options_as(ScriptedSiteOptions).wrapper)
        self._gangs: dict[int, Gang] = {}
        self._untold: dict[int, Gang] = {}
        self._productive: dict[int, float] = {}  # seconds by handle, over all launches

    @classmethod
    def at(cls, site: Site) -> Self:
        return cls(site)

    def nodes(self) -> tuple[Node, ...]:
        return self._site.nodes

    def launch(self, launches: Sequence[Launch]) -> None:
        for launch in launches:
            folder = self._site.state_dir / "jobs" / launch.job.id
            (folder / "logs").mkdir(parents=True, exist_ok=True)
            command = self._site.command_of(launch.job.id)
            environment = {**os.environ, **command.env, "EPOCHS_FILE": str(folder / "epochs")}
            if "greeting" in command.options:
                environment["GREETING"] = command.options["greeting"]
            with (folder / "logs" / "rank-0.log").open("ab") as log:
                process = subprocess.Popen(
                    [*self._wrapper, *command.argv],
                    cwd=command.workdir,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            self._gangs[launch.handle] = Gang(launch, process, folder / "epochs", self._now())

    def stop(self, handles: Ints) -> None:
        gangs = [gang for handle in handles.tolist() if (gang := self._gangs.pop(handle, None))]
        processes = [gang.process for gang in gangs if gang.process is not None]
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(self._site.grace_seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def poll(self, until: float) -> list[Event]:
        time.sleep(max(0.0, until - self._now()))
        self._take_time()
        return self._endings(until)

    def progress(self, handles: Ints | None = None) -> Progressed:
        """All time counts as work; how long an epoch takes is not measured."""
        told = [h for h in self._untold if handles is None or h in handles]
        epochs = np.array([float(self._untold[handle].epochs()) for handle in told])
        worked = np.array([self._untold.pop(handle).take_untold() for handle in told])
        rows, unknown = np.array(told, dtype=np.int64), np.full(len(told), np.nan)
        return Progressed(self._now(), rows, epochs, np.zeros_like(rows), unknown, worked, worked)

    def adopt(self, launches: Sequence[Launch]) -> None:
        """They ended with the scheduler that started them, unless that was killed."""
        for launch in launches:
            file = self._site.state_dir / "jobs" / launch.job.id / "epochs"
            self._gangs[launch.handle] = Gang(launch, None, file, self._now())

    def shutdown(self, stop_jobs: bool) -> None:
        self.stop(np.array(list(self._gangs), dtype=np.int64))

    def _now(self) -> float:
        return self._site.clock() - self._site.origin_unix

    def _take_time(self) -> None:
        now = self._now()
        for handle, gang in self._gangs.items():
            seconds, gang.seen_seconds = now - gang.seen_seconds, now
            self._productive[handle] = self._productive.get(handle, 0.0) + seconds
            gang.untold_seconds += seconds
            self._untold[handle] = gang

    def _endings(self, until: float) -> list[Event]:
        events: list[Event] = []
        for handle, gang in list(self._gangs.items()):
            code = -1 if gang.process is None else gang.process.poll()
            if code is None:
                continue
            del self._gangs[handle]
            job = gang.launch.job
            if code == 0 and gang.epochs() == job.epochs:
                events.append(JobFinished(until, job.id, self._productive.pop(handle)))
            else:
                crashed = gang.process is not None
                reason = StopReason.CRASHED if crashed else StopReason.KILLED
                detail = f"it ended with code {code}" if crashed else ""
                events.append(JobStopped(until, job.id, float(gang.epochs()), reason, detail))
        return events

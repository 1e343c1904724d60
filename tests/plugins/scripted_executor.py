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
from shockwave.model.events import Event, JobFinished, JobStopped, StopReason
from shockwave.model.progress import Progressed
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
        self._untold: dict[int, tuple[float, float]] = {}  # epochs, seconds
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
        self._take_time(self._now())
        return self._endings(until)

    def progress(self, handles: Ints | None = None) -> Progressed:
        """All time counts as work; how long an epoch takes is not measured."""
        wanted = [handle for handle in self._untold if handles is None or handle in handles]
        epochs, worked = np.array([self._untold.pop(h) for h in wanted]).reshape(-1, 2).T
        rows, unknown = np.array(wanted, dtype=np.int64), np.full(len(wanted), np.nan)
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

    def _take_time(self, now: float) -> None:
        for handle, gang in self._gangs.items():
            seconds, gang.seen_seconds = now - gang.seen_seconds, now
            self._productive[handle] = self._productive.get(handle, 0.0) + seconds
            _, untold = self._untold.get(handle, (0.0, 0.0))
            self._untold[handle] = (float(gang.epochs()), untold + seconds)

    def _endings(self, until: float) -> list[Event]:
        events: list[Event] = []
        for handle, gang in list(self._gangs.items()):
            code = -1 if gang.process is None else gang.process.poll()
            if code is None:
                continue
            job = self._gangs.pop(handle).launch.job
            if code == 0 and gang.epochs() == job.epochs:
                events.append(JobFinished(until, job.id, self._productive.pop(handle)))
            else:
                reason = StopReason.CRASHED if gang.process else StopReason.KILLED
                ended = (float(gang.epochs()), reason, f"it ended with code {code}")
                events.append(JobStopped(until, job.id, *ended))
        return events

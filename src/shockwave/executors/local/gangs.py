"""One launch of a job as the executor sees it: start it, look whether it lives, end it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from shockwave.executors.local.folder import JobFolder, Lease
from shockwave.executors.local.gang.locks import is_held, open_lock, try_lock
from shockwave.executors.local.gang.processes import (
    is_same,
    signal_group,
    signal_process,
    start_ticks,
)
from shockwave.model.command import Command
from shockwave.model.errors import ExecutorError

# The supervisor is a program of its own: no site packages, nothing of the scheduler.
_BOOT = "import sys; sys.path.append(sys.argv.pop(1)); from gang.supervisor import main; main()"
_HERE = Path(__file__).resolve().parent


class LaunchError(Exception):
    """The command can never work as it is; says why."""


@dataclass(frozen=True, slots=True)
class GangSettings:
    """What is the same for every gang."""

    grace_seconds: float = 30.0
    log_bytes: int = 10_000_000
    log_backups: int = 2


@dataclass
class Gang:
    """The processes of one launch; ``process`` is their supervisor if we are its parent."""

    folder: JobFolder
    generation: int
    launched: float  # unix seconds
    process: subprocess.Popen[bytes] | None = None

    def alive(self) -> bool:
        """Whether any of its processes lives, be it one that is only just starting."""
        if self._supervised():
            return True
        if is_held(self.folder.alive_lock(self.generation)):
            who = self.folder.processes(self.generation)
            if who is not None or self.process is not None:  # else it is only just starting
                self._kill_ranks()  # nobody watches over them any more
            return True
        return False

    def lease(self) -> Lease | None:
        """Its lease; None if a newer launch has it. One that got lost is as good as new."""
        lease = self.folder.lease() or Lease(self.generation, self.launched)
        return lease if lease.generation == self.generation else None

    def ask_to_stop(self) -> None:
        """Takes the lease back and sends SIGTERM; SIGKILL follows after the grace period.

        Raises :class:`ExecutorError` if the lease cannot be written; the signal is sent anyway.
        """
        try:
            lease = self.lease()
            if lease is not None and not lease.stop:
                self.folder.write_lease(replace(lease, stop=True))
        finally:
            self._signal_supervisor(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL at once, the supervisor too."""
        self._kill_ranks()
        self._signal_supervisor(signal.SIGKILL)

    def disown(self) -> None:
        """The gang runs on without us; its end is nothing we wait for."""
        if self.process is not None and self.process.poll() is None:
            self.process.returncode = 0  # or the interpreter warns of a child left behind
        self.process = None

    def _supervised(self) -> bool:
        if self.process is not None:
            return self.process.poll() is None  # which also collects it when it has ended
        who = self.folder.processes(self.generation)
        return who is not None and is_same(who.pid, who.start_ticks)

    def _signal_supervisor(self, number: signal.Signals) -> None:
        if self.process is not None:
            if self.process.poll() is None:
                self.process.send_signal(number)
            return
        who = self.folder.processes(self.generation)
        if who is not None and is_same(who.pid, who.start_ticks):
            signal_process(who.pid, number)

    def _kill_ranks(self) -> None:
        who = self.folder.processes(self.generation)
        if who is None or not who.ranks:
            return
        leader = who.ranks[0]
        # A leader that has ended leaves its number to the group; another process with that
        # number means that the group is gone.
        if start_ticks(leader) in (None, who.leader_start_ticks):
            signal_group(leader, signal.SIGKILL)


def start(
    folder: JobFolder,
    *,
    job: str,
    lease: Lease,
    command: Command,
    ranks: list[dict[str, str]],
    slot_locks: list[Path],
    settings: GangSettings,
    now: float,
    held_before: float,
) -> Gang:
    """Starts a supervisor that starts the ranks as soon as their slots are free.

    The lease is on the disk first. Raises :class:`ExecutorError` if a file cannot be written,
    and :class:`LaunchError` if the operating system refuses.
    """
    generation = lease.generation
    folder.write_lease(lease)
    folder.write_launch_record(
        generation,
        {
            "job": job,
            "generation": generation,
            "launched": now,
            "held_before": held_before,
            "argv": list(command.argv),
            "workdir": command.workdir,
            "ranks": ranks,
            "slot_locks": [str(path) for path in slot_locks],
            "grace_seconds": settings.grace_seconds,
            "log_bytes": settings.log_bytes,
            "log_backups": settings.log_backups,
        },
    )
    path = folder.alive_lock(generation)
    try:
        alive = open_lock(path)
    except OSError as error:
        raise ExecutorError(f"{path} cannot be created: {error}") from error
    try:
        if not try_lock(alive):
            raise LaunchError(f"launch {generation} of it is running already")
        process = _spawn(folder, generation, alive, command.env)
    finally:
        os.close(alive)  # the supervisor has its own
    return Gang(folder, generation, now, process)


def _spawn(
    folder: JobFolder, generation: int, alive: int, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-I", "-S", "-c", _BOOT, str(_HERE)]
    try:
        with folder.supervisor_log.open("wb") as output:
            return subprocess.Popen(
                [*argv, str(folder.path), str(generation), str(alive)],
                cwd=folder.path,
                env={**inherited(os.environ), **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(alive,),
                start_new_session=True,  # outlives the scheduler and its terminal
            )
    except (OSError, ValueError) as error:
        raise LaunchError(f"cannot be started: {error}") from error


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """What a job gets of the scheduler's environment: all but the scheduler's own settings."""
    return {name: value for name, value in environment.items() if not name.startswith("SHOCKWAVE_")}

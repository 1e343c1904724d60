"""One launch on this machine: one supervisor, a child of ours or of a scheduler before us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from shockwave.executors.gangs.errors import LaunchError
from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.gang import Gang
from shockwave.executors.gangs.launch import Start, supervisor_argv
from shockwave.executors.local.accounts import Account, hand_over, python_for_everybody
from shockwave.executors.local.limits import Within
from shockwave.executors.local.user_limits import limits_of, set_limits
from shockwave.model.errors import ExecutorError
from shockwave.model.events import Placement
from shockwave.protocol.environment import base_environment
from shockwave.protocol.files import open_to_append
from shockwave.protocol.locks import is_held, open_lock, try_lock
from shockwave.protocol.processes import is_same, signal_group, signal_process, start_ticks
from shockwave.protocol.records import Part


class LocalGang(Gang):
    """``process`` is the supervisor if we are its parent, ``slots`` those that it really has."""

    def __init__(
        self,
        folder: JobFolder,
        generation: int,
        launched: float,
        process: subprocess.Popen[bytes] | None = None,
        slots: Placement = (),
    ) -> None:
        super().__init__(folder, generation, launched)
        self._process = process
        self.slots = slots

    def alive(self) -> bool:
        """Whether any of its processes lives, be it one that is only just starting."""
        if self._supervised():
            return True
        if is_held(self.folder.alive_lock(self.generation)):
            who = self.folder.processes(self.generation)
            if who is not None or self._process is not None:  # else it is only just starting
                self._kill_ranks()  # nobody watches over them any more
            return True
        return False

    def terminate(self) -> None:
        self._signal_supervisor(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL at once, the supervisor too."""
        self._kill_ranks()
        self._signal_supervisor(signal.SIGKILL)

    def disown(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.returncode = 0  # or the interpreter warns of a child left behind
        self._process = None

    def _supervised(self) -> bool:
        if self._process is not None:
            return self._process.poll() is None  # which also collects it when it has ended
        who = self.folder.processes(self.generation)
        return who is not None and is_same(who.pid, who.start_ticks)

    def _signal_supervisor(self, number: signal.Signals) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                self._process.send_signal(number)
            return
        who = self.folder.processes(self.generation)
        if who is not None and is_same(who.pid, who.start_ticks):
            signal_process(who.pid, number, only_of=self.folder.user())

    def _kill_ranks(self) -> None:
        who = self.folder.processes(self.generation)
        if who is None or not who.ranks:
            return
        leader = who.ranks[0]
        # A leader that has ended leaves its number to the group; another process with that
        # number means that the group is gone.
        if start_ticks(leader) in (None, who.leader_start_ticks):
            signal_group(leader, signal.SIGKILL, only_of=self.folder.user())


def start_gang(
    start: Start,
    part: Part,
    source: Path,
    slots: Sequence[int],
    account: Account | None,
    limits: Within | None = None,
) -> LocalGang:
    """Starts a supervisor that starts the ranks as soon as their slots are free.

    It runs as the user of ``account``, None means ours, and within ``limits``. ``slots`` are the
    locks of the GPUs. The lease is on the disk first. Raises :class:`ExecutorError` if a file
    cannot be written, and :class:`LaunchError` if the operating system refuses.
    """
    folder, generation = start.folder, start.generation
    if account is not None:
        hand_over(folder, account)
    start.write([part])
    path = folder.alive_lock(generation)
    try:
        alive = open_lock(path)
    except OSError as error:
        raise ExecutorError(f"{path} cannot be created: {error}") from error
    try:
        if not try_lock(alive):
            raise LaunchError(f"launch {generation} of it is running already")
        process = _spawn(folder, generation, source, [alive, *slots], account, limits)
    finally:
        os.close(alive)  # the supervisor has its own
    return LocalGang(folder, generation, start.now, process)


def _spawn(
    folder: JobFolder,
    generation: int,
    source: Path,
    locks: Sequence[int],
    account: Account | None,
    limits: Within | None,
) -> subprocess.Popen[bytes]:
    python, environment, who = sys.executable, base_environment(os.environ), {}
    if account is not None:
        python, who = python_for_everybody(), account.identity
        environment |= account.variables
    argv = supervisor_argv(folder, generation, source, python=python)
    argv += map(str, locks)
    if limits is not None:
        argv = limits.wrap(argv)
    try:
        with open_to_append(folder.supervisor_log()) as output:
            output.truncate(0)
            process: subprocess.Popen[bytes] = subprocess.Popen(
                argv,
                cwd=folder.path,
                env=environment,
                stdin=subprocess.DEVNULL if limits is None else subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=locks,
                start_new_session=True,  # outlives the scheduler and its terminal
                **who,
            )
    except (OSError, ValueError) as error:
        raise LaunchError(f"cannot be started: {error}") from error
    if account is not None:
        set_limits(process.pid, limits_of(account))
    if limits is not None:
        _let_in(process, limits)
    return process


def _let_in(process: subprocess.Popen[bytes], limits: Within) -> None:
    """What waits to be started is put within its limits, or never starts."""
    assert process.stdin is not None
    try:
        limits.admit(process.pid)
        process.stdin.write(b"\n")
        process.stdin.close()
    except OSError as error:
        process.kill()
        process.wait()
        raise LaunchError(f"its limits cannot be set: {error}") from error

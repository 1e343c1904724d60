"""Runs the ranks of one gang on one node, keeps their output, writes down how they ended.

Started in a session of its own, it belongs to nobody afterwards: the scheduler may
be killed and come back, the gang runs on. In order:

1. write ``process-<part>.json``: who is running;
2. wait until the GPU slots are free, where slots are locks (the gang before may still be saving),
   and until the first part of the gang has said where the ranks meet;
3. start one process per rank, all in one process group;
4. when asked to stop (SIGTERM, ``lease.json`` says so, or a newer launch has taken over): SIGTERM
   to the group, and SIGKILL after the grace period; the same when a rank fails, here or on
   another node of the gang;
5. end whatever the ranks left behind, write ``exit-<generation>-<part>.json``, end.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

from shockwave.protocol import environment as names
from shockwave.protocol.files import read_json, write_json
from shockwave.protocol.lease import LeaseFile
from shockwave.protocol.locks import try_lock
from shockwave.protocol.paths import JobPaths
from shockwave.protocol.processes import (
    adopt_orphans,
    boot_id,
    children,
    out_of_memory_kills,
    signal_group,
    signal_process,
    start_ticks,
)
from shockwave.protocol.records import ExitRecord, LaunchRecord, ProcessRecord

from .rank import Rank, keep_to_ourselves
from .rotating_log import RotatingLog

FAILED = 1  # exit code: a rank failed
NOT_SEEN = 72  # exit code: this node does not see the job's folder

_GLANCE_SECONDS = 0.5  # how often the lease is looked at; signals are noticed at once
_MEETING_SECONDS = 0.1  # how often is looked whether the first part has started
_SLOT_SECONDS = 0.03  # how often a slot that is not free yet is tried again
_SEEN_WITHIN_SECONDS = 30.0  # until then the launch record must be visible on this node
_CAUSE_SECONDS = 0.1  # to look for more ranks that failed at the same time
_CRASH_GRACE_SECONDS = 5.0  # what the other ranks get when one has failed
_DRAIN_SECONDS = 2.0  # for output that is still on its way when all ranks have ended


class Supervisor:
    """One part of a gang, from its start to its exit file."""

    def __init__(self, folder: Path, generation: int, part: int, locks: list[int]) -> None:
        self._paths = JobPaths(folder)
        self._generation = generation
        self._part = part
        self._order = _launch_record(self._paths, generation)
        self._mine = self._order.parts[part]
        self._siblings = [n for n in range(len(self._order.parts)) if n != part]
        self._locks = locks  # inherited by the ranks: held while any of them lives
        self._ranks: list[Rank] = []
        self._logs: dict[int, RotatingLog] = {}
        self._selector = selectors.DefaultSelector()
        self._lease = LeaseFile(self._paths.lease_file)
        self._asked = False
        self._deadline: float | None = None  # monotonic; when SIGTERM turns into SIGKILL
        self._killed = False
        self._failed: dict[int, int] = {}  # rank -> code, before anybody was asked to end
        self._sibling_failed = False
        self._error: str | None = None
        self._starved_before = out_of_memory_kills()

    def run(self) -> bool:
        """Whether it ended as it should: by itself without a failure, or because it was asked."""
        self._listen()
        adopt_orphans()
        self._tell_who_runs()
        try:
            port = self._meeting_point() if self._take_slots() else None
            if port is not None:
                self._start_ranks(port)
                self._watch()
        except Exception as error:  # whatever it is, the gang must end and somebody must know
            self._error = f"its supervisor failed: {error!r}"
        self._sweep()
        self._drain()
        self._tell_how_it_ended()
        failed = any(rank.returncode for rank in self._ranks)
        return self._error is None and (self._asked or not failed)

    # Signals, the lease, and the other parts.

    def _listen(self) -> None:
        reading, writing = socket.socketpair()
        reading.setblocking(False)
        writing.setblocking(False)
        self._wake = (reading, writing)  # kept open: a signal ends the wait in select
        signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
        self._selector.register(reading, selectors.EVENT_READ)
        signal.signal(signal.SIGTERM, self._on_term)
        # Handlers, because signals that are ignored would be ignored by the ranks as well.
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)

    def _on_term(self, *_: object) -> None:
        self._asked = True

    def _look_at_siblings(self) -> None:
        """What ended on another node of the gang ends here as well, unless it was done."""
        for part in list(self._siblings):
            record = self._paths.exit_record(self._generation, part)
            if record is None:
                continue
            self._siblings.remove(part)
            if record.asked:
                self._asked = True
            elif not record.went_well:
                self._sibling_failed = True

    def _must_end(self) -> bool:
        lease = self._lease.read()
        if lease is not None and lease.ends(self._generation):
            self._asked = True
        self._look_at_siblings()
        return self._asked or self._sibling_failed

    # Start.

    def _tell_who_runs(self, ranks: tuple[int, ...] = ()) -> None:
        pid = os.getpid()
        record = ProcessRecord(
            self._generation,
            boot_id(),
            pid,
            start_ticks(pid) or 0,
            ranks,
            start_ticks(ranks[0]) if ranks else None,
        )
        with suppress(OSError):  # the lock tells who lives, even on a full disk
            record.write(self._paths.process_file(self._part))

    def _take_slots(self) -> bool:
        """False if asked to stop before all slots were free."""
        for descriptor in self._locks[1:]:  # the first is held since before we were started
            while not try_lock(descriptor):
                if self._must_end():
                    return False
                self._wait(_SLOT_SECONDS)
        return not self._must_end()

    def _meeting_point(self) -> int | None:
        """The port at which the ranks meet; None if asked to stop before it was known."""
        path = self._paths.meeting_file(self._generation)
        if self._part == 0:
            port = _free_port(self._order.master_addr)
            if self._siblings:
                write_json(path, {"port": port})
            return port
        while not self._must_end():
            record = read_json(path)
            if record is not None:
                return int(record["port"])
            self._wait(_MEETING_SECONDS)
        return None

    def _start_ranks(self, port: int) -> None:
        workdir = self._order.workdir
        if not os.path.isdir(workdir):
            self._error = f"the working directory does not exist: {workdir}"
            return
        meeting = {names.MASTER_ADDR: self._order.master_addr, names.MASTER_PORT: str(port)}
        base = {**names.base_environment(os.environ), **self._order.env, **meeting}
        keep_to_ourselves(but=self._locks)
        for variables, device in zip(self._mine.ranks, self._devices(), strict=True):
            environment = {**base, **device, **variables}
            leader = self._ranks[0].pid if self._ranks else None
            try:
                rank = Rank(self._order.argv, workdir, environment, leader)
            except (OSError, ValueError) as error:
                self._error = f"cannot start {self._order.argv[0]!r}: {error}"
                return
            self._ranks.append(rank)
            self._keep_output(int(variables[names.RANK]), rank.output)
        self._tell_who_runs(tuple(rank.pid for rank in self._ranks))

    def _devices(self) -> list[dict[str, str]]:
        """One GPU a rank, where this part was given as many as it has ranks."""
        ranks = len(self._mine.ranks)
        given = os.environ.get(names.DEVICES, "").split(",")
        if len(given) < ranks or not all(given):
            return [{} for _ in range(ranks)]
        return [{names.DEVICES: device} for device in given[:ranks]]

    def _keep_output(self, number: int, output: int) -> None:
        os.set_blocking(output, False)
        path = self._paths.log(number)
        log = RotatingLog(
            path, self._order.log_bytes, self._order.log_backups, launch=self._generation
        )
        self._logs[output] = log
        self._selector.register(output, selectors.EVENT_READ)

    # While they run.

    def _watch(self) -> None:
        """Until every rank has ended."""
        while self._note_ends() and self._error is None:
            if self._deadline is None:
                self._must_end()
                if self._asked:
                    self._end_in(self._order.grace_seconds)
                elif self._failed or self._sibling_failed:
                    self._note_who_else_failed()
                    self._end_in(min(_CRASH_GRACE_SECONDS, self._order.grace_seconds))
            elif not self._killed and time.monotonic() >= self._deadline:
                self._killed = True
                signal_group(self._ranks[0].pid, signal.SIGKILL)
            left = _GLANCE_SECONDS
            if self._deadline is not None and not self._killed:
                left = min(left, max(self._deadline - time.monotonic(), 0.0))
            self._wait(left)

    def _note_ends(self) -> bool:
        """Whether any rank still runs; remembers which ones failed by themselves."""
        for variables, rank in zip(self._mine.ranks, self._ranks, strict=False):
            known = rank.returncode is not None
            if not known and (code := rank.poll()) and self._deadline is None:
                self._failed[int(variables[names.RANK])] = code
        return any(rank.returncode is None for rank in self._ranks)

    def _note_who_else_failed(self) -> None:
        """A rank that lost its peer may be noticed before that peer, which was the cause."""
        end = time.monotonic() + _CAUSE_SECONDS
        while self._note_ends() and (left := end - time.monotonic()) > 0.0:
            self._wait(left)

    def _end_in(self, grace_seconds: float) -> None:
        self._deadline = time.monotonic() + grace_seconds
        signal_group(self._ranks[0].pid, signal.SIGTERM)

    def _wait(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            if key.fd in self._logs:
                self._copy(key.fd)
            else:
                with suppress(BlockingIOError):
                    self._wake[0].recv(4096)

    def _copy(self, descriptor: int) -> None:
        """Takes what a rank has written; forgets the pipe when nobody can write any more."""
        try:
            data = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return
        if data:
            self._logs[descriptor].write(data)
        else:
            self._selector.unregister(descriptor)
            os.close(descriptor)
            self._logs.pop(descriptor).close()

    # The end.

    def _sweep(self) -> None:
        """Ends every descendant, also those that left the process group."""
        if self._ranks:
            signal_group(self._ranks[0].pid, signal.SIGKILL)
        for rank in self._ranks:
            rank.wait()
        while True:
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            for pid in children(os.getpid()):
                signal_process(pid, signal.SIGKILL)
            self._wait(_SLOT_SECONDS)

    def _drain(self) -> None:
        deadline = time.monotonic() + _DRAIN_SECONDS
        while self._logs and time.monotonic() < deadline:
            self._wait(_SLOT_SECONDS)

    def _tell_how_it_ended(self) -> None:
        record = ExitRecord(
            generation=self._generation,
            node=self._mine.node,
            ended=time.time(),
            codes=[rank.wait() for rank in self._ranks],
            failed=self._failed,
            asked=self._asked,
            killed=self._killed,
            out_of_memory=out_of_memory_kills() > self._starved_before,
            error=self._error,
        )
        path = self._paths.exit_file(self._generation, self._part)
        for attempt in range(5):  # the disk may be full for a moment
            try:
                record.write(path)
                return
            except OSError as error:
                print(f"{path} cannot be written: {error}", file=sys.stderr, flush=True)
                time.sleep(0.2 * attempt)


def _launch_record(paths: JobPaths, generation: int) -> LaunchRecord:
    """A file that another machine has just written may take a moment to be seen here."""
    path = paths.launch_file(generation)
    deadline = time.monotonic() + _SEEN_WITHIN_SECONDS
    while True:
        record = LaunchRecord.read(path)
        if record is not None:
            return record
        lease = paths.lease()
        if lease is not None and lease.generation != generation:
            print(f"launch {generation} is not wanted any more", file=sys.stderr)
            raise SystemExit(0)
        if time.monotonic() >= deadline:
            print(f"{path} cannot be read on {socket.gethostname()}", file=sys.stderr)
            raise SystemExit(NOT_SEEN)
        time.sleep(_SLOT_SECONDS)


def _free_port(address: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        try:
            probe.bind((address, 0))
        except OSError:  # the address that others use may be another than this node knows
            probe.bind(("", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    folder, generation, part, *locks = sys.argv[1:]
    supervisor = Supervisor(Path(folder), int(generation), int(part), [int(n) for n in locks])
    went_well = supervisor.run()
    sys.stderr.flush()
    os._exit(0 if went_well else FAILED)  # the GPUs are held until Python has cleared up otherwise

"""Starts parts of gangs on a node that the scheduler holds, as its orders say.

The scheduler writes the orders of a node into one file, all that are in force. The agent starts
what is new in it, kills what is gone from it, and writes down what lives. A supervisor does the
rest. Asked to end, it asks all supervisors to, and ends after them.

A gang that starts waits for one that still saves on the same GPUs: these are locks, which the
agent opens and supervisors inherit. As root it starts a gang as the user that its order names, and
then it follows no link in a folder of that user, and kills nothing but what is theirs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from shockwave.protocol import environment as names
from shockwave.protocol.files import open_to_append, read_json, write_json
from shockwave.protocol.locks import open_lock
from shockwave.protocol.paths import JobPaths
from shockwave.protocol.processes import signal_group

ORDERS = "orders.json"
STATUS = "status.json"
_GLANCE_SECONDS = 0.1

Key = tuple[str, int]  # the name of a launch, and which part of it


class Agent:
    """``folder`` has the orders; ``devices`` are the GPUs of the allocation, by slot."""

    def __init__(self, folder: Path, allocation: str, devices: list[str]) -> None:
        self._folder = folder
        self._allocation = allocation
        self._devices = devices
        self._children: dict[Key, subprocess.Popen[bytes]] = {}
        self._seen: dict[Key, dict[str, Any]] = {}
        self._told: list[Key] | None = None
        self._leaving = False

    def run(self) -> None:
        """Until it is asked to end, and whatever it started has ended."""
        signal.signal(signal.SIGTERM, self._on_term)
        while True:
            for key, child in list(self._children.items()):
                if child.poll() is not None:
                    del self._children[key]
            if not self._leaving:
                self._obey()
            self._tell()
            if self._leaving and not self._children:
                return
            time.sleep(_GLANCE_SECONDS)

    def _on_term(self, *_: object) -> None:
        self._leaving = True
        for child in self._children.values():
            child.send_signal(signal.SIGTERM)

    def _obey(self) -> None:
        record = read_json(self._folder / ORDERS)
        if record is None:
            return
        orders = {(order["name"], int(order["part"])): order for order in record["orders"]}
        for key in [key for key in self._seen if key not in orders]:
            self._kill(key, self._seen.pop(key))
        for key, order in orders.items():
            if key not in self._seen:
                self._seen[key] = order
                self._start(key, order)

    def _start(self, key: Key, order: dict[str, Any]) -> None:
        paths = JobPaths(Path(order["folder"]))
        if paths.exit_file(order["generation"], key[1]).exists():
            return  # an agent before us has run it
        devices = [self._devices[slot] for slot in order["slots"] if slot < len(self._devices)]
        environment = {**os.environ, names.DEVICES: ",".join(devices)}
        account = order["account"]
        identity: dict[str, Any] = {}
        if account is not None:
            environment = {**names.base_environment(environment), **account["variables"]}
            identity = account["identity"]
        slots = sorted(f"slot-{slot}.lock" for slot in order["slots"])  # one order for all
        with suppress(OSError), ExitStack() as opened:
            locks = [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)]  # for the one of a launch
            opened.callback(_close_all, locks)
            locks.extend(open_lock(self._folder / name) for name in slots)
            output = opened.enter_context(open_to_append(paths.supervisor_log(key[1])))
            output.truncate(0)
            child: subprocess.Popen[bytes] = subprocess.Popen(
                [*order["argv"], *map(str, locks)],
                cwd=order["folder"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=locks,
                start_new_session=True,
                **identity,
            )
            self._children[key] = child

    def _kill(self, key: Key, order: dict[str, Any]) -> None:
        child = self._children.get(key)
        if child is None or child.poll() is not None:
            return
        who = JobPaths(Path(order["folder"])).processes(order["generation"], key[1])
        if who is not None and who.ranks:
            only_of = None if order["account"] is None else order["account"]["identity"]["user"]
            signal_group(who.ranks[0], signal.SIGKILL, only_of=only_of)
        child.kill()

    def _tell(self) -> None:
        living = sorted(self._children)
        if living != self._told:
            with suppress(OSError):
                write_json(
                    self._folder / STATUS,
                    {"allocation": self._allocation, "living": living},
                    durable=False,
                )
                self._told = living


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def main() -> None:
    devices = [device for device in os.environ.get(names.DEVICES, "").split(",") if device]
    Agent(Path(sys.argv[1]), os.environ.get("SLURM_JOB_ID", ""), devices).run()

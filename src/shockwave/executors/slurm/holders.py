"""Nodes that are held by one long Slurm job each, and the orders to the agents on them."""

from __future__ import annotations

import logging
import os
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from shockwave.executors.gangs.errors import BackendAway
from shockwave.executors.gangs.launch_name import LaunchName
from shockwave.executors.gangs.supervisor.agent import ORDERS, STATUS
from shockwave.executors.local.accounts import Account
from shockwave.executors.slurm.client import SlurmClient, SlurmRefused
from shockwave.executors.slurm.jobs import SlurmJob
from shockwave.executors.slurm.script import FORGET, literal, option_arguments
from shockwave.model.errors import ExecutorError
from shockwave.protocol.files import read_json, write_json
from shockwave.protocol.names import file_name

logger = logging.getLogger(__name__)
HOLDER = "shockwave-holder/"
_BOOT = (
    "import sys; sys.path.append(sys.argv.pop(1)); "
    "from shockwave.executors.gangs.supervisor.agent import main; main()"
)
_AGAIN_SECONDS = 10.0  # between two submissions for the same node
_SAVE_SECONDS = 120  # before its time is over an allocation asks its gangs to save


@dataclass
class _Held:
    """One node. Orders by launch and part."""

    folder: Path
    orders: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    job: SlurmJob | None = None
    ready: bool = False  # an agent waits there for orders
    living: frozenset[tuple[str, int]] = frozenset()  # what it said that it runs
    asked_at: float = -_AGAIN_SECONDS  # monotonic
    changed: bool = False


class Holders:
    """``options`` are those of ``sbatch`` that hold for all jobs."""

    def __init__(
        self,
        root: Path,
        client: SlurmClient,
        site: str,
        *,
        python: str,
        source: Path,
        options: Mapping[str, str],
    ) -> None:
        self._root = root / "holders"
        self._client = client
        self._comment = f"{HOLDER}{site}/"
        self._python, self._source = python, source
        self._options = options
        self._held: dict[str, _Held] = {}
        self._lock = Lock()

    # The allocations.

    def update(self, jobs: Iterable[SlurmJob], wanted: Mapping[str, int]) -> None:
        """Takes in what Slurm runs; asks for nodes that are ``wanted`` (GPUs) and not held."""
        running = {
            job.comment.removeprefix(self._comment): job
            for job in jobs
            if job.comment.startswith(self._comment) and not job.ended and job.uid == os.getuid()
        }
        for node, held in self._held.items():
            held.job = running.get(node)
        for node, job in running.items():
            self._of(node).job = job
        for held in self._held.values():
            self._read_status(held)
        now = time.monotonic()
        for node, gpus in wanted.items():
            held = self._of(node)
            if held.job is None and now > held.asked_at + _AGAIN_SECONDS:
                held.asked_at = now
                self._submit(node, gpus, held)

    def _submit(self, node: str, gpus: int, held: _Held) -> None:
        held.folder.mkdir(parents=True, exist_ok=True)
        (held.folder / STATUS).unlink(missing_ok=True)
        program = [self._python, "-I", "-S", "-c", _BOOT, str(self._source), str(held.folder)]
        options = {n: v for n, v in self._options.items() if not n.endswith("_per_gpu")}
        try:
            self._client.submit(
                [
                    "--no-requeue", "--job-name=shockwave-node", f"--comment={self._comment}{node}",
                    f"--nodelist={node}", "--nodes=1", "--ntasks-per-node=1", "--exclusive",
                    "--mem=0", f"--gres=gpu:{gpus}", f"--signal=B:TERM@{_SAVE_SECONDS}",
                    f"--chdir={held.folder}", f"--output={literal(held.folder / 'agent.log')}",
                    *option_arguments(options),
                    f"--wrap={FORGET}; exec {shlex.join(program)}",
                ]
            )  # fmt: skip
        except (BackendAway, SlurmRefused) as error:
            logger.warning("node %s cannot be held: %s", node, error)

    def is_ready(self, node: str) -> bool:
        """Whether an agent waited there for orders when Slurm was last asked."""
        return node in self._held and self._held[node].ready

    def _read_status(self, held: _Held) -> None:
        held.ready, held.living = False, frozenset()
        if held.job is None or held.job.state != "RUNNING":
            return
        status = read_json(held.folder / STATUS)
        if status is not None and status["allocation"] == str(held.job.number):
            held.ready = True
            held.living = frozenset((name, int(part)) for name, part in status["living"])

    def lives(self, name: LaunchName, part: int, node: str) -> bool:
        """Whether the agent of a node said that it runs this part."""
        return node in self._held and (str(name), part) in self._held[node].living

    def why_not(self, node: str) -> str:
        held = self._held.get(node)
        if held is None or held.job is None:
            return "it is not held"
        return f"its allocation is {held.job.state.lower()}: {held.job.reason or 'no reason'}"

    def release(self, nodes: Iterable[str] | None = None) -> None:
        """Gives back these nodes, or all."""
        chosen = self._held if nodes is None else {node: self._of(node) for node in nodes}
        numbers = [held.job.number for held in chosen.values() if held.job is not None]
        if numbers:
            self._client.cancel(numbers)

    # What runs in them.

    def order(
        self,
        name: LaunchName,
        parts: Sequence[tuple[str, Sequence[int], list[str]]],
        folder: Path,
        account: Account | None = None,
    ) -> None:
        """A launch: node, slots and command of every part. In force when :meth:`write` returns.

        It runs as the user of ``account``, None means ours.
        """
        who = None
        if account is not None:
            who = {"identity": account.identity, "variables": account.variables}
        with self._lock:
            for part, (node, slots, argv) in enumerate(parts):
                held = self._of(node)
                held.orders[str(name), part] = {
                    "name": str(name),
                    "part": part,
                    "folder": str(folder),
                    "generation": name.generation,
                    "slots": list(slots),
                    "argv": argv,
                    "account": who,
                }
                held.changed = True

    def drop(self, names: Iterable[LaunchName]) -> None:
        """What still lives of these launches is killed."""
        gone = {str(name) for name in names}
        with self._lock:
            for held in self._held.values():
                for key in [key for key in held.orders if key[0] in gone]:
                    del held.orders[key]
                    held.changed = True

    def write(self) -> None:
        """Raises :class:`ExecutorError` if the orders cannot be written."""
        with self._lock:
            for held in self._held.values():
                if held.changed:
                    path = held.folder / ORDERS
                    try:
                        orders = list(held.orders.values())
                        held.folder.mkdir(parents=True, exist_ok=True)
                        write_json(path, {"orders": orders}, durable=False)
                    except OSError as error:
                        raise ExecutorError(f"{path} cannot be written: {error}") from error
                    held.changed = False

    def ordered(self) -> dict[LaunchName, tuple[str, ...]]:
        """All launches that are in force, and the nodes of each."""
        found: dict[LaunchName, tuple[str, ...]] = {}
        for node, held in self._held.items():
            for text, _ in held.orders:
                name = LaunchName.read(text)
                if name is not None:
                    found[name] = (*found.get(name, ()), node)
        return found

    def find(self, nodes: Iterable[str]) -> None:
        """The orders that a scheduler before us has given."""
        for node in nodes:
            self._of(node)

    def _of(self, node: str) -> _Held:
        held = self._held.get(node)
        if held is None:
            held = self._held[node] = _Held(self._root / file_name(node))
            record = read_json(held.folder / ORDERS)
            for order in [] if record is None else record["orders"]:
                held.orders[order["name"], int(order["part"])] = order
        return held

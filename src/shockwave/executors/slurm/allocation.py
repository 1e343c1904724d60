"""Gangs inside of allocations that hold whole nodes: a start asks nothing of Slurm.

Slurm sees one long job a node. Which gang runs when is between the scheduler and its agents, so
a round costs no queueing, and nobody else gets a GPU that one gang gives up for another.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from shockwave.executors.gangs.errors import BackendAway
from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.gang import Gang
from shockwave.executors.gangs.launch import Start, supervisor_argv
from shockwave.executors.gangs.launch_name import LaunchName
from shockwave.executors.gangs.nodes import Health
from shockwave.executors.gangs.outcome import NEVER_STARTED, Ending, Outcome
from shockwave.executors.gangs.remote import Look, RemoteGang, SeenGang
from shockwave.executors.local.accounts import account_to_run_as, hand_over
from shockwave.executors.slurm.executor import SlurmExecutor
from shockwave.executors.slurm.holders import Holders


class HeldGang(RemoteGang):
    """A launch on nodes that are held."""

    def __init__(
        self,
        folder: JobFolder,
        name: LaunchName,
        launched: float,
        nodes: Sequence[str],
        holders: Holders,
    ) -> None:
        super().__init__(folder, name, launched, nodes)
        self._holders = holders
        self._gone_before = False

    def terminate(self) -> None:
        """The lease says it, and supervisors read it twice a second."""

    def kill(self) -> None:
        self._holders.drop([self.name])
        self._holders.write()

    def judge(self, is_ordered: bool) -> None:
        """Finds out whether it has ended without a word."""
        if not self.alive():
            return
        missing = [part for part in range(len(self.nodes)) if self._is_missing(part)]
        lost = [
            self.nodes[part] for part in missing if not self._holders.is_ready(self.nodes[part])
        ]
        if lost:
            self._end_rest(Ending(Outcome.LOST, f"{lost[0]}: {self._holders.why_not(lost[0])}"))
        elif not is_ordered and not self._lives():
            self._fate = (
                Ending(Outcome.KILLED, "it was killed") if self.was_seen() else NEVER_STARTED
            )
        elif missing and self._gone_before:
            self._end_rest(Ending(Outcome.KILLED, "the process that watches over it was killed"))
        self._gone_before = bool(missing)  # the agent may be about to tell of it

    def _lives(self) -> bool:
        return any(self._holders.lives(self.name, part, n) for part, n in enumerate(self.nodes))

    def _is_missing(self, part: int) -> bool:
        """It was started and did not end, but its agent does not know of it."""
        return (
            self.folder.processes(self.generation, part) is not None
            and not self._holders.lives(self.name, part, self.nodes[part])
            and not self.folder.has_ended(self.generation, part)
        )


class SlurmAllocationExecutor(SlurmExecutor):
    """Like its parent, but holds every node by one job of Slurm's."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._holders = Holders(
            self._root,
            self._client,
            self._site,
            python=self._python_of(None),
            source=self._source,
            options=self._defaults,
        )

    # Starting.

    def _start_all(self, starts: Sequence[Start]) -> None:
        try:
            super()._start_all(starts)
        finally:
            self._holders.write()

    def _start(self, start: Start) -> Gang:
        if self._away is not None:
            raise BackendAway(self._away)
        placement = start.order.placement
        account = account_to_run_as(start.command.user)
        if account is not None:
            hand_over(start.folder, account)
        start.write(start.parts(), master_addr=self._address(placement[0][0]))
        name = self._name(start.folder, start.generation)
        python = self._python_of(account)
        orders = [
            (
                node,
                slots,
                supervisor_argv(
                    start.folder, start.generation, self._source, part=part, python=python
                ),
            )
            for part, (node, slots) in enumerate(placement)
        ]
        self._holders.order(name, orders, start.folder.path, account)
        gang = HeldGang(
            start.folder, name, start.now, [node for node, _ in placement], self._holders
        )
        self._gangs[name] = gang
        return gang

    def _make_gang(  # type: ignore[override]
        self, folder: JobFolder, name: LaunchName, launched: float, nodes: Sequence[str]
    ) -> HeldGang:
        return HeldGang(folder, name, launched, nodes, self._holders)

    # Looking.

    def _take_look(self) -> Look:
        seen = super()._take_look()
        assert self._slurm_look is not None
        up = {n: s.node.gpus for n, s in seen.nodes.items() if s.health is Health.UP}
        self._holders.find(seen.nodes)
        self._holders.update(self._slurm_look.others, up)
        nodes = {}
        for name, node in seen.nodes.items():
            occupied = 0 if self._holders.is_ready(name) else node.node.gpus
            nodes[name] = replace(node, occupied=occupied, contested=False)
        gangs = {name: self._seen_gang(name, on) for name, on in self._holders.ordered().items()}
        return Look(nodes, {name: gang for name, gang in gangs.items() if gang is not None})

    def _seen_gang(self, name: LaunchName, nodes: tuple[str, ...]) -> SeenGang | None:
        """None if it has ended."""
        gang = self._gangs.get(name)
        if gang is None:
            folder = JobFolder.named(self._root, name.folder)
            gang = HeldGang(folder, name, self._clock(), nodes, self._holders)
        if gang.left_records():
            return None
        ready = any(self._holders.is_ready(node) for node in nodes)
        if not ready and (name not in self._gangs or gang.was_seen()):
            return None
        waits = not gang.is_up()
        return SeenGang(nodes, waits, "the agent of its node has not started it" if waits else "")

    def _judge_gangs(self) -> None:
        ordered = self._holders.ordered()
        for gang in list(self._gangs.values()):
            if isinstance(gang, HeldGang):
                gang.judge(gang.name in ordered)
        over = [n for n in ordered if n not in self._gangs and n not in self._look.gangs]
        self._holders.drop(over)
        self._holders.write()
        busy = {node for gang in self._gangs.values() for node in gang.nodes}
        withheld = {n for n, s in self._look.nodes.items() if s.health is Health.WITHHELD}
        self._holders.release(withheld - busy)

    # Ending.

    def _terminate(self, gangs: Sequence[Gang]) -> None:
        """Their leases say it."""

    def shutdown(self, stop_jobs: bool) -> None:
        super().shutdown(stop_jobs)
        if stop_jobs:
            with suppress(BackendAway):  # they hold their nodes until somebody cancels them
                self._holders.release()

"""What Slurm and Ray have in common: a backend that starts gangs, ends them, and tells of them.

Every poll takes one look at the backend, for everything. From it follows which gangs run that
nobody wants, which ones wait for too long, and what became of the nodes. A backend that does not
answer is an outage: all is as it was until it answers again.
"""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from shockwave.engine.executor import Launch
from shockwave.executors.gangs.account import LiveJob
from shockwave.executors.gangs.errors import BackendAway
from shockwave.executors.gangs.executor import GangExecutor
from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.gang import Gang
from shockwave.executors.gangs.launch import GangSettings
from shockwave.executors.gangs.launch_name import LaunchName, site_of
from shockwave.executors.gangs.nodes import Health, NodeNews, SeenNode
from shockwave.executors.gangs.outcome import Ending, Outcome
from shockwave.executors.gangs.shipping import ship_supervisor
from shockwave.model.cluster import Node
from shockwave.model.command import Command
from shockwave.model.errors import ExecutorError
from shockwave.model.events import Event, JobStopped, NodeDown, StopReason
from shockwave.protocol.records import LaunchRecord

logger = logging.getLogger(__name__)
_PHANTOM_SECONDS = 15.0  # that a backend gets to notice that a gang has ended
_KILL_AGAIN_SECONDS = 10.0


@dataclass(slots=True)
class _Unwanted:
    """A gang that the backend runs and nobody wants; unix seconds."""

    since: float
    kill_at: float


@dataclass(frozen=True, slots=True)
class SeenGang:
    """A gang when the backend was last asked."""

    nodes: tuple[str, ...] = ()  # as far as the backend tells
    waits: bool = False  # some of it is not started yet
    why: str = ""  # it waits, in the backend's words
    crowded_out: bool = False  # it waits for what others have or get first
    suspended: bool = False
    parts: frozenset[int] = frozenset()  # likewise as far as the backend tells


@dataclass(frozen=True, slots=True)
class Look:
    """What a backend said: the nodes we may use, and those of our gangs that have not ended."""

    nodes: Mapping[str, SeenNode] = field(default_factory=dict)
    gangs: Mapping[LaunchName, SeenGang] = field(default_factory=dict)


class RemoteGang(Gang):
    """A launch that a backend runs on ``nodes``, which are those of its placement."""

    def __init__(
        self, folder: JobFolder, name: LaunchName, launched: float, nodes: Sequence[str]
    ) -> None:
        super().__init__(folder, name.generation, launched, max(len(nodes), 1))
        self.name = name
        self.nodes = tuple(nodes)
        self.waits_since = launched  # unix seconds; for GPUs that no gang of ours holds
        self._fate: Ending | None = None

    def alive(self) -> bool:
        return self._fate is None and not self.left_records()

    def fate(self) -> Ending | None:
        return self._fate

    def withdraw(self, ending: Ending) -> None:
        """It never started and never will: should it start this moment, its lease is gone."""
        self._end_rest(ending)

    def _end_rest(self, fate: Ending) -> None:
        """It is over for us. What cannot be reached now is fenced off by its lease."""
        self._fate = fate
        try:
            self.take_back_lease()
        except ExecutorError as error:
            logger.warning("%s: %s", self.name, error)
        self.kill()


class RemoteExecutor(GangExecutor):
    """Gangs that a backend runs on nodes which all see ``root`` at the same path.

    A gang that the backend does not start within ``start_seconds`` is withdrawn.
    """

    def __init__(
        self,
        root: Path,
        command_of: Callable[[str], Command],
        origin_unix: float,
        *,
        start_seconds: float = 60.0,
        settings: GangSettings | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(root, command_of, origin_unix, settings=settings, clock=clock, sleep=sleep)
        self.start_seconds = start_seconds
        self._site = site_of(self._root)
        self._source = ship_supervisor(self._root)
        self._look = Look()
        self._away: str | None = f"{self._title} was not asked yet"
        self._news = NodeNews()
        self._gangs: dict[LaunchName, RemoteGang] = {}  # until they have ended
        self._ending: set[LaunchName] = set()  # those that have ended, but not for the backend
        self._unwanted: dict[LaunchName, _Unwanted] = {}

    @property
    def _title(self) -> str:
        return self.name.capitalize()

    # What a backend adds, beside how gangs are started.

    @abstractmethod
    def _take_look(self) -> Look:
        """Asks the backend. Raises :class:`BackendAway` if it does not answer."""

    @abstractmethod
    def _make_gang(
        self, folder: JobFolder, name: LaunchName, launched: float, nodes: Sequence[str]
    ) -> RemoteGang:
        """A gang that an earlier scheduler was to start; whether it did is not known."""

    def _judge_gangs(self) -> None:
        """Finds out which gangs have ended, where more than a look is needed for that.

        Raises :class:`BackendAway`.
        """

    # What the loop may ask.

    def away(self) -> str | None:
        return self._away

    def nodes(self) -> tuple[Node, ...] | None:
        if self._away is not None:
            self._refresh()
        return None if self._away is not None else self._news.begin(self._look.nodes.values())

    def unusable(self, now: float) -> list[tuple[Node, NodeDown]]:
        return self._news.unusable(self._look.nodes.values(), now)

    # Looking.

    def _refresh(self) -> None:
        was_away = self._away
        try:
            self._look = self._take_look()
            self._away = None
            if was_away is not None:
                for gang in self._gangs.values():
                    gang.waits_since = self._clock()
            self._forget_ended()
            self._judge_gangs()
            if self._swept:
                self._end_unwanted()
            if self._withdraw_late():
                self._look = self._take_look()  # whoever has the GPUs instead is seen only now
        except BackendAway as error:
            if was_away is None:
                logger.warning("riding out an outage: %s", error)
            self._away = str(error)

    def _forget_ended(self) -> None:
        ended = {name for name, gang in self._gangs.items() if not gang.alive()}
        self._ending = {name for name in self._ending | ended if name in self._look.gangs}
        for name in ended:
            del self._gangs[name]

    def _end_unwanted(self) -> None:
        """Gangs of this scheduler that run although it does not know them any more."""
        now = self._clock()
        before, self._unwanted = self._unwanted, {}
        for name in self._look.gangs:
            if name not in self._gangs:
                known = before.get(name)
                if known is None:
                    known = self._first_seen(name, now)
                self._unwanted[name] = known
                if now >= known.kill_at:
                    logger.warning("%s is over, but %s still runs it: ending it", name, self._title)
                    self._known_to_backend(name).kill()
                    known.kill_at = now + _KILL_AGAIN_SECONDS

    def _first_seen(self, name: LaunchName, now: float) -> _Unwanted:
        """A gang that has ended may take the backend a moment; one that runs may save.

        One that has ended and waits to be started was put back into the queue by somebody.
        """
        gang = self._known_to_backend(name)
        if gang.left_records():
            patience = 0.0 if self._look.gangs[name].waits else _PHANTOM_SECONDS
            return _Unwanted(now, now + patience)
        if name not in self._ending:
            logger.warning("%s runs unknown, ending it", name)
        try:
            gang.ask_to_stop()
        except ExecutorError as error:
            logger.warning("it was signalled, but not through its lease: %s", error)
        return _Unwanted(now, now + self._patience_seconds)

    def _phantoms(self) -> set[LaunchName]:
        """Gangs that should have left long ago: what they hold cannot be used for another."""
        now = self._clock()
        return {
            name
            for name, unwanted in self._unwanted.items()
            if now > unwanted.since + _PHANTOM_SECONDS
        }

    def _withdraw_late(self) -> bool:
        """Takes back gangs that are not started: others were faster, or a limit is reached.

        As long as a gang of ours is leaving one of its nodes, it waits for that one. Returns
        whether there were any.
        """
        now = self._clock()
        waiting = [
            (gang, seen)
            for job, gang in self._running_gangs()
            if (seen := self._look.gangs.get(gang.name)) is not None
            and (seen.waits and job.running and gang.alive())
        ]
        leaving = {
            node
            for job, gang in (self._running_gangs() if waiting else ())
            if job.stop_asked is not None and gang.alive()
            for node in gang.nodes
        }
        late = False
        for gang, seen in waiting:
            if leaving.intersection(gang.nodes):
                gang.waits_since = now
            elif now > gang.waits_since + self.start_seconds:
                gang.withdraw(self._not_started(seen))
                late = True
        return late

    def _not_started(self, seen: SeenGang) -> Ending:
        """Others were faster, which is nobody's fault; or there is a reason that may stay."""
        why = f"{self._title} did not start it in {self.start_seconds:g} s"
        if seen.why:
            why += f": {seen.why}"
        if seen.crowded_out:
            return Ending(Outcome.KILLED, why, back_off_seconds=self.start_seconds)
        return Ending(Outcome.NEVER_STARTED, why)

    def _note(self, gang: Gang) -> str:
        seen = self._look.gangs.get(gang.name) if isinstance(gang, RemoteGang) else None
        if seen is None:
            return ""
        if seen.suspended:
            return f"suspended in {self._title}"
        return f"{self._title} has not started it: {seen.why}" if seen.waits and seen.why else ""

    def _running_gangs(self) -> Iterator[tuple[LiveJob, RemoteGang]]:
        for job in self._jobs.values():
            if isinstance(job.gang, RemoteGang):
                yield job, job.gang

    # Nodes.

    def _node_events(self, until: float) -> list[Event]:
        if self._away is not None:
            return []
        news = self._news.tell(self._look.nodes.values(), until)
        stops: list[Event] = []
        for event in news:
            seen = self._look.nodes.get(event.node) if isinstance(event, NodeDown) else None
            if seen is not None and seen.health is Health.WITHHELD:
                stops += self._clear(seen, until)
        return [*stops, *news]

    def _clear(self, seen: SeenNode, until: float) -> list[Event]:
        """Asks the gangs on a node that is being drained to leave, and tells so."""
        node = seen.node.id
        leaving = [job for job, gang in self._running_gangs() if job.running and node in gang.nodes]
        why = f"{self._title} withholds {node}: {seen.reason}"
        events: list[Event] = []
        for job in leaving:
            done = float(min(job.ledger.epochs_done, job.spec.epochs))
            events.append(JobStopped(until, job.spec.id, done, StopReason.PREEMPTED, why))
        try:
            self.stop(np.array([job.handle for job in leaving], dtype=np.int64))
        except ExecutorError as error:
            logger.warning("jobs were signalled, but not through their lease: %s", error)
        return events

    # Finding again.

    def _find(self, order: Launch, folder: JobFolder, record: LaunchRecord | None) -> Gang:
        launched = self._clock() if record is None else record.launched
        nodes = [node for node, _ in order.placement]
        gang = self._make_gang(folder, self._name(folder, order.attempt), launched, nodes)
        self._gangs[gang.name] = gang
        return gang

    def _living(self, job: LiveJob) -> list[Gang]:
        of_job = [name for name in self._look.gangs if name.folder == job.folder.path.name]
        return [self._gangs.setdefault(name, self._known_to_backend(name)) for name in of_job]

    def _end_strays(self, expected: set[tuple[Path, int]]) -> None:
        """Every look does it from now on; the backend may be away at this moment."""
        self._refresh()

    def _known_to_backend(self, name: LaunchName) -> RemoteGang:
        """A gang that only the backend knows."""
        seen = self._look.gangs[name]
        nodes = seen.nodes or ("",) * len(seen.parts)
        return self._make_gang(JobFolder.named(self._root, name.folder), name, self._clock(), nodes)

    def _name(self, folder: JobFolder, generation: int) -> LaunchName:
        return LaunchName(self._site, folder.path.name, generation)

"""Where jobs come from that are not in the journal yet: a trace, or nowhere."""

from __future__ import annotations

from abc import ABC, abstractmethod

from shockwave.model.job import JobSpec


class Feed(ABC):
    """Hands out jobs when their time has come."""

    @abstractmethod
    def due(self, now: float) -> list[JobSpec]:
        """Jobs that arrived up to ``now`` and were not handed out yet."""

    @abstractmethod
    def next_arrival(self) -> float:
        """When the next job arrives; infinity if there is none, the present if unknown."""


class OpenDoor(Feed):
    """People submit through the log at any time; nothing comes from here."""

    def due(self, now: float) -> list[JobSpec]:
        return []

    def next_arrival(self) -> float:
        return 0.0

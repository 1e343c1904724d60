"""Where jobs and requests come from: a trace, or people."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from shockwave.model.job import JobSpec


@dataclass(frozen=True, slots=True)
class CancelJob:
    """Somebody takes a job back."""

    job: str


@dataclass(frozen=True, slots=True)
class DrainNode:
    """A node is to be emptied: its gangs are preempted, nothing new starts on it."""

    node: str


@dataclass(frozen=True, slots=True)
class ResumeNode:
    """A drained node may be used again."""

    node: str


Request = CancelJob | DrainNode | ResumeNode


class Arrivals(ABC):
    """A feed of jobs, and of requests about them."""

    @abstractmethod
    def due(self, now: float) -> list[JobSpec]:
        """Jobs that arrived up to ``now`` and were not handed out yet."""

    @abstractmethod
    def next_arrival(self) -> float:
        """When the next job arrives; infinity if there is none, the present if unknown."""

    def requests(self) -> list[Request]:
        """What was asked for since the last call."""
        return []

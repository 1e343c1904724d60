"""Jobs: what a user declares, and what the world will really do.

A :class:`JobSpec` is everything a scheduler may know at submission. A :class:`TraceJob`
adds the true future, and only traces and the simulated executor ever hold one. That
split is the information barrier: there is no field a policy could read by accident.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum


class Adaptation(StrEnum):
    """How a job moves between its configurations."""

    STATIC = "static"
    ACCORDION = "accordion"
    GNS = "gns"
    PRUNING = "pruning"
    CUSTOM = "custom"

    @property
    def code(self) -> int:
        """A small integer for columnar state."""
        return _CODES[self]


_CODES = {adaptation: code for code, adaptation in enumerate(Adaptation)}


class Preemptible(StrEnum):
    """Whether a running job may be stopped for others."""

    ALWAYS = "always"
    WHEN_SAVED = "when-saved"  # once it has a checkpoint to go on from
    NEVER = "never"


class OnHang(StrEnum):
    """What becomes of a job that has gone silent."""

    NOTHING = "nothing"  # people are told
    RESTART = "restart"  # as after a crash
    FAIL = "fail"


class JobState(IntEnum):
    """Where a job is in its life. Integers, because the state is columnar."""

    WAITING = 0
    RUNNING = 1
    FINISHED = 2
    FAILED = 3
    CANCELLED = 4


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What a job declares at submission; nothing about its future.

    ``configurations`` are batch sizes (or model sizes after pruning) in declared order,
    and ``epoch_seconds`` the profiled seconds per epoch of each, ``nan`` where unknown.
    ``after`` names jobs that must have finished before this one may start, ``after_any`` jobs
    that must have ended, however. At most ``group_parallel`` jobs of one ``group`` run at once;
    0 is no limit. ``time_limit_seconds`` counts while the job holds GPUs.
    """

    id: str
    arrival_seconds: float
    gpus: int
    epochs: int
    configurations: tuple[int, ...]
    epoch_seconds: tuple[float, ...]
    adaptation: Adaptation = Adaptation.STATIC
    model: str = ""
    tenant: str = "default"
    weight: float = 1.0
    name: str = ""
    owner: str = ""  # the user whose job it is
    preemptible: Preemptible = Preemptible.ALWAYS
    group: str = ""  # the sweep that it is part of
    group_parallel: int = 0
    after: tuple[str, ...] = ()
    after_any: tuple[str, ...] = ()
    time_limit_seconds: float | None = None
    on_hang: OnHang = OnHang.NOTHING
    retries: int | None = None  # after crashes without progress; None: as the scheduler is set


@dataclass(frozen=True, slots=True)
class Regime:
    """A run of epochs in one configuration, with the true seconds per epoch."""

    configuration: int
    epochs: int
    epoch_seconds: float

    @property
    def seconds(self) -> float:
        return self.epochs * self.epoch_seconds


@dataclass(frozen=True, slots=True)
class TraceJob:
    """A job of a trace: its declaration and the truth. ``extra`` keeps unknown fields."""

    spec: JobSpec
    regimes: tuple[Regime, ...]
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def exclusive_seconds(self) -> float:
        """Exclusive runtime ``X``: what the job takes alone, without restarts."""
        return sum(regime.seconds for regime in self.regimes)

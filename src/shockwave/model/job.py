"""Jobs: what a user declares, and what the world will really do.

A :class:`JobSpec` is everything a scheduler may know at submission. A :class:`TraceJob`
adds the true future, and only traces and the simulated executor ever hold one. That
split is the information barrier: there is no field a policy could read by accident.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from itertools import groupby, islice

from shockwave.model.options import Option
from shockwave.model.speeds import Speeds


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

    ``gpus`` is the request. A job that names ``gpu_counts`` can run with any of these numbers as
    well; ``gpu_types`` are those that it can run on, any if it names none. ``option_seconds`` are
    seconds per epoch that it declares, each with its type and number of GPUs.
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
    gpu_counts: tuple[int, ...] = ()
    gpu_types: tuple[str, ...] = ()
    preferred_type: str = ""  # on equal terms
    gpu_memory_gb: float | None = None  # that it needs on each GPU
    option_seconds: tuple[tuple[str, int, float], ...] = ()

    @property
    def has_options(self) -> bool:
        """Whether it says more about its GPUs than how many."""
        return bool(self.gpu_counts or self.gpu_types or self.gpu_memory_gb is not None)


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
    """A job of a trace: its declaration and the truth. ``extra`` keeps unknown fields.

    ``regimes`` tell how the job runs with its request. Where ``speeds`` are known, they tell how
    it runs with every option, and ``regimes`` are those of one type.
    """

    spec: JobSpec
    regimes: tuple[Regime, ...]
    extra: Mapping[str, object] = field(default_factory=dict)
    speeds: Speeds | None = None
    restart_seconds: float | None = None  # that its starts cost; None: as in the whole run

    @property
    def exclusive_seconds(self) -> float:
        """Exclusive runtime ``X``: what the job takes alone, without restarts."""
        return sum(regime.seconds for regime in self.regimes)

    def timeline(self, option: Option | None) -> tuple[Regime, ...]:
        """The truth with one option: stretches of equal configuration and speed."""
        if option is None or self.speeds is None:
            return self.regimes
        return timeline(self.regimes, self.speeds.epoch_seconds(option.gpu_type, option.gpus))


def timeline(schedule: tuple[Regime, ...], epoch_seconds: Sequence[float]) -> tuple[Regime, ...]:
    """The configurations of a schedule with other times: one for each epoch."""
    made: list[Regime] = []
    times = iter(epoch_seconds)
    for regime in schedule:
        for seconds, same in groupby(islice(times, regime.epochs)):
            epochs = sum(1 for _ in same)
            last = made[-1] if made else None
            if last and (last.configuration, last.epoch_seconds) == (regime.configuration, seconds):
                epochs += made.pop().epochs
            made.append(Regime(regime.configuration, epochs, seconds))
    return tuple(made)

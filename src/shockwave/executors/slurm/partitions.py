"""Partitions as Slurm tells of them: who may use what, for how long, and who goes first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shockwave.executors.slurm.fields import value_of

_NO_LIMIT = ("", "UNLIMITED", "INFINITE", "NONE")


@dataclass(frozen=True, slots=True)
class SlurmPartition:
    name: str
    is_default: bool = False
    state: str = "UP"
    most_minutes: float | None = None  # that a job may ask for; None without a limit
    most_nodes: int | None = None  # of one job
    tier: int = 1  # jobs of a partition of a higher tier go first

    @property
    def is_open(self) -> bool:
        """Whether jobs are started in it."""
        return self.state == "UP"


def read_partitions(text: str) -> dict[str, SlurmPartition]:
    """The answer to ``scontrol --oneliner show partitions``.

    >>> read_partitions("PartitionName=a Default=YES MaxTime=1-00:00:00 State=UP")["a"].most_minutes
    1440.0
    """
    partitions = {}
    for line in text.splitlines():
        name = value_of(line, "PartitionName")
        if name:
            nodes = value_of(line, "MaxNodes")
            partitions[name] = SlurmPartition(
                name,
                is_default=value_of(line, "Default") == "YES",
                state=value_of(line, "State") or "UP",
                most_minutes=minutes_in(value_of(line, "MaxTime")),
                most_nodes=None if nodes in _NO_LIMIT else int(nodes),
                tier=int(value_of(line, "PriorityTier") or 1),
            )
    return partitions


def minutes_in(time: str) -> float | None:
    """A time as ``sbatch`` takes it; None where it says that there is no limit.

    >>> minutes_in("90"), minutes_in("2:30"), minutes_in("1:00:00"), minutes_in("2-12")
    (90.0, 2.5, 60.0, 3600.0)
    """
    if time.upper() in _NO_LIMIT:
        return None
    days, dash, rest = time.rpartition("-")
    parts = [float(part) for part in re.split(":", rest)]
    if dash:  # days-hours[:minutes[:seconds]]
        hours, minutes, seconds = (*parts, 0.0, 0.0)[:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:  # minutes[:seconds]
        hours, (minutes, seconds) = 0.0, (*parts, 0.0)[:2]
    return float(days or 0) * 1440.0 + hours * 60.0 + minutes + seconds / 60.0


def named(partitions: Mapping[str, SlurmPartition], names: str) -> list[SlurmPartition]:
    """Those of a list with commas that exist."""
    return [partitions[name] for name in names.split(",") if name in partitions]


def longest_minutes(partitions: Iterable[SlurmPartition]) -> float | None:
    """What a job may ask for in one of these; None without a limit."""
    limits = [partition.most_minutes for partition in partitions]
    return None if None in limits else max((limit for limit in limits if limit), default=None)

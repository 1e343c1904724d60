"""Whether a job could ever start in a partition, by what Slurm tells of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shockwave.executors.slurm.eligible import in_partitions, with_features
from shockwave.executors.slurm.hostlist import expand
from shockwave.executors.slurm.nodes import SlurmNode
from shockwave.executors.slurm.partitions import (
    SlurmPartition,
    longest_minutes,
    minutes_in,
    named,
)
from shockwave.model.errors import InputError
from shockwave.model.words import count_of


def check_partition(names: str, known: Mapping[str, SlurmPartition], *, place: str) -> None:
    """Raises :class:`InputError` naming the partition that Slurm does not have."""
    for name in names.split(","):
        if name not in known:
            raise InputError(
                "Slurm has no such partition",
                place=place,
                value=name,
                hint=f"There are {', '.join(sorted(known)) or 'none'}",
            )


def problem_of(
    gpus: int,
    options: Mapping[str, str],
    partition: str,
    known: Mapping[str, SlurmPartition],
    nodes: Sequence[SlurmNode],
) -> list[str]:
    """What may keep a job of so many GPUs from starting now. ``nodes`` are those with GPUs.

    Raises :class:`InputError` if it could not start even on an empty cluster.
    """
    warnings = []
    if partition:
        check_partition(partition, known, place="slurm.partition")
        _check_time(options.get("time"), partition, known)
        closed = [found.name for found in named(known, partition) if not found.is_open]
        if len(closed) == len(partition.split(",")):
            warnings.append(f"partition {', '.join(closed)} starts no jobs at the moment")
        nodes = in_partitions(nodes, partition)
    where = f"partition {partition}" if partition else "Slurm"
    if "constraint" in options:
        nodes = with_features(nodes, options["constraint"])
        where += f" with {options['constraint']}"
    if "exclude" in options:
        left_out = set(expand(options["exclude"]))
        nodes = [node for node in nodes if node.name not in left_out]
    if "gpu_type" in options:
        nodes = [node for node in nodes if node.has(options["gpu_type"])]
        where += f" of type {options['gpu_type']}"
    has = sum(node.gpus for node in nodes)
    if gpus > has:
        raise InputError(
            f"{where} has {count_of(has, 'GPU')} in all, the job needs more at once",
            place="gpus",
            value=gpus,
        )
    return warnings


def _check_time(time: str | None, partition: str, known: Mapping[str, SlurmPartition]) -> None:
    longest = longest_minutes(named(known, partition))
    asked = None if time is None else minutes_in(time)
    if longest is not None and asked is not None and asked > longest:
        raise InputError(
            f"partition {partition} gives a job {longest:g} minutes at most",
            place="slurm.time",
            value=time,
            hint="A launch that reaches its limit saves and goes on in the next",
        )

"""What a gang may be made of: one type of GPU, and how many of them.

A job that can run in several ways has several options. Which one it holds decides its speed, and
a gang always lies on one type. Where there is one type of GPU and no job has a choice, nobody
speaks of options: a job has its request, and that is all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # whoever only submits a job needs no arrays
    from shockwave.model.view import Bools, Floats, Ints

# GPU memory of the smallest variant that is sold under the name.
_MEMORY_GB = {
    "k80": 12, "p4": 8, "p100": 12, "v100": 16, "t4": 16, "a10": 24, "a10g": 24, "a16": 16,
    "a30": 24, "a40": 48, "a100": 40, "l4": 24, "l40": 48, "l40s": 48, "h100": 80, "h200": 141,
    "b200": 180, "2080ti": 11, "3090": 24, "4090": 24, "a6000": 48, "rtx6000": 24,
}  # fmt: skip
_SIZE_IN_NAME = re.compile(r"(\d+(?:\.\d+)?)gb$")


@dataclass(frozen=True, slots=True, order=True)
class Option:
    """``gpus`` GPUs of one type."""

    gpu_type: str
    gpus: int

    def __str__(self) -> str:
        return f"{self.gpus} x {self.gpu_type}"


@dataclass(frozen=True)
class Options:
    """What the jobs of a view could hold. Numbers of types and options never change in a run.

    ``allowed`` are the options that a job declared and that fit the nodes as they are now;
    ``requested`` those with exactly the number of GPUs that it requests, for policies that give
    a job its request. They are the same for a job that has no choice of numbers.
    """

    types: tuple[str, ...]
    type_gpus: Ints  # [type] usable now
    node_gpus: Ints  # [type] GPUs of its largest node
    type: Ints  # [option]
    gpus: Ints  # [option]
    spans: Bools  # [option] needs several nodes
    allowed: Bools  # [job, option]
    requested: Bools  # [job, option]
    held: Ints  # [job] the option that it holds, -1 for none
    last: Ints  # [job] the option that it held last, -1 if it never ran
    measured: Floats  # [job, option] latest measured seconds per epoch, nan if there is none
    measured_epochs: Floats  # [job, option] epochs done with it
    declared: Floats  # [job, option] seconds per epoch that the job declared, nan where it did not
    profiled: Floats  # [job, option] seconds per epoch of an offline profile, nan if there is none

    def __len__(self) -> int:
        return len(self.type)

    @cached_property
    def keys(self) -> tuple[Option, ...]:
        """Every option by name."""
        return tuple(
            Option(self.types[number], gpus)
            for number, gpus in zip(self.type.tolist(), self.gpus.tolist(), strict=True)
        )

    @cached_property
    def held_gpus(self) -> Ints:
        """[job] how many GPUs it holds."""
        none = self.held < 0
        if not len(self.gpus):
            return self.held * 0
        gpus: Ints = self.gpus[self.held]
        gpus[none] = 0
        return gpus


def counts_between(least: int, most: int) -> tuple[int, ...]:
    """The numbers of GPUs that are tried where a job names only the range.

    Doubling from the smallest, and the largest.

    >>> counts_between(1, 12)
    (1, 2, 4, 8, 12)
    """
    counts, count = [], least
    while count < most:
        counts.append(count)
        count *= 2
    return (*counts, most)


def memory_gb(gpu_type: str) -> float | None:
    """The memory of a GPU by the name of its type, None if the name does not tell.

    >>> memory_gb("A100"), memory_gb("A100-80GB"), memory_gb("gpu")
    (40.0, 80.0, None)
    """
    name = gpu_type.lower()
    told = _SIZE_IN_NAME.search(name)
    if told is not None:
        return float(told[1])
    plain = re.sub(r"[^a-z0-9]|nvidia|geforce|tesla|quadro", "", name)
    known = _MEMORY_GB.get(plain) or _MEMORY_GB.get(plain.removeprefix("rtx"))
    return None if known is None else float(known)

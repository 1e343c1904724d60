"""What a rank is told when it is started: the names in its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import VERSION

PROTOCOL = "SHOCKWAVE_PROTOCOL"
JOB = "SHOCKWAVE_JOB"
GENERATION = "SHOCKWAVE_GENERATION"
DIRECTORY = "SHOCKWAVE_DIR"
GRACE_SECONDS = "SHOCKWAVE_GRACE_SECONDS"
# As torchrun calls them.
RANK = "RANK"
LOCAL_RANK = "LOCAL_RANK"
GROUP_RANK = "GROUP_RANK"
WORLD_SIZE = "WORLD_SIZE"
LOCAL_WORLD_SIZE = "LOCAL_WORLD_SIZE"
MASTER_ADDR = "MASTER_ADDR"
MASTER_PORT = "MASTER_PORT"
DEVICES = "CUDA_VISIBLE_DEVICES"
DEVICE_ORDER = "CUDA_DEVICE_ORDER"

_OWN = "SHOCKWAVE_"
# What a job gets of the environment of whoever starts it. The rest is the job's to say.
_BASE = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "LANGUAGE",
    "LD_LIBRARY_PATH",
)  # fmt: skip
_BASE_PREFIXES = ("LC_", "CUDA_", "NVIDIA_", "ROCR_", "HIP_", "SLURM")


def is_own(name: str) -> bool:
    """Whether a variable is a setting of the scheduler's, which no job inherits."""
    return name.startswith(_OWN)


def base_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that a job starts from: where and in which language, no more.

    >>> base_environment({"LANG": "C", "AWS_SECRET_ACCESS_KEY": "...", "PATH": "/bin"})
    {'LANG': 'C', 'PATH': '/bin'}
    """
    base = {
        name: value
        for name, value in environment.items()
        if name in _BASE or name.startswith(_BASE_PREFIXES)
    }
    return {**base, "PATH": base.get("PATH") or os.defpath}


def rank_variables(
    job: str, generation: int, folder: Path, grace_seconds: float, gpus_of_nodes: Sequence[int]
) -> list[list[dict[str, str]]]:
    """What the ranks are told, by node: one rank for every GPU.

    >>> nodes = rank_variables("j", 1, Path("/jobs/j"), 30.0, [2, 1])
    >>> [[rank["RANK"] for rank in node] for node in nodes]
    [['0', '1'], ['2']]
    """
    shared = {
        PROTOCOL: str(VERSION),
        JOB: job,
        GENERATION: str(generation),
        DIRECTORY: str(folder),
        GRACE_SECONDS: str(grace_seconds),
        WORLD_SIZE: str(sum(gpus_of_nodes)),
    }
    nodes: list[list[dict[str, str]]] = []
    first = 0
    for node, gpus in enumerate(gpus_of_nodes):
        here = {**shared, GROUP_RANK: str(node), LOCAL_WORLD_SIZE: str(gpus)}
        nodes.append(
            [{**here, RANK: str(first + local), LOCAL_RANK: str(local)} for local in range(gpus)]
        )
        first += gpus
    return nodes

"""What the scheduler tells a job at launch, through its environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from shockwave.model.errors import InputError
from shockwave.protocol import VERSION
from shockwave.protocol import environment as names

DEFAULT_GRACE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class JobEnvironment:
    """Who this process is. ``job`` and ``directory`` are None without a scheduler.

    ``generation`` counts the launches of the job, 1, 2, ...: the fencing token. Ranks are
    honoured without a scheduler too (``torchrun`` sets the same variables).
    """

    job: str | None
    generation: int
    directory: Path | None
    grace_seconds: float
    rank: int
    local_rank: int
    world_size: int

    @classmethod
    def read(cls, variables: Mapping[str, str]) -> JobEnvironment:
        """Reads and checks the variables. Raises :class:`InputError` naming the bad one."""
        job = variables.get(names.JOB) or None
        world_size = _integer(variables, names.WORLD_SIZE, default=1, least=1)
        rank = _integer(variables, names.RANK, default=0, least=0)
        if rank >= world_size:
            raise InputError(
                f"must be below {names.WORLD_SIZE}, {world_size}",
                source="environment",
                place=names.RANK,
                value=rank,
            )
        version = _integer(variables, names.PROTOCOL, default=VERSION, least=1)
        if version > VERSION:
            raise InputError(
                f"this Shockwave understands {VERSION} and nothing later",
                source="environment",
                place=names.PROTOCOL,
                value=version,
                hint="Install for the job what the scheduler runs, or something newer",
            )
        return cls(
            job=job,
            generation=_integer(variables, names.GENERATION, default=1, least=0),
            directory=_directory(variables) if job else None,
            grace_seconds=_seconds(variables, names.GRACE_SECONDS, DEFAULT_GRACE_SECONDS),
            rank=rank,
            local_rank=_integer(variables, names.LOCAL_RANK, default=rank, least=0),
            world_size=world_size,
        )


def _directory(variables: Mapping[str, str]) -> Path:
    given = variables.get(names.DIRECTORY, "")
    if not given or not Path(given).is_dir():
        raise InputError(
            f"must name the job's directory when {names.JOB} is set",
            source="environment",
            place=names.DIRECTORY,
            value=given,
            hint=f"Unset {names.JOB} to train without a scheduler",
        )
    return Path(given)


def _integer(variables: Mapping[str, str], name: str, *, default: int, least: int) -> int:
    given = variables.get(name, str(default))
    try:
        number = int(given)
    except ValueError:
        number = least - 1
    if number < least:
        raise InputError(
            f"must be an integer of at least {least}",
            source="environment",
            place=name,
            value=given,
        )
    return number


def _seconds(variables: Mapping[str, str], name: str, default: float) -> float:
    given = variables.get(name, str(default))
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds < float("inf"):
        raise InputError(
            "must be a number of seconds, 0 or more",
            source="environment",
            place=name,
            value=given,
        )
    return seconds

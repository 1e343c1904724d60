"""What a live job runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Command:
    """A program, started once per GPU of the gang in ``workdir`` with ``env`` added.

    ``options`` are those of the executor that starts it, for example a Slurm partition. ``user``
    is whom it runs as, where the executor can do that; empty for the scheduler's own user.
    """

    argv: tuple[str, ...]
    workdir: str
    env: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    user: str = ""

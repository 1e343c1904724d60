"""What a live job runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Command:
    """A program, started once per GPU of the gang in ``workdir`` with ``env`` added."""

    argv: tuple[str, ...]
    workdir: str
    env: Mapping[str, str] = field(default_factory=dict)

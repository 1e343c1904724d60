"""How a launch is found again among everything that a backend runs: by a name only it has."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from shockwave.model.errors import ExecutorError

_NAME = re.compile(r"shockwave/([0-9a-f]+)/([^/]+)/(\d+)")


@dataclass(frozen=True, slots=True)
class LaunchName:
    """``site`` is the scheduler, ``folder`` the name of the job's folder."""

    site: str
    folder: str
    generation: int

    def __str__(self) -> str:
        return f"{prefix_of(self.site)}{self.folder}/{self.generation}"

    @staticmethod
    def read(text: str) -> LaunchName | None:
        """None if the text is something else.

        >>> LaunchName.read("shockwave/0a1b/resnet-18/3")
        LaunchName(site='0a1b', folder='resnet-18', generation=3)
        """
        match = _NAME.fullmatch(text.strip())
        if match is None:
            return None
        return LaunchName(match.group(1), match.group(2), int(match.group(3)))


def prefix_of(site: str) -> str:
    """What the names of all launches of a scheduler begin with."""
    return f"shockwave/{site}/"


def site_of(root: Path) -> str:
    """A name for the scheduler that works in ``root``; chosen once, kept there.

    Raises :class:`ExecutorError` if it cannot be kept.
    """
    path = root / "site"
    try:
        name = path.read_text().strip() if path.exists() else ""
        if not name:
            name = secrets.token_hex(6)
            path.write_text(name)
        return name
    except OSError as error:
        raise ExecutorError(f"{path} cannot be used: {error}") from error

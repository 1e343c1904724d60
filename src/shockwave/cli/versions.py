"""A command that is newer than the scheduler says so: what it asks for may not exist there."""

from __future__ import annotations

import re

from shockwave.cli.console import note
from shockwave.version import __version__

HEADER = "Shockwave-Version"
_told = False


def compare_with(server: str, mine: str = __version__) -> str | None:
    """What to say to a user; None if the scheduler is as new as the command, or newer.

    >>> compare_with("0.3.0", "0.10.1")
    'the scheduler is version 0.3.0, this command 0.10.1: what is new in it may not work there'
    """
    if _parts(server) >= _parts(mine):
        return None
    return (
        f"the scheduler is version {server}, this command {mine}: "
        "what is new in it may not work there"
    )


def tell_if_older(server: str | None) -> None:
    """Once for a command, on standard error. Who does not say a version may be anybody."""
    global _told
    said = None if server is None else compare_with(server)
    if said is not None and not _told:
        _told = True
        note(said)


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])

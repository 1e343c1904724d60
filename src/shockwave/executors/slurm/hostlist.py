"""Slurm's short form for many nodes."""

from __future__ import annotations

import re

_PARTS = re.compile(r"((?:[^,\[\]]|\[[^\]]*\])+)")
_BRACKET = re.compile(r"\[([^\]]*)\]")


def expand(nodes: str) -> tuple[str, ...]:
    """The names that a short form stands for.

    >>> expand("n[0-2,7],login,rack[1-2]b[08-10]")[:5]
    ('n0', 'n1', 'n2', 'n7', 'login')
    >>> expand("rack[1-2]b[09-10]")
    ('rack1b09', 'rack1b10', 'rack2b09', 'rack2b10')
    """
    return tuple(name for part in _PARTS.findall(nodes) for name in _names(part))


def _names(part: str) -> list[str]:
    bracket = _BRACKET.search(part)
    if bracket is None:
        return [part]
    head, tails = part[: bracket.start()], _names(part[bracket.end() :])
    return [
        head + number + tail
        for piece in bracket.group(1).split(",")
        for number in _numbers(piece)
        for tail in tails
    ]


def _numbers(piece: str) -> list[str]:
    first, _, last = piece.partition("-")
    if not last:
        return [first]
    return [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]

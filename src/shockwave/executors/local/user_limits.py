"""The limits that a login would give a user: ``/etc/security/limits.conf`` and ``limits.d``.

A scheduler that starts jobs of users goes through no login, so it reads what ``pam_limits`` would:
the file, then those of the folder in order; what is said of a user beats what is said of a group,
and that what is said of all.
"""

from __future__ import annotations

import grp
import resource
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from shockwave.executors.local.accounts import Account

CONFIGURATION = Path("/etc/security")
_KILO = 1024
# What a limit is called there, which one it is, and the unit of its values.
_LIMITS = {
    "core": (resource.RLIMIT_CORE, _KILO),
    "data": (resource.RLIMIT_DATA, _KILO),
    "fsize": (resource.RLIMIT_FSIZE, _KILO),
    "memlock": (resource.RLIMIT_MEMLOCK, _KILO),
    "nofile": (resource.RLIMIT_NOFILE, 1),
    "stack": (resource.RLIMIT_STACK, _KILO),
    "cpu": (resource.RLIMIT_CPU, 60),
    "nproc": (resource.RLIMIT_NPROC, 1),
    "as": (resource.RLIMIT_AS, _KILO),
}
_NONE = ("-1", "unlimited", "infinity")
Pair = tuple[int, int]  # soft, hard


def limits_of(account: Account, folder: Path = CONFIGURATION) -> dict[int, Pair]:
    """By number of the resource; only those that are set. Lines that make no sense are not."""
    found: dict[tuple[str, int], tuple[int, int]] = {}  # kind, resource -> rank, value
    for domain, kinds, item, text in _lines(folder):
        rank = _rank(domain, account)
        if rank is None or item not in _LIMITS:
            continue
        number, unit = _LIMITS[item]
        with suppress(ValueError):
            value = resource.RLIM_INFINITY if text in _NONE else int(text) * unit
            for kind in ("soft", "hard") if kinds == "-" else (kinds,):
                if rank >= found.get((kind, number), (0, 0))[0]:
                    found[kind, number] = (rank, value)
    limits: dict[int, Pair] = {}
    for number in {number for _, number in found}:
        ours = resource.getrlimit(number)
        soft = found.get(("soft", number), (0, ours[0]))[1]
        hard = found.get(("hard", number), (0, ours[1]))[1]
        limits[number] = (_smaller(soft, hard), hard)
    return limits


def set_limits(process: int, limits: dict[int, Pair]) -> None:
    """For a process that has just been started. One that ended already needs none."""
    for number, pair in limits.items():
        with suppress(OSError, ValueError):
            resource.prlimit(process, number, pair)


def _lines(folder: Path) -> Iterator[list[str]]:
    files: Iterable[Path] = (folder / "limits.conf", *sorted((folder / "limits.d").glob("*.conf")))
    for file in files:
        with suppress(OSError):
            for line in file.read_text(errors="replace").splitlines():
                words = line.partition("#")[0].split()
                if len(words) == 4:
                    yield words


def _rank(domain: str, account: Account) -> int | None:
    """How near the line is to the user; None if it is about others."""
    if domain == account.name:
        return 3
    if domain.startswith("@"):
        with suppress(KeyError):
            return 2 if grp.getgrnam(domain[1:]).gr_gid in account.groups else None
        return None
    return 1 if domain == "*" and account.uid != 0 else None


def _smaller(one: int, other: int) -> int:
    infinite = resource.RLIM_INFINITY
    if infinite in (one, other):
        return other if one == infinite else one
    return min(one, other)

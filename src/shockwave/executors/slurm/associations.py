"""On whose behalf a user may submit: the associations of Slurm's accounting, where there is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shockwave.model.errors import InputError


@dataclass(frozen=True, slots=True)
class Association:
    """A user in an account, with the qualities of service that they may use there."""

    account: str
    partition: str  # empty for all
    qos: frozenset[str]


def read_associations(text: str) -> list[Association]:
    """The answer to ``sacctmgr --parsable2 show associations format=Account,Partition,QOS``.

    >>> read_associations("vision||high,normal")[0].account
    'vision'
    """
    rows = [line.split("|") for line in text.splitlines() if line.count("|") == 2]
    return [
        Association(account, partition, frozenset(filter(None, qos.split(","))))
        for account, partition, qos in rows
    ]


def check_account(user: str, options: Mapping[str, str], known: Sequence[Association]) -> None:
    """Raises :class:`InputError` for an account or a QOS that is not the user's to use."""
    account, qos = options.get("account"), options.get("qos")
    own = [found for found in known if account in (None, found.account)]
    if account is not None and not own:
        raise InputError(
            f"{user} has no such account in Slurm",
            place="slurm.account",
            value=account,
            hint=_those_there_are({found.account for found in known}),
        )
    usable = frozenset[str]().union(*(found.qos for found in own))
    if qos is not None and own and qos not in usable:
        raise InputError(
            f"{user} may not use this quality of service in Slurm",
            place="slurm.qos",
            value=qos,
            hint=_those_there_are(usable),
        )


def _those_there_are(names: set[str] | frozenset[str]) -> str:
    return f"There are {', '.join(sorted(names)) or 'none'}"

"""Which nodes a job may use: those of its partitions that have the features it wants."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from shockwave.executors.slurm.nodes import SlurmNode

_TOKEN = re.compile(r"\s*([&|,()\[\]!]|[^&|,()\[\]!\s]+)")


def in_partitions(nodes: Iterable[SlurmNode], partitions: str) -> list[SlurmNode]:
    """``partitions`` as for ``sbatch``: one, or several with commas."""
    wanted = set(partitions.split(","))
    return [node for node in nodes if node.partitions & wanted]


def with_features(nodes: Sequence[SlurmNode], constraint: str) -> list[SlurmNode]:
    """``constraint`` as for ``sbatch``; all nodes if it cannot be understood: Slurm decides."""
    try:
        return [node for node in nodes if matches(node.features, constraint)]
    except ValueError:
        return list(nodes)


def matches(features: frozenset[str], constraint: str) -> bool:
    """Whether a node with these features is one of those.

    Raises :class:`ValueError` if the expression is none.

    >>> matches(frozenset({"a100", "nvlink"}), "v100|a100&nvlink")
    True
    """
    tokens = _TOKEN.findall(constraint)
    value, rest = _either(features, tokens)
    if rest:
        raise ValueError(f"not a constraint: {constraint!r}")
    return value


def _either(features: frozenset[str], tokens: list[str]) -> tuple[bool, list[str]]:
    value, tokens = _all(features, tokens)
    while tokens and tokens[0] == "|":
        other, tokens = _all(features, tokens[1:])
        value = value or other
    return value, tokens


def _all(features: frozenset[str], tokens: list[str]) -> tuple[bool, list[str]]:
    value, tokens = _one(features, tokens)
    while tokens and tokens[0] in "&,":
        other, tokens = _one(features, tokens[1:])
        value = value and other
    return value, tokens


def _one(features: frozenset[str], tokens: list[str]) -> tuple[bool, list[str]]:
    if not tokens or tokens[0] in "&|,)]":
        raise ValueError("a feature is missing")
    first, rest = tokens[0], tokens[1:]
    if first == "!":
        value, rest = _one(features, rest)
        return not value, rest
    if first in "([":
        value, rest = _either(features, rest)
        if not rest or rest[0] not in ")]":
            raise ValueError("a bracket is not closed")
        return value, rest[1:]
    return first.partition("*")[0] in features, rest  # a feature may have a number of nodes

"""A matrix makes many jobs of one: ``{name}`` in any field stands for a value of it.

::

    matrix: {lr: [0.1, 0.01], seed: [1, 2, 3]}            # a grid: all combinations
    matrix: {list: [{lr: 0.1, seed: 1}, {lr: 0.2, seed: 7}]}
    matrix: {random: {lr: {log: [1.0e-4, 0.1]}, layers: {int: [2, 8]}, opt: [sgd, adam]},
             count: 20, seed: 3}

A random value is from a list, ``uniform`` or ``log``-uniform between two numbers, or a whole
number (``int``) with both ends included. The same seed gives the same jobs.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from shockwave.model.errors import InputError
from shockwave.server.batches import MOST_JOBS

Values = dict[str, Any]  # one value for each name

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_FORMS = ("grid", "list", "random")
_BETWEEN = ("uniform", "log", "int")


def combinations(matrix: Any, source: str) -> list[Values]:
    """The values of every job. Raises :class:`InputError` that names the place in the matrix.

    >>> combinations({"lr": [0.1, 0.2], "seed": [1, 2]}, "x")[1]
    {'lr': 0.1, 'seed': 2}
    """
    if not isinstance(matrix, Mapping) or not matrix:
        raise _bad(source, "", matrix, "expected names with their values, as in {lr: [0.1, 0.2]}")
    form = [name for name in _FORMS if name in matrix]
    if not form:
        return _grid(matrix, source, "matrix")
    if len(form) > 1:
        raise _bad(source, "", form, "expected one of grid, list and random")
    others = set(matrix) - {form[0]} - ({"count", "seed"} if form[0] == "random" else set())
    if others:
        name = sorted(map(str, others))[0]
        raise _bad(source, name, matrix[name], f"does not belong to a matrix with {form[0]}")
    if form[0] == "grid":
        return _grid(matrix["grid"], source, "matrix.grid")
    if form[0] == "list":
        return _list(matrix["list"], source)
    return _random(matrix, source)


def expand(fields: Mapping[str, Any], matrix: Any, source: str) -> list[dict[str, Any]]:
    """The fields of every job, with its values put in, and names that tell them apart.

    Raises :class:`InputError`, also for a name of the matrix that no field uses.
    """
    found = combinations(matrix, source)
    used = set(_PLACEHOLDER.findall(json.dumps(fields, default=str)))
    unused = [name for name in found[0] if name not in used]
    if unused:
        raise InputError(
            f"no field uses {unused[0]}",
            source=source,
            place=f"matrix.{unused[0]}",
            hint=f"Write {{{unused[0]}}} where its value belongs, for instance in the command",
        )
    width = len(str(len(found)))
    jobs = []
    for number, values in enumerate(found, start=1):
        job = {name: _filled(value, values) for name, value in fields.items()}
        given = fields.get("name")
        if isinstance(given, str) and job["name"] == given:
            job["name"] = f"{given}-{number:0{width}d}"
        jobs.append(job)
    return jobs


def _grid(grid: Any, source: str, place: str) -> list[Values]:
    if not isinstance(grid, Mapping) or not grid:
        raise InputError(
            "expected names with lists of values", source=source, place=place, value=grid
        )
    for name, values in grid.items():
        _check_name(name, source)
        if not isinstance(values, list) or not values:
            raise _bad(source, name, values, "expected a list of values")
    count = math.prod(len(values) for values in grid.values())
    _check_count(count, source)
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def _list(rows: Any, source: str) -> list[Values]:
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) and row for row in rows):
        raise _bad(source, "list", rows, "expected a list of {name: value}")
    _check_count(len(rows), source)
    for number, row in enumerate(rows, start=1):
        if row.keys() != rows[0].keys():
            raise _bad(source, f"list.{number}", dict(row), "must have the names of the first")
    for name in rows[0]:
        _check_name(name, source)
    return [dict(row) for row in rows]


def _random(matrix: Mapping[str, Any], source: str) -> list[Values]:
    ranges, count, seed = matrix["random"], matrix.get("count"), matrix.get("seed", 0)
    if not isinstance(ranges, Mapping) or not ranges:
        raise _bad(source, "random", ranges, "expected names with ranges or lists of values")
    if isinstance(count, bool) or not isinstance(count, int):
        raise _bad(source, "count", count, "expected how many jobs to make")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise _bad(source, "seed", seed, "expected a whole number")
    _check_count(count, source)
    for name in ranges:
        _check_name(name, source)
    rng = random.Random(seed)
    return [
        {name: _drawn(rng, given, name, source) for name, given in ranges.items()}
        for _ in range(count)
    ]


def _drawn(rng: random.Random, given: Any, name: str, source: str) -> Any:
    if isinstance(given, list) and given:
        return given[int(rng.random() * len(given))]
    kind, ends = None, None
    if isinstance(given, Mapping) and len(given) == 1:
        ((kind, ends),) = given.items()
    is_range = (
        kind in _BETWEEN
        and isinstance(ends, list)
        and len(ends) == 2
        and all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends)
        and ends[0] <= ends[1]
        and (kind != "log" or ends[0] > 0)
    )
    if not is_range:
        said = "expected a list, or {uniform: [0, 1]}, {log: [0.001, 1]} or {int: [1, 9]}"
        raise _bad(source, name, given, said)
    low, high = ends  # type: ignore[misc]  # two numbers, as was checked
    share = rng.random()
    if kind == "int":
        return int(low) + int(share * (int(high) - int(low) + 1))
    value = low * (high / low) ** share if kind == "log" else low + (high - low) * share
    return float(f"{value:.6g}")


def _filled(value: Any, values: Values) -> Any:
    if isinstance(value, str):
        return _PLACEHOLDER.sub(
            lambda found: _written(values[found[1]]) if found[1] in values else found[0], value
        )
    if isinstance(value, Mapping):
        return {name: _filled(item, values) for name, item in value.items()}
    if isinstance(value, Sequence):
        return [_filled(item, values) for item in value]
    return value


def _written(value: Any) -> str:
    """As it would be typed in a command."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _check_name(name: Any, source: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _bad(source, str(name), name, "a name has letters, digits and _")


def _check_count(count: int, source: str) -> None:
    if not 1 <= count <= MOST_JOBS:
        raise _bad(source, "", count, f"must make 1 to {MOST_JOBS:,} jobs")


def _bad(source: str, place: str, value: Any, problem: str) -> InputError:
    return InputError(
        problem, source=source, place=f"matrix.{place}" if place else "matrix", value=value
    )

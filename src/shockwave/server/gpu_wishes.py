"""What a job says about its GPUs: how many, of which types, with how much memory.

``gpus`` is written in one of four ways, and kept as the first or the last:

* ``4``: exactly so many;
* ``{min: 1, max: 16}``: 1, 2, 4, ... up to 16, and with ``request: 4`` those that a policy gives
  it which has no choice; without it, the smallest number;
* ``"1-16"``, the same on a command line;
* ``[4, 1, 2, 8]``, or ``"4,1,2,8"``: any of these, and the first is the request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, WithJsonSchema

from shockwave.model.errors import InputError
from shockwave.model.options import counts_between, memory_gb
from shockwave.model.words import count_of

MOST_GPUS = 100_000
_MOST_COUNTS = 64
_EXPECTED = "expected a number of GPUs, {min: 1, max: 16}, or a list of numbers"
_MEMORY = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(?:G|GB|GiB)?")


def _read_gpus(value: Any) -> Any:
    if isinstance(value, str):
        value = _written(value)
    if isinstance(value, Mapping):
        return _between(value)
    if isinstance(value, list | tuple):
        return _listed(value)
    return _number(value, least=0)


def _written(text: str) -> Any:
    between = re.fullmatch(r"\s*([0-9]+)\s*-\s*([0-9]+)\s*", text)
    if between is not None:
        return {"min": int(between[1]), "max": int(between[2])}
    numbers = [part.strip() for part in text.split(",")]
    if not all(number.isdigit() for number in numbers):
        raise ValueError(_EXPECTED)
    return int(text) if len(numbers) == 1 else [int(number) for number in numbers]


def _between(wish: Mapping[str, Any]) -> Any:
    unknown = set(wish) - {"min", "max", "request"}
    if unknown or not {"min", "max"} <= set(wish):
        raise ValueError("expected min and max, and at most request beside them")
    least, most = _number(wish["min"]), _number(wish["max"])
    request = _number(wish.get("request", least))
    if not least <= request <= most:
        raise ValueError("expected a min of at most max, and the request between them")
    counts = counts_between(least, most) if least < most else (least,)
    return _listed([request, *(count for count in counts if count != request)])


def _listed(counts: list[Any] | tuple[Any, ...]) -> Any:
    numbers = tuple(_number(count) for count in counts)
    if not 0 < len(numbers) <= _MOST_COUNTS or len(set(numbers)) != len(numbers):
        raise ValueError(f"expected 1 to {_MOST_COUNTS} numbers, each once")
    return numbers if len(numbers) > 1 else numbers[0]


def _number(value: Any, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        if not (isinstance(value, float) and value.is_integer()):
            raise ValueError(_EXPECTED)
        value = int(value)
    if not least <= value <= MOST_GPUS:
        raise ValueError(f"expected {least} to {MOST_GPUS} GPUs")
    return int(value)


def _split(value: Any) -> Any:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def _once(types: list[str]) -> list[str]:
    if len({name.lower() for name in types}) != len(types):
        raise ValueError("names a type twice")
    return types


def _gigabytes(value: Any) -> Any:
    """As people write it.

    >>> _gigabytes("40G"), _gigabytes("16"), _gigabytes(24)
    (40.0, 16.0, 24)
    """
    if not isinstance(value, str):
        return value
    found = _MEMORY.fullmatch(value.strip())
    if found is None:
        raise ValueError("expected gigabytes, such as 40 or 40G")
    return float(found[1])


_COUNT = {"type": "integer", "minimum": 1, "maximum": MOST_GPUS}
Gpus = Annotated[
    int | tuple[int, ...],
    BeforeValidator(_read_gpus),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": MOST_GPUS},
                {
                    "type": "object",
                    "properties": {"min": _COUNT, "max": _COUNT, "request": _COUNT},
                    "required": ["min", "max"],
                    "additionalProperties": False,
                },
                {
                    "type": "array",
                    "items": _COUNT,
                    "minItems": 1,
                    "maxItems": _MOST_COUNTS,
                    "uniqueItems": True,
                },
                {"type": "string", "pattern": r"^[0-9]+(-[0-9]+|(,[0-9]+)*)$"},
            ]
        },
        mode="validation",
    ),
]
TypeName = Annotated[
    str, StringConstraints(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")
]
TypeNames = Annotated[
    list[TypeName], BeforeValidator(_split), AfterValidator(_once), Field(max_length=64)
]
Gigabytes = Annotated[
    float,
    BeforeValidator(_gigabytes),
    Field(gt=0, le=100_000),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "maximum": 100_000},
                {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?G?$"},
            ]
        },
        mode="validation",
    ),
]


def request_of(gpus: int | tuple[int, ...]) -> int:
    """The number that a policy gives which has no choice."""
    return gpus if isinstance(gpus, int) else gpus[0]


def counts_of(gpus: int | tuple[int, ...]) -> tuple[int, ...]:
    """All numbers that would do; none for a job that needs exactly its request."""
    return () if isinstance(gpus, int) else tuple(sorted(gpus))


def known_types(names: list[str], cluster: Mapping[str, int], place: str) -> list[str]:
    """The names as the cluster writes them. Raises :class:`InputError` for one it does not have.

    ``cluster`` has the number of GPUs of each type.
    """
    spelling = {name.lower(): name for name in cluster}
    for name in names:
        if name.lower() not in spelling:
            raise InputError(
                "the cluster has no GPUs of this type",
                place=place,
                value=name,
                hint=f"It has {', '.join(cluster)}",
            )
    return [spelling[name.lower()] for name in names]


def check_room(
    request: int, types: list[str], memory: float | None, cluster: Mapping[str, int]
) -> None:
    """Raises :class:`InputError` for a request that no type of GPU could ever hold."""
    usable = {name: gpus for name, gpus in cluster.items() if not types or name in types}
    if memory is not None:
        enough = {name for name in usable if (memory_gb(name) or memory) >= memory}
        if usable and not enough:
            raise InputError(
                "no GPU that the job could use has as much memory",
                place="gpu_memory",
                value=memory,
                hint=f"There are {', '.join(usable)}",
            )
        usable = {name: usable[name] for name in enough}
    most = max(usable.values(), default=0)
    if request > most:
        there = count_of(most, "GPU slot") + (" of one type for it" if len(cluster) > 1 else "")
        raise InputError(
            f"the cluster has {there}, the job needs more at once",
            place="gpus",
            value=request,
        )

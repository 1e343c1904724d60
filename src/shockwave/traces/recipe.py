"""Generated workloads as one line of text, such as ``generated:jobs=120,span_hours=1.5``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from shockwave.model.errors import InputError
from shockwave.traces.mix import Mix

PREFIX = "generated:"
Key = TypeVar("Key")
_SHARES = ("static", "accordion", "gns", "pruning")


def _model_shares(text: str) -> dict[str, float]:
    return _pairs(text, str)


def _gpu_shares(text: str) -> dict[int, float]:
    return _pairs(text, int)


def _weights(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split("/"))


def _pairs(text: str, key: Callable[[str], Key]) -> dict[Key, float]:
    """``a:0.7/b:0.3``; a single choice needs no share."""
    if "/" not in text and ":" not in text:
        return {key(text): 1.0}
    shares: dict[Key, float] = {}
    for part in text.split("/"):
        name, _, share = part.partition(":")
        choice = key(name.strip())
        if choice in shares:
            raise ValueError(f"{name} twice")
        shares[choice] = float(share)
    return shares


# Every key is a field of Mix: (how to read it, what is expected).
_KEYS: dict[str, tuple[Callable[[str], Any], str]] = {
    "jobs": (int, "a whole number"),
    "seed": (int, "a whole number"),
    "span_hours": (float, "a number of hours"),
    "interarrival_seconds": (float, "a number of seconds"),
    "static": (float, "a share between 0 and 1"),
    "accordion": (float, "a share between 0 and 1"),
    "gns": (float, "a share between 0 and 1"),
    "pruning": (float, "a share between 0 and 1"),
    "never_adapt": (float, "a share between 0 and 1"),
    "min_hours": (float, "a number of hours"),
    "max_hours": (float, "a number of hours"),
    "gpus": (_gpu_shares, "gang sizes and shares such as 1:0.7/2:0.3"),
    "models": (_model_shares, "models and shares such as LM:0.7/ResNet-18:0.3"),
    "tenants": (int, "a whole number"),
    "tenant_weights": (_weights, "one weight per tenant such as 1/2"),
    "elastic": (float, "a share between 0 and 1"),
    "elastic_gpus": (int, "a whole number"),
    "types": (_model_shares, "types and how fast they compute such as T4:1/A100:4"),
    "node_gpus": (int, "a whole number"),
    "wrong_epochs": (float, "a standard deviation such as 0.5"),
}


def is_recipe(source: object) -> bool:
    """Whether ``source`` describes a workload instead of naming a file."""
    return isinstance(source, str) and source.startswith(PREFIX)


def parse_recipe(recipe: str) -> Mix:
    """The mix that ``generated:key=value,...`` describes; what is not named has its default.

    Naming one of the shares static, accordion, gns and pruning sets those that are not
    named to 0. Raises :class:`InputError` for an unknown key or a bad value.

    >>> parse_recipe("generated:jobs=30,accordion=0.5,gns=0.5").static
    0.0
    """
    if not is_recipe(recipe):
        raise InputError(f"a recipe starts with {PREFIX!r}", value=recipe, hint=_hint())
    chosen: dict[str, Any] = {}
    for item in recipe.removeprefix(PREFIX).split(","):
        if not item.strip() and not chosen and recipe.count(",") == 0:
            break  # "generated:" alone: all defaults
        key, equals, text = (part.strip() for part in item.partition("="))
        if key not in _KEYS or not equals:
            problem = "unknown key of a recipe" if equals else "expected key=value in a recipe"
            raise InputError(problem, source=recipe, value=item.strip(), hint=_hint())
        read, expected = _KEYS[key]
        if key in chosen:
            raise InputError("is given twice", source=recipe, place=key)
        try:
            chosen[key] = read(text)
        except ValueError:
            raise InputError(f"must be {expected}", source=recipe, place=key, value=text) from None
    if "span_hours" in chosen and "interarrival_seconds" in chosen:
        problem = "cannot be combined with interarrival_seconds"
        raise InputError(problem, source=recipe, place="span_hours", hint="Give one of them")
    if any(share in chosen for share in _SHARES):
        chosen = dict.fromkeys(_SHARES, 0.0) | chosen
    try:
        return Mix(**chosen)
    except InputError as error:
        raise InputError(
            error.problem, source=recipe, place=error.place, value=error.value, hint=error.hint
        ) from None


def _hint() -> str:
    return f"Keys are {', '.join(_KEYS)}"

"""Predictors by name. Third parties add theirs under the entry point group below."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

from shockwave.model.errors import InputError
from shockwave.predict.base import Predictor
from shockwave.predict.bayesian import Bayesian
from shockwave.predict.oracle import Oracle, Truth
from shockwave.predict.reactive import Reactive
from shockwave.predict.restatement import Restatement
from shockwave.predict.shares import EqualShares

ENTRY_POINTS = "shockwave.predictors"

_BUILT_IN: dict[str, Callable[[], Predictor]] = {
    predictor.name: predictor for predictor in (Restatement, EqualShares, Bayesian, Reactive)
}


def names() -> tuple[str, ...]:
    """Every predictor that :func:`create` knows, built in and installed."""
    installed = {entry.name for entry in entry_points(group=ENTRY_POINTS)}
    return (*_BUILT_IN, Oracle.name, *sorted(installed - {*_BUILT_IN, Oracle.name}))


def create(name: str, *, truth: Truth | None = None) -> Predictor:
    """A new predictor by its name; ``truth`` is what a clairvoyant one looks at.

    Raises :class:`InputError` for a name that is unknown, and for the oracle without truth.
    """
    if name == Oracle.name:
        if truth is None:
            raise InputError(
                "the oracle needs the true future of every job",
                place="predictor",
                value=name,
                hint="It exists in simulations only; use restatement elsewhere",
            )
        return Oracle(truth)
    if name in _BUILT_IN:
        return _BUILT_IN[name]()
    for entry in entry_points(group=ENTRY_POINTS, name=name):
        predictor = entry.load()()
        if not isinstance(predictor, Predictor):
            raise InputError(
                f"the installed predictor {entry.value} is not a shockwave Predictor",
                place="predictor",
                value=name,
                hint="Derive it from shockwave.predict.base.Predictor",
            )
        return predictor
    raise InputError(
        "unknown predictor",
        place="predictor",
        value=name,
        hint=f"Known: {', '.join(names())}",
    )

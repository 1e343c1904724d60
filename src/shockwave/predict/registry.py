"""Predictors by name. Third parties add theirs under the entry point group below."""

from __future__ import annotations

from collections.abc import Callable

from shockwave.model.errors import InputError
from shockwave.model.plugins import plug_ins
from shockwave.predict.base import Predictor
from shockwave.predict.bayesian import Bayesian
from shockwave.predict.oracle import Oracle, Truth
from shockwave.predict.reactive import Reactive
from shockwave.predict.restatement import Restatement
from shockwave.predict.shares import EqualShares

GROUP = "shockwave.predictors"

_BUILT_IN: dict[str, Callable[[], Predictor]] = {
    predictor.name: predictor for predictor in (Restatement, EqualShares, Bayesian, Reactive)
}


def names() -> tuple[str, ...]:
    """Every predictor that :func:`create` knows, built in and installed."""
    built_in = (*_BUILT_IN, Oracle.name)
    return (*built_in, *(name for name in plug_ins(GROUP, Predictor) if name not in built_in))


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
    plug_in = plug_ins(GROUP, Predictor).get(name)
    if plug_in is None:
        raise InputError(
            "unknown predictor", place="predictor", value=name, hint=f"Known: {', '.join(names())}"
        )
    return plug_in.create()

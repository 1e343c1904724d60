"""Predictors by name: the built-in ones, and those that other packages bring.

A package adds a predictor by an entry point in the group ``shockwave.predictors``.
"""

from __future__ import annotations

from shockwave.model.errors import InputError
from shockwave.model.registry import Registry
from shockwave.predict.base import Predictor
from shockwave.predict.oracle import Oracle, Truth

PREDICTORS = Registry(
    "predictor",
    "shockwave.predictors",
    Predictor,
    {
        "restatement": "shockwave.predict.restatement:Restatement",
        "equal-shares": "shockwave.predict.shares:EqualShares",
        "bayesian": "shockwave.predict.bayesian:Bayesian",
        "reactive": "shockwave.predict.reactive:Reactive",
        "oracle": "shockwave.predict.oracle:Oracle",
    },
)

names = PREDICTORS.names


def create(name: str, *, truth: Truth | None = None) -> Predictor:
    """A new predictor by its name; ``truth`` is what a clairvoyant one looks at.

    Raises :class:`InputError` for a name that is unknown, and for the oracle without truth.
    """

    def make(predictor: type[Predictor]) -> Predictor:
        if not issubclass(predictor, Oracle):
            return predictor()
        if truth is None:
            raise InputError(
                "the oracle needs the true future of every job",
                place="predictor",
                value=name,
                hint="It exists in simulations only; use restatement elsewhere",
            )
        return predictor(truth)

    return PREDICTORS.create(name, make)

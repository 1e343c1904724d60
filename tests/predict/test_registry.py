"""Predictors by name."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from shockwave.model import registry as model_registry
from shockwave.model.errors import InputError
from shockwave.model.job import Regime
from shockwave.predict import registry
from shockwave.predict.reactive import Reactive


class _Truth:
    def regimes(self, handle: int) -> tuple[Regime, ...]:
        return (Regime(16, 10, 1.0),)


def test_every_name_makes_the_predictor_of_that_name() -> None:
    assert set(registry.names()) >= {
        "restatement",
        "equal-shares",
        "bayesian",
        "reactive",
        "oracle",
    }
    for name in registry.names():
        predictor = registry.create(name, truth=_Truth())
        assert predictor.name == name
        assert predictor.clairvoyant == (name == "oracle")


def test_predictors_do_not_share_experience() -> None:
    assert registry.create("restatement") is not registry.create("restatement")


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"no such predictor \(got 'crystal'\).*restatement"):
        registry.create("crystal")


def test_the_oracle_without_truth_is_refused() -> None:
    with pytest.raises(InputError, match="true future"):
        registry.create("oracle")


class _Installed(Reactive):
    name = "installed"


@pytest.mark.parametrize(("target", "fits"), [(_Installed, True), (dict, False)])
def test_third_parties_add_theirs(monkeypatch: pytest.MonkeyPatch, target: Any, fits: bool) -> None:
    entry = EntryPoint("installed", "somewhere:Installed", registry.PREDICTORS.group)
    monkeypatch.setattr(EntryPoint, "load", lambda self: target)
    monkeypatch.setattr(model_registry, "entry_points", lambda **query: [entry])
    assert "installed" in registry.names()
    if fits:
        assert isinstance(registry.create("installed"), _Installed)
    else:
        with pytest.raises(InputError, match=r"not a subclass of .*Predictor"):
            registry.create("installed")

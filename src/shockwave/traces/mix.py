"""The knobs of a generated workload."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TypeVar

from shockwave.model.errors import InputError
from shockwave.model.job import Adaptation
from shockwave.traces.profiles import PROFILES

Choice = TypeVar("Choice")
_LARGEST = 1e9


def _models() -> dict[str, float]:
    return {name: 1 / len(PROFILES) for name in PROFILES}


def _gang_sizes() -> dict[int, float]:
    return {1: 0.6, 2: 0.3, 4: 0.09, 8: 0.01}


@dataclass(frozen=True)
class Mix:
    """What kind of jobs to generate, and how many. Raises :class:`InputError` if impossible.

    ``models`` and ``gpus`` map each choice to its probability; a gang is given only to
    models that scale that far. The exclusive runtime is log-uniform between ``min_hours``
    and ``max_hours``. Jobs arrive as a Poisson process, the first one at 0: either with a
    mean of ``interarrival_seconds`` in between, or spread over ``span_hours`` (0: all at
    once) where that is given. ``static``, ``accordion``, ``gns`` and ``pruning`` are the
    shares of the adaptations, and ``never_adapt`` is the share of the adaptive jobs that
    could adapt but never do. Jobs belong to ``tenants`` tenants at random, whose weights
    are ``tenant_weights`` (1 for all if empty).

    ``elastic`` is the share of the jobs that can use 1 to ``elastic_gpus`` GPUs; the others keep
    to their request. ``types`` maps types of GPUs to how fast they compute, and nodes have
    ``node_gpus`` of them (:mod:`shockwave.traces.scaling`). ``wrong_epochs`` is how far off the
    epochs are that jobs declare: the standard deviation of the logarithm.
    """

    jobs: int = 120
    seed: int = 0
    models: Mapping[str, float] = field(default_factory=_models)
    gpus: Mapping[int, float] = field(default_factory=_gang_sizes)
    min_hours: float = 0.2
    max_hours: float = 5.0
    interarrival_seconds: float = 40.0
    span_hours: float | None = None
    static: float = 0.2
    accordion: float = 0.4
    gns: float = 0.4
    pruning: float = 0.0
    never_adapt: float = 0.15
    tenants: int = 1
    tenant_weights: tuple[float, ...] = ()
    elastic: float = 0.0
    elastic_gpus: int = 16
    types: Mapping[str, float] = field(default_factory=dict)
    node_gpus: int = 4
    wrong_epochs: float = 0.0

    @property
    def adaptations(self) -> dict[Adaptation, float]:
        """The share of every adaptation that can be generated."""
        return {
            Adaptation.STATIC: self.static,
            Adaptation.ACCORDION: self.accordion,
            Adaptation.GNS: self.gns,
            Adaptation.PRUNING: self.pruning,
        }

    def __post_init__(self) -> None:
        for knob in fields(self):
            value = getattr(self, knob.name)
            if isinstance(value, float) and not abs(value) <= _LARGEST:  # nan compares false
                expected = f"must be a finite number of at most {_LARGEST:g}"
                raise InputError(expected, place=knob.name, value=value)
        self._require("jobs", self.jobs >= 1, "must be at least 1")
        self._require("seed", self.seed >= 0, "must not be negative")
        self._require("min_hours", self.min_hours > 0, "must be above 0")
        self._require("max_hours", self.max_hours >= self.min_hours, "must not be below min_hours")
        self._require(
            "interarrival_seconds", self.interarrival_seconds >= 0, "must not be negative"
        )
        self._require("span_hours", (self.span_hours or 0) >= 0, "must not be negative")
        self._require("never_adapt", 0 <= self.never_adapt <= 1, "must be between 0 and 1")
        self._require("tenants", self.tenants >= 1, "must be at least 1")
        self._require(
            "tenant_weights",
            all(0 < weight < math.inf for weight in self.tenant_weights),
            "must be numbers above 0",
        )
        self._require(
            "tenant_weights",
            len(self.tenant_weights) in (0, self.tenants),
            f"must be as many as there are tenants, {self.tenants}",
        )
        self._require("elastic", 0 <= self.elastic <= 1, "must be between 0 and 1")
        for knob_name in ("elastic_gpus", "node_gpus"):
            self._require(knob_name, getattr(self, knob_name) >= 1, "must be at least 1")
        positive = all(0 < speed < _LARGEST for speed in self.types.values())
        self._require("types", positive, "must be types and how fast they compute, above 0")
        self._require("wrong_epochs", 0 <= self.wrong_epochs <= 5, "must be between 0 and 5")
        _check_shares("static + accordion + gns + pruning", self.adaptations)
        self._check_models_and_gangs()

    def _check_models_and_gangs(self) -> None:
        for model in self.models:
            if model not in PROFILES:
                hint = f"Known models are {', '.join(PROFILES)}"
                raise InputError(
                    "there is no profile of this model", place="models", value=model, hint=hint
                )
        _check_shares("models", self.models)
        self._require("gpus", all(gang >= 1 for gang in self.gpus), "must be at least 1")
        _check_shares("gpus", self.gpus)
        widest = max(PROFILES[model].max_gpus for model, share in self.models.items() if share > 0)
        for gang, share in self.gpus.items():
            if share > 0 and gang > widest:
                raise InputError(
                    f"no chosen model scales beyond {widest} GPUs", place="gpus", value=gang
                )

    def _require(self, knob: str, holds: bool, expected: str) -> None:
        if not holds:
            raise InputError(expected, place=knob, value=getattr(self, knob))


def _check_shares(place: str, shares: Mapping[Choice, float]) -> None:
    for share in shares.values():
        if not 0 <= share <= 1:
            raise InputError("every share must be between 0 and 1", place=place, value=share)
    total = math.fsum(shares.values())
    if abs(total - 1) > 1e-9:
        raise InputError("shares must sum to 1", place=place, value=round(total, 9))

"""Policies for tests of what does not depend on how long they search."""

from __future__ import annotations

import numpy as np

from shockwave.policies import registry
from shockwave.policies.base import Policy
from shockwave.policies.pollux import Pollux, SearchSettings


def create(name: str, seed: int = 0) -> Policy:
    """A fresh policy of that name."""
    if name == "pollux":
        return Pollux(np.random.default_rng(seed), SearchSettings(population=20, generations=6))
    return registry.create(name, seed=seed)

"""Policies by name: the built-in ones, and those that other packages bring.

A package adds a policy by an entry point in the group ``shockwave.policies`` whose name is
the policy's and whose value is the class, e.g. ``my-policy = "my_package:MyPolicy"``.
"""

from __future__ import annotations

from shockwave.model.errors import InputError
from shockwave.model.plugins import plug_ins
from shockwave.plan.window.planner import Solver
from shockwave.policies.allox import Allox
from shockwave.policies.base import Policy, PolicyOptions
from shockwave.policies.fifo import Fifo
from shockwave.policies.gandiva_fair import GandivaFair
from shockwave.policies.gavel import Gavel
from shockwave.policies.las import Las
from shockwave.policies.mst import Mst
from shockwave.policies.ossp import Ossp
from shockwave.policies.shockwave import Shockwave
from shockwave.policies.shockwave_nsdi23 import ShockwaveNsdi23
from shockwave.policies.srtf import Srtf, SrtfOracle
from shockwave.policies.themis import Themis
from shockwave.policies.tiresias import Tiresias

GROUP = "shockwave.policies"

_BUILT_IN: tuple[type[Policy], ...] = (
    Shockwave, ShockwaveNsdi23, Themis, Gavel, Allox, Ossp, Mst, GandivaFair, Tiresias, Srtf, Las,
    Fifo, SrtfOracle,
)  # fmt: skip


def available() -> list[str]:
    """The names of all policies, built-in ones first."""
    built_in = [policy.name for policy in _BUILT_IN]
    return built_in + [name for name in plug_ins(GROUP, Policy) if name not in built_in]


def create(name: str, *, seed: int = 0, solver: Solver = "prices") -> Policy:
    """A fresh instance of the policy. Raises :class:`InputError` naming what exists."""
    options = PolicyOptions(seed, solver)
    classes = {policy.name: policy for policy in _BUILT_IN}
    if name in classes:
        return classes[name].configured(options)
    plug_in = plug_ins(GROUP, Policy).get(name)
    if plug_in is None:
        raise InputError("no such policy", value=name, hint=f"There are: {', '.join(available())}")
    return plug_in.create(lambda policy: policy.configured(options))

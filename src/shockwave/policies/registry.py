"""Policies by name: the built-in ones, and those that other packages bring.

A package adds a policy by an entry point in the group ``shockwave.policies`` whose name is
the policy's and whose value is the class, e.g. ``my-policy = "my_package:MyPolicy"``.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from shockwave.model.errors import InputError
from shockwave.policies.allox import Allox
from shockwave.policies.base import Policy
from shockwave.policies.fifo import Fifo
from shockwave.policies.gandiva_fair import GandivaFair
from shockwave.policies.gavel import Gavel
from shockwave.policies.las import Las
from shockwave.policies.mst import Mst
from shockwave.policies.ossp import Ossp
from shockwave.policies.srtf import Srtf, SrtfOracle
from shockwave.policies.themis import Themis
from shockwave.policies.tiresias import Tiresias

GROUP = "shockwave.policies"

_BUILT_IN: tuple[type[Policy], ...] = (
    Themis, Gavel, Allox, Ossp, Mst, GandivaFair, Tiresias, Srtf, Las, Fifo, SrtfOracle,
)  # fmt: skip


def available() -> list[str]:
    """The names of all policies, built-in ones first."""
    built_in = [policy.name for policy in _BUILT_IN]
    return built_in + sorted(set(_plug_ins()) - set(built_in))


def create(name: str) -> Policy:
    """A fresh instance of the policy. Raises :class:`InputError` naming what exists."""
    for policy in _BUILT_IN:
        if policy.name == name:
            return policy()
    plug_in = _plug_ins().get(name)
    if plug_in is None:
        raise InputError("no such policy", value=name, hint=f"There are: {', '.join(available())}")
    return _load(plug_in)


def _plug_ins() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def _load(point: EntryPoint) -> Policy:
    try:
        policy = point.load()()
    except Exception as error:  # a plug-in may fail in any way; say whose fault it is
        raise InputError(
            f"the plug-in {point.value!r} for policy {point.name!r} does not load: {error}"
        ) from error
    if not isinstance(policy, Policy):
        raise InputError(f"the plug-in {point.value!r} is not a shockwave Policy", value=policy)
    return policy

"""Policies by name: the built-in ones, and those that other packages bring.

A package adds a policy by an entry point in the group ``shockwave.policies`` whose name is
the policy's and whose value is the class, e.g. ``my-policy = "my_package:MyPolicy"``.
"""

from __future__ import annotations

from importlib.util import find_spec

from shockwave.model.registry import Registry
from shockwave.plan.window.planner import Solver
from shockwave.policies.base import Policy, PolicyOptions

POLICIES = Registry(
    "policy",
    "shockwave.policies",
    Policy,
    {
        "shockwave": "shockwave.policies.shockwave:Shockwave",
        "shockwave-nsdi23": "shockwave.policies.shockwave_nsdi23:ShockwaveNsdi23",
        "themis": "shockwave.policies.themis:Themis",
        "gavel": "shockwave.policies.gavel:Gavel",
        "allox": "shockwave.policies.allox:Allox",
        "sia": "shockwave.policies.sia:Sia",
        "pollux": "shockwave.policies.pollux:Pollux",
        "ossp": "shockwave.policies.ossp:Ossp",
        "mst": "shockwave.policies.mst:Mst",
        "gandiva-fair": "shockwave.policies.gandiva_fair:GandivaFair",
        "tiresias": "shockwave.policies.tiresias:Tiresias",
        "srtf": "shockwave.policies.srtf:Srtf",
        "las": "shockwave.policies.las:Las",
        "fifo": "shockwave.policies.fifo:Fifo",
        "srtf-oracle": "shockwave.policies.srtf:SrtfOracle",
    },
)

names = POLICIES.names


def that_can_run(*, options: bool) -> list[str]:
    """All of ours that need nothing that is not installed, and all of others.

    ``options``: whether jobs have several to choose from.
    """
    if find_spec("highspy") is not None:
        return names()
    solving = {"always", "with options"} if options else {"always"}
    return [
        name
        for name in names()
        if name not in POLICIES.built_in or POLICIES.load(name).needs_solver not in solving
    ]


def create(name: str, *, seed: int = 0, solver: Solver = "prices") -> Policy:
    """A fresh instance of the policy. Raises :class:`InputError` naming what exists."""
    options = PolicyOptions(seed, solver)
    return POLICIES.create(name, lambda policy: policy.configured(options))

"""Every built-in policy keeps the contract that ships for third parties."""

from __future__ import annotations

import pytest
from tests.policies import quick

from shockwave.policies import registry
from shockwave.policies.base import Policy
from shockwave.testing import PolicyContract


def contract(name: str) -> type[PolicyContract]:
    class TestBuiltIn(PolicyContract):
        def make(self) -> Policy:
            return quick.create(name)

    TestBuiltIn.__name__ = f"Test_{name.replace('-', '_')}"
    return TestBuiltIn


for _name in registry.names():
    globals()[f"Test_{_name.replace('-', '_')}"] = contract(_name)


def test_all_policies_of_the_design_are_there() -> None:
    expected = {
        "themis", "gavel", "allox", "ossp", "mst", "gandiva-fair", "tiresias", "srtf", "las",
        "fifo", "srtf-oracle",
    }  # fmt: skip
    assert expected <= set(registry.names())


def test_an_unknown_policy_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(Exception, match=r"no such policy.*'nope'.*gavel"):
        registry.create("nope")

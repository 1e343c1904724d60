"""Every built-in policy keeps the contract that ships for third parties."""

from __future__ import annotations

import pytest

from shockwave.policies import registry
from shockwave.policies.base import Policy
from shockwave.testing import PolicyContract


class AgingContract(PolicyContract):
    """What the default policy keeps: all but one."""

    @pytest.mark.xfail(
        strict=True,
        reason="the horizon of the default policy has a slack of 2 % of the time since the run "
        "began, and its static deadlines count all jobs ever seen",
    )
    @pytest.mark.parametrize("seed", range(6))
    def test_a_workload_that_comes_a_year_later_is_scheduled_a_year_later(self, seed: int) -> None:
        super().test_a_workload_that_comes_a_year_later_is_scheduled_a_year_later(seed)


def contract(name: str) -> type[PolicyContract]:
    base = AgingContract if name == "shockwave" else PolicyContract

    class TestBuiltIn(base):  # type: ignore[misc, valid-type]
        def make(self) -> Policy:
            return registry.create(name)

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

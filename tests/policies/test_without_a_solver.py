"""What is compared where no solver of integer programs is installed."""

from __future__ import annotations

import pytest

from shockwave.policies import registry


@pytest.mark.parametrize(
    ("options", "left_out"), [(False, {"sia"}), (True, {"sia", "gavel", "mst", "allox"})]
)
def test_policies_that_need_a_solver_are_left_out_where_there_is_none(
    options: bool, left_out: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert registry.that_can_run(options=options) == registry.names()
    monkeypatch.setattr(registry, "find_spec", lambda _: None)
    found = registry.that_can_run(options=options)
    assert set(registry.names()) - set(found) == left_out

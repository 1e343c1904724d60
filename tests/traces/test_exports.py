"""The public names of the layer; taking one away breaks somebody's import."""

from __future__ import annotations

from shockwave import traces


def test_the_public_names() -> None:
    assert traces.__all__ == [
        "FormatEntry",
        "Mix",
        "TraceDescription",
        "TraceFormat",
        "available",
        "describe",
        "generate",
        "load",
        "makespan_lower_bound",
        "parse_recipe",
        "read",
        "write",
    ]
    assert all(hasattr(traces, name) for name in traces.__all__)

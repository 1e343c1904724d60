"""Fixtures that every test may use."""

from __future__ import annotations

from pathlib import Path

import pytest

collect_ignore = ["server/tiny_job.py"]  # a program, not a module
SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """The paper's workloads, where they are at hand."""
    path = SHARED / "traces"
    if not path.is_dir():
        pytest.skip("the paper's traces are not beside this checkout")
    return path


@pytest.fixture(scope="session")
def shared_reference() -> Path:
    """Figures of the original system, where they are at hand."""
    path = SHARED / "reference" / "results.json"
    if not path.is_file():
        pytest.skip("the original's figures are not beside this checkout")
    return path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests first, or one processor waits for another at the end."""
    items.sort(key=lambda item: "test_ray_engine" not in item.nodeid)

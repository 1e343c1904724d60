"""Fixtures that every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Tests must hold on a busy machine: how long an example takes says nothing about the code.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

collect_ignore = ["server/tiny_job.py"]  # a program, not a module
LONGEST = (
    "test_ray_in_its_own_namespace[wrong]",
    "test_ray_in_its_own_namespace[well]",
    "test_preempted_jobs_end_as_if_they_had_run_alone",
    "live/test_faults_slurm",
    "slurm/test_multi_node",
    "live/test_faults.py",
)
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
    """The longest tests first, or all wait for one at the end.

    They spend most of their time waiting, so every other worker begins with them and leaves the
    processor to its neighbour. A worker begins with its even part of all tests.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    waiting = [item for name in LONGEST for item in items if name in item.nodeid]
    others = [item for item in items if item not in waiting]
    hands = (workers + 1) // 2
    ordered: list[pytest.Item] = []
    for worker in range(workers):
        size = (len(items) - len(ordered)) // (workers - worker)
        dealt = waiting[worker // 2 :: hands] if worker % 2 == 0 else []
        size = max(size - len(dealt), 0)
        ordered += [*dealt, *others[:size]]
        others = others[size:]
    items[:] = ordered

"""Fixtures that every test may use."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Tests must hold on a busy machine: how long an example takes says nothing about the code.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

collect_ignore = ["server/tiny_job.py"]  # a program, not a module
LONGEST = (
    "test_ray_in_its_own_namespace",
    "live/test_faults_slurm",
    "slurm/test_multi_node",
    "live/test_faults.py",
    "test_preempted_jobs_end_as_if_they_had_run_alone",
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

    They spend most of their time waiting. One after the other they leave a second worker the
    processor for the many others.
    """
    items.sort(key=lambda item: not any(name in item.nodeid for name in LONGEST))

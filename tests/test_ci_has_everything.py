"""In CI nothing may be skipped because a tool is missing; elsewhere that is fine."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import pytest
from tools.chromium import MISSING, PATH

from shockwave.testing.ray_cluster import why_ray_cannot_run
from shockwave.testing.slurm_cluster import why_slurm_cannot_run

in_ci = pytest.mark.skipif(os.environ.get("CI") != "true", reason="only CI must have everything")


@in_ci
@pytest.mark.parametrize(
    "module",
    ["accelerate", "axe_playwright_python", "fastapi", "highspy", "lightning", "playwright",
     "psycopg", "schemathesis", "ray", "torch", "transformers"],
)  # fmt: skip
def test_the_library_is_installed(module: str) -> None:
    assert importlib.util.find_spec(module) is not None


@in_ci
@pytest.mark.parametrize(
    "program", ["slurmctld", "slurmd", "sbatch", "munged", "redis-server", "unshare", "ip"]
)
def test_the_program_is_installed(program: str) -> None:
    assert shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


@in_ci
def test_clusters_of_slurm_and_ray_can_be_started() -> None:
    assert os.geteuid() == 0, "run the tests as root: they start slurmd and network namespaces"
    assert why_slurm_cannot_run() is None
    assert why_ray_cannot_run() is None


@in_ci
def test_a_browser_and_a_database_server_are_installed() -> None:
    assert PATH is not None, MISSING
    assert shutil.which("initdb") or list(Path("/usr/lib/postgresql").glob("*/bin/initdb"))

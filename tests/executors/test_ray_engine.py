"""Runs the tests of ``tests/executors/ray`` in a namespace of their own.

Ray's ports are open to whoever reaches them, so it gets a network that has only loopback; and
whatever it leaves behind ends with the namespace.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shockwave.testing.ray_cluster import isolated, why_ray_cannot_run

INSIDE = Path(__file__).with_name("ray")
LIMIT_SECONDS = 1200.0
_SET_PARENT_DEATH_SIGNAL = 1  # prctl(2)


def test_ray_in_its_own_namespace() -> None:
    problem = why_ray_cannot_run()
    if problem is not None:
        pytest.skip(problem)
    command = [sys.executable, "-m", "pytest", "-q", "--durations=10", "-p", "no:cacheprovider"]
    done = subprocess.run(
        isolated([*command, str(INSIDE)]),
        env={**os.environ, "SHOCKWAVE_TEST_RAY": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=LIMIT_SECONDS,
        preexec_fn=_die_with_parent,
    )
    assert done.returncode == 0, done.stdout


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)

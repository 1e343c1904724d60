"""A scheduler's side of the protocol, small enough to script in a test."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shockwave.protocol.files import write_json

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES = REPOSITORY / "examples"
DEADLINE_SECONDS = 120.0


class FakeScheduler:
    """Owns one job's directory: leases, environments, reports."""

    def __init__(self, directory: Path, generation: int = 1) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.launch(generation)

    def launch(self, generation: int) -> None:
        """A new generation, with a fresh lease."""
        self.generation = generation
        self.lease()

    def lease(self, *, stop: bool = False) -> None:
        write_json(self.directory / "lease.json", {"generation": self.generation, "stop": stop})

    def environment(self, rank: int = 0, world_size: int = 1) -> dict[str, str]:
        return {
            "SHOCKWAVE_JOB": "job-1",
            "SHOCKWAVE_GENERATION": str(self.generation),
            "SHOCKWAVE_DIR": str(self.directory),
            "SHOCKWAVE_GRACE_SECONDS": "30",
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(world_size),
        }

    def reports(self, generation: int | None = None) -> list[dict[str, Any]]:
        path = self.directory / f"reports-{generation or self.generation}.jsonl"
        if not path.exists():
            return []
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def events(self, generation: int | None = None) -> list[str]:
        return [str(record["event"]) for record in self.reports(generation)]


def free_port() -> int:
    """A port on loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(command: list[str], extra: dict[str, str]) -> subprocess.Popen[str]:
    """A Python process with the repository's package and one thread for arithmetic."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": f"{REPOSITORY / 'src'}:{REPOSITORY}",
        **extra,
    }
    return subprocess.Popen(
        [sys.executable, *command],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    """Waits for a process that must succeed; its standard output."""
    out, error = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0, f"exit code {process.returncode}\n{out}\n{error}"
    return out


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Polls; fails with the process's output if it ends first."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        if process.poll() is not None and not condition():
            out, error = process.communicate()
            raise AssertionError(f"ended with {process.returncode}\n{out}\n{error}")
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)

"""A real scheduler with real jobs, for tests that hurt it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from shockwave.cli.client import Client
from shockwave.model.events import Event
from shockwave.server.archive import Archive
from shockwave.server.store import Store

JOB = Path(__file__).resolve().parents[2] / "examples" / "numpy_sgd.py"
DEADLINE_SECONDS = 400.0  # generous: machines that run tests are busy


class Scheduler:
    """``shockwave serve`` on a state directory, killed and started as a test likes.

    ``where`` are the flags that say what it runs its jobs on.
    """

    def __init__(
        self,
        folder: Path,
        *,
        policy: str,
        round_seconds: float = 3.0,
        where: Sequence[str] = ("--slots", "4"),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.state = folder / "state"
        self._log = folder / "serve.log"
        self._command = [
            sys.executable, "-m", "shockwave.cli.main", "serve", "--state-dir", str(self.state),
            *where, "--policy", policy, "--round", str(round_seconds), "--restart", "0.5",
            "--grace-seconds", "15",
        ]  # fmt: skip
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._client: Client | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            begin = log.tell()
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env=self._environment
            )
        self._client = Client(wait_for(lambda: self._listening(begin), "the scheduler to listen"))

    def _listening(self, begin: int) -> str | None:
        assert self._process is not None
        said = self._log.read_bytes()[begin:].decode()
        assert self._process.poll() is None, f"serve ended: {said}"
        found = re.search(r"listens on (\S+?),?\s", said)
        return found.group(1) if found else None

    def kill(self) -> None:
        """SIGKILL: no farewell."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(60)

    def submit(
        self, name: str, epochs: int, *, gpus: int = 1, epoch_seconds: float = 0.4, **more: Any
    ) -> None:
        assert self._client is not None
        command = [
            sys.executable, str(JOB), "--epochs", str(epochs),
            "--epoch-seconds", str(epoch_seconds), "--seed", name.rsplit("-", 1)[-1],
        ]  # fmt: skip
        body = {
            "name": name,
            "command": command,
            "workdir": str(JOB.parent),
            "gpus": gpus,
            "epochs": epochs,
            "adaptation": "gns",
            "batch_sizes": [32, 64, 128, 256],
            **more,
        }
        self._client.post("jobs", body=body, headers={"Idempotency-Key": name})

    def jobs(self) -> list[dict[str, Any]]:
        assert self._client is not None
        return list(self._client.pages("jobs"))

    def nodes(self) -> list[dict[str, Any]]:
        assert self._client is not None
        return list(self._client.get("nodes")["items"])

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_until_done(self) -> list[dict[str, Any]]:
        def done() -> list[dict[str, Any]] | None:
            jobs = self.jobs()
            return jobs if all(j["state"] not in ("waiting", "running") for j in jobs) else None

        ended: list[dict[str, Any]] = wait_for(done, "all jobs to end")
        return ended

    def events(self) -> list[Event]:
        archive = Archive(self.state / "archive")
        store = Store(f"sqlite:///{self.state / 'shockwave.db'}", archive, only_read=True)
        try:
            return [event for _, event in store.events()]
        finally:
            store.close()

    def folder(self, job: str) -> Path:
        return self.state / "jobs" / job

    def rank_processes(self) -> list[int]:
        """Process ids of everything that trains under this scheduler now."""
        found = []
        for process in Path("/proc").iterdir():
            if process.name.isdigit():
                try:
                    words = (process / "cmdline").read_bytes().split(b"\0")
                    folder = (process / "environ").read_bytes()
                except OSError:
                    continue  # it has just ended
                if str(JOB).encode() in words and str(self.state).encode() in folder:
                    found.append(int(process.name))
        return found


def reports(folder: Path) -> dict[int, list[dict[str, Any]]]:
    """What every launch of a job reported, by generation."""
    found = {}
    for path in folder.glob("reports-*.jsonl"):
        lines = path.read_text().splitlines()
        found[int(path.stem.removeprefix("reports-"))] = [json.loads(line) for line in lines]
    return dict(sorted(found.items()))


def kill_process(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def wait_for(ask: Callable[[], Any], what: str) -> Any:
    """The first answer that is not None or empty."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        answer = ask()
        if answer:
            return answer
        time.sleep(0.1)
    raise AssertionError(f"waited {DEADLINE_SECONDS:.0f} s for {what}")

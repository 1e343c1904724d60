"""How the service bears load: submissions, reports, and the queue meanwhile.

    python bench/service.py            # about two minutes: 10,000 jobs, 5,000 reports a second
    python bench/service.py --quick    # 500 jobs, a few seconds

Starts ``shockwave serve`` as a process of its own on a free port, with a state directory that
is thrown away, submits the jobs over HTTP, and then, while running jobs report and rounds are
decided, asks for the queue over and over. Prints a table and writes ``out/service.json``.
Times are wall-clock, seen by the client; memory is that of the server's process.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from shockwave.server.submissions import JobTokens

SERVE = "import json, sys; from shockwave.cli.serve import serve; serve(**json.loads(sys.argv[1]))"
SUBMITTERS = 4
REPORTERS = 4
JOB = {
    "command": ["sleep", "3600"],
    "workdir": "/",
    "epochs": 1000,
    "adaptation": "gns",
    "batch_sizes": [32, 64, 128],
    "epoch_seconds": {"32": 60.0, "64": 40.0, "128": 30.0},
}


@dataclass
class Timed:
    """Seconds that requests of one kind took, and how many were refused."""

    seconds: list[float] = field(default_factory=list)
    failed: int = 0

    def summary(self, elapsed: float) -> dict[str, float]:
        times = np.array(self.seconds or [np.nan])
        return {
            "requests": len(self.seconds),
            "failed": self.failed,
            "per_second": len(self.seconds) / elapsed,
            "p50_seconds": float(np.quantile(times, 0.5)),
            "p95_seconds": float(np.quantile(times, 0.95)),
            "max_seconds": float(times.max()),
        }


@dataclass(frozen=True)
class Server:
    socket: Path
    pid: int
    state_dir: Path

    def client(self) -> Connection:
        return Connection(self.socket)

    def memory_bytes(self, field: str = "VmRSS") -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(rf"{field}:\s+(\d+) kB", status)
        return 0 if found is None else int(found.group(1)) * 1024


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=120)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Connection:
    """One connection that is kept alive, as a patient client would."""

    def __init__(self, path: Path) -> None:
        self._http = UnixConnection(path)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        token: str | None = None,
        into: Timed | None = None,
    ) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        start = time.perf_counter()
        self._http.request(method, path, body, headers)
        response = self._http.getresponse()
        content = response.read()
        if into is not None:
            into.seconds.append(time.perf_counter() - start)
            into.failed += response.status >= 400
        return response.status, content

    def get(self, path: str, into: Timed | None = None) -> Any:
        status, content = self.ask("GET", path, into=into)
        if status != 200:
            raise SystemExit(f"GET {path}: {status} {content[:200]!r}")
        return json.loads(content)


@contextmanager
def serving(
    slots: int,
    round_seconds: float,
    policy: str,
    state_dir: Path | None = None,
    restart_seconds: float = 1.0,
    **more: Any,
) -> Iterator[Server]:
    """In a state directory that is thrown away, unless one is given; ``more`` are settings."""
    with tempfile.TemporaryDirectory(prefix="shockwave-bench-") as folder:
        state_dir = state_dir or Path(folder) / "state"
        settings = {
            "state_dir": str(state_dir), "slots": slots, "policy": policy,
            "round_seconds": round_seconds, "restart_seconds": restart_seconds,
            "grace_seconds": 1.0, "stop_jobs": True, **more,
        }  # fmt: skip
        log = Path(folder) / "serve.log"
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-c", SERVE, json.dumps(settings)],
                stdout=subprocess.PIPE,
                stderr=errors,
                env=os.environ | {"COLUMNS": "500", "OMP_NUM_THREADS": "1"},
            )
            assert process.stdout is not None
            line = process.stdout.readline().decode()
            if "listens on unix:" not in line:
                raise SystemExit(f"serve did not start: {line}{log.read_text()[-2000:]}")
            try:
                yield Server(state_dir / "shockwave.sock", process.pid, state_dir)
            finally:
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=120)


def in_threads(count: int, work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def submit_all(server: Server, jobs: int) -> dict[str, float]:
    """Every job in a request of its own; each is on disk before it is answered."""
    timed = [Timed() for _ in range(SUBMITTERS)]

    def submit(worker: int) -> None:
        connection = server.client()
        for number in range(worker, jobs, SUBMITTERS):
            job = JOB | {"name": f"bench-{number}", "tenant": f"tenant-{number % 7}"}
            connection.ask("POST", "/api/v1/jobs", json.dumps(job).encode(), into=timed[worker])

    start = time.perf_counter()
    in_threads(SUBMITTERS, submit)
    elapsed = time.perf_counter() - start
    return _merged(timed).summary(elapsed) | {"elapsed_seconds": elapsed}


def running_jobs(server: Server, least: int, patience_seconds: float = 300.0) -> list[Any]:
    connection = server.client()
    deadline = time.monotonic() + patience_seconds
    while True:
        jobs: list[Any] = connection.get("/api/v1/jobs?state=running&limit=1000")["items"]
        if len(jobs) >= least:
            return jobs
        if time.monotonic() > deadline:
            raise SystemExit(f"only {len(jobs)} of {least} jobs ever ran")
        time.sleep(0.5)


class Reporters:
    """Running jobs that report at a fixed rate together, whatever the server makes of it."""

    def __init__(self, server: Server, jobs: list[Any], per_second: float, batch: int) -> None:
        self._server = server
        tokens = JobTokens(server.state_dir)
        self._jobs = [(job["id"], job["starts"], tokens.token(job["id"])) for job in jobs]
        self._pause = batch / per_second * REPORTERS
        self._batch = batch
        self._stop = threading.Event()
        self.timed = [Timed() for _ in range(REPORTERS)]
        self.taken = [0] * REPORTERS

    def run(self, worker: int) -> None:
        connection = self._server.client()
        mine = self._jobs[worker::REPORTERS]
        due = time.perf_counter()
        turn = 0
        while not self._stop.is_set():
            job, generation, token = mine[turn % len(mine)]
            turn += 1
            now = time.time()
            reports = [
                {"time": now, "event": "epoch", "epoch": 1, "configuration": 32, "samples": 50_000,
                 "loss": 0.5, "seconds": 0.1}
            ] * self._batch  # fmt: skip
            body = json.dumps({"generation": generation, "reports": reports}).encode()
            url = f"/api/v1/jobs/{job}/reports"
            status, _ = connection.ask("POST", url, body, token, self.timed[worker])
            self.taken[worker] += self._batch if status == 204 else 0
            due += self._pause
            time.sleep(max(0.0, due - time.perf_counter()))

    def stop(self) -> None:
        self._stop.set()


def last_round(connection: Connection) -> dict[str, Any]:
    """Jobs may start before the first one."""
    return connection.get("/api/v1/plan")["round"] or {"round": -1, "plan_seconds": 0.0}


def load(server: Server, jobs: list[Any], seconds: float, rate: float, batch: int) -> Any:
    """The queue while reports come in: a page as ``queue`` shows it, and the whole list."""
    reporters = Reporters(server, jobs, rate, batch)
    thread = threading.Thread(target=in_threads, args=(REPORTERS, reporters.run))
    connection = server.client()
    before = last_round(connection)["round"]
    page, whole = Timed(), Timed()
    start = time.perf_counter()
    thread.start()
    asked = 0
    while time.perf_counter() - start < seconds:
        connection.get("/api/v1/jobs?state=waiting&state=running&limit=100", into=page)
        asked += 1
        if asked % 10 == 0:
            connection.get("/api/v1/jobs?state=waiting&state=running&limit=10000", into=whole)
        time.sleep(0.05)
    reporters.stop()
    thread.join()
    elapsed = time.perf_counter() - start
    after = last_round(connection)
    return {
        "elapsed_seconds": elapsed,
        "reports_per_second": sum(reporters.taken) / elapsed,
        "report_requests": _merged(reporters.timed).summary(elapsed),
        "queue_page": page.summary(elapsed),
        "queue_whole_list": whole.summary(elapsed),
        "rounds_meanwhile": after["round"] - before,
        "plan_seconds": after["plan_seconds"],
    }


def _merged(timed: list[Timed]) -> Timed:
    return Timed([s for item in timed for s in item.seconds], sum(item.failed for item in timed))


def show(result: dict[str, Any]) -> None:
    table = Table(title=result["title"], title_justify="left", box=None, header_style="bold")
    for heading in ("", "count", "per second", "p50", "p95", "max", "refused"):
        table.add_column(heading, justify="right" if heading else "left")
    loaded = result["load"]
    for name, row in (
        ("submissions", result["submissions"]),
        ("report requests", loaded["report_requests"]),
        ("queue, 100 jobs", loaded["queue_page"]),
        ("queue, every job", loaded["queue_whole_list"]),
    ):
        times = [f"{1000 * row[f'{key}_seconds']:.1f} ms" for key in ("p50", "p95", "max")]
        table.add_row(
            name, f"{row['requests']:,}", f"{row['per_second']:,.0f}", *times, str(row["failed"])
        )
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)
    console.print(table)
    memory = {key: f"{value / 2**20:.0f} MiB" for key, value in result["memory_bytes"].items()}
    console.print(
        f"reports taken: {loaded['reports_per_second']:,.0f} a second; rounds decided meanwhile: "
        f"{loaded['rounds_meanwhile']}, the last in {loaded['plan_seconds']:.2f} s\n"
        f"memory of the server: {', '.join(f'{k} {v}' for k, v in memory.items())}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--rate", type=float, default=5000.0, help="reports a second")
    parser.add_argument("--batch", type=int, default=50, help="reports in a request")
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--round", type=float, default=20.0, help="seconds a round lasts")
    parser.add_argument("--policy", default="shockwave")
    parser.add_argument("--out", type=Path, default=Path("out/service.json"))
    given = parser.parse_args()
    jobs = given.jobs or (500 if given.quick else 10_000)
    seconds = given.seconds or (10.0 if given.quick else 60.0)
    with serving(given.slots, given.round, given.policy) as server:
        memory = {"at the start": server.memory_bytes()}
        submissions = submit_all(server, jobs)
        memory[f"with {jobs:,} jobs"] = server.memory_bytes()
        running = running_jobs(server, least=min(given.slots, jobs))
        loaded = load(server, running, seconds, given.rate, given.batch)
        memory["after the load"] = server.memory_bytes()
        memory["peak"] = server.memory_bytes("VmHWM")
    result = {
        "title": f"{jobs:,} jobs, {given.rate:,.0f} reports a second, policy {given.policy}",
        "jobs": jobs,
        "slots": given.slots,
        "round_seconds": given.round,
        "batch": given.batch,
        "cores": os.cpu_count(),
        "submissions": submissions,
        "load": loaded,
        "memory_bytes": memory,
    }
    show(result)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

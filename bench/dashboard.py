"""What looking costs: rounds with and without viewers, and the pages in a browser.

    python bench/dashboard.py            # about eight minutes: 2,500 jobs, 20 viewers
    python bench/dashboard.py --quick    # 300 jobs, two minutes

Starts ``shockwave serve`` on a cluster that only pretends (``tools/pretend_cluster.py``), with 512
GPUs that are all busy and four times as many jobs that wait. Rounds are decided in turns without
viewers and with them: each viewer follows the present and asks for the futures of every round and
for the last day, as open pages do. The ratio of the two is what viewers cost a round. Then, without
these viewers, every page is opened in Chromium: when it is painted, when it shows its figures, the
longest task in which it does not react while rounds go by, and its memory. Prints tables and writes
``out/dashboard.json``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import socket
import statistics
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from rich.console import Console
from rich.table import Table
from service import Server, serving
from tools.chromium import PATH, chromium

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

ROUND_SECONDS = 5.0
EXECUTOR = "tools.pretend_cluster:PretendExecutor"
JOB = {
    "command": ["true"], "workdir": "/", "epochs": 2000, "adaptation": "gns",
    "batch_sizes": [32, 64, 128], "epoch_seconds": {"32": 60.0, "64": 40.0, "128": 30.0},
}  # fmt: skip
PAGES = {"cluster": "/", "queue": "/queue", "plan": "/plan", "fairness": "/fairness",
         "history": "/history"}  # fmt: skip
MEASURE = """
window.__long = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.__long.push(entry.duration);
}).observe({type: "longtask", buffered: true});
window.__shown = new Promise((done) => {
  const look = () => document.querySelector("section svg, tbody tr, article.node")
    ? done(performance.now()) : requestAnimationFrame(look);
  addEventListener("DOMContentLoaded", look);
});
"""


def submit(server: Server, jobs: int) -> None:
    client = server.client()
    for first in range(0, jobs, 500):
        batch = [
            JOB | {"name": f"training-{n}", "tenant": f"team-{n % 7}", "epochs": 500 + n % 1500}
            for n in range(first, min(first + 500, jobs))
        ]
        body = json.dumps({"jobs": batch}).encode()
        status, content = client.ask("POST", "/api/v1/batches", body)
        if status != 201:
            raise SystemExit(f"not submitted: {status} {content[:300]!r}")


def rounds_after(server: Server, seconds: float) -> list[dict[str, Any]]:
    """The rounds that are decided in the coming seconds, without the one that is under way."""
    last = server.client().get("/api/v1/rounds?limit=10000")["items"][-1]["round"]
    time.sleep(seconds)
    path = f"/api/v1/rounds?after={last}&limit=10000"
    rounds: list[dict[str, Any]] = server.client().get(path)["items"]
    return rounds[1:]


class Viewer:
    """An open page, as far as the server can tell. Reads and throws away."""

    def __init__(self, server: Server, stop: threading.Event) -> None:
        self._server, self._stop = server, stop
        self.read_bytes = 0
        self.threads = [threading.Thread(target=work) for work in (self._follow, self._ask)]

    def _follow(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(str(self._server.socket))
            connection.sendall(b"GET /api/v1/present HTTP/1.1\r\nHost: localhost\r\n\r\n")
            connection.settimeout(0.5)
            while not self._stop.is_set():
                with suppress(TimeoutError):
                    self.read_bytes += len(connection.recv(1 << 20))

    def _ask(self) -> None:
        """The futures once a round, the last day once a minute, as the pages do."""
        asked = 0
        while not self._stop.wait(ROUND_SECONDS):
            client = self._server.client()
            client.ask("GET", "/api/v1/plan/futures")
            if asked % 12 == 0:
                client.ask("GET", "/api/v1/days/last")
            asked += 1


@contextmanager
def looked_at(server: Server, viewers: int) -> Iterator[list[Viewer]]:
    stop = threading.Event()
    made = [Viewer(server, stop) for _ in range(viewers)]
    for viewer in made:
        for thread in viewer.threads:
            thread.start()
    try:
        yield made
    finally:
        stop.set()
        for viewer in made:
            for thread in viewer.threads:
                thread.join()


def compare(server: Server, viewers: int, seconds: float, turns: int) -> dict[str, Any]:
    alone: list[float] = []
    watched: list[float] = []
    read_bytes = 0
    for _ in range(turns):
        alone += [entry["work_seconds"] for entry in rounds_after(server, seconds)]
        with looked_at(server, viewers) as looking:
            watched += [entry["work_seconds"] for entry in rounds_after(server, seconds)]
        read_bytes += sum(viewer.read_bytes for viewer in looking)
    return {
        "viewers": viewers,
        "rounds": [len(alone), len(watched)],
        "work_seconds_alone": statistics.median(alone),
        "work_seconds_watched": statistics.median(watched),
        "ratio": statistics.median(watched) / statistics.median(alone),
        "read_megabytes": read_bytes / 1e6,
    }


def measure_page(page: Page, url: str, seconds: float) -> dict[str, float]:
    page.goto(url)
    shown = page.evaluate("window.__shown")
    page.wait_for_timeout(1000 * seconds)
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    long = page.evaluate("window.__long")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    session.send("HeapProfiler.collectGarbage")
    metrics = {
        item["name"]: item["value"] for item in session.send("Performance.getMetrics")["metrics"]
    }
    return {
        "first_paint_seconds": paint / 1000,
        "figures_seconds": shown / 1000,
        "longest_task_seconds": max(long, default=0.0) / 1000,
        "long_tasks": len(long),
        "heap_megabytes": metrics["JSHeapUsedSize"] / 1e6,
        "elements": metrics["Nodes"],
    }


def browse(server: Server, seconds: float) -> dict[str, dict[str, float]]:
    if PATH is None or importlib.util.find_spec("playwright") is None:
        print("No Chromium, or no playwright: pages were not measured.")
        return {}
    status, content = server.client().ask("POST", "/api/v1/links", b"")
    assert status == 201, content
    link = json.loads(content)["url"]
    place = link.partition("/#")[0]
    with chromium() as started:
        context = started.new_context(viewport={"width": 1280, "height": 900})
        context.set_default_timeout(120_000)
        page = context.new_page()
        page.goto(link)
        page.wait_for_selector("article.node")
        page.add_init_script(MEASURE)
        measured = {name: measure_page(page, place + path, seconds) for name, path in PAGES.items()}
        job = server.client().get("/api/v1/jobs?state=running&limit=1")["items"][0]["id"]
        measured["job"] = measure_page(page, f"{place}/jobs/{job}", seconds)
    return measured


def show(result: dict[str, Any]) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)
    rounds = result["rounds"]
    console.print(
        f"{result['jobs']:,} jobs, {result['running']:,} of them run; a round's work: "
        f"{1000 * rounds['work_seconds_alone']:.0f} ms without viewers, "
        f"{1000 * rounds['work_seconds_watched']:.0f} ms with {rounds['viewers']}: "
        f"ratio {rounds['ratio']:.2f} (medians of {rounds['rounds'][0]} and "
        f"{rounds['rounds'][1]} rounds, {rounds['read_megabytes']:.0f} MB sent)"
    )
    table = Table(box=None, header_style="bold")
    for heading in (
        "page",
        "first paint",
        "figures",
        "longest task",
        "long tasks",
        "heap",
        "nodes",
    ):
        table.add_column(heading, justify="left" if heading == "page" else "right")
    for name, page in result["pages"].items():
        table.add_row(
            name, f"{page['first_paint_seconds']:.2f} s", f"{page['figures_seconds']:.2f} s",
            f"{1000 * page['longest_task_seconds']:.0f} ms", f"{page['long_tasks']:.0f}",
            f"{page['heap_megabytes']:.1f} MB", f"{page['elements']:,.0f}",
        )  # fmt: skip
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("out/dashboard.json"))
    given = parser.parse_args()
    slots, jobs = (64, 300) if given.quick else (512, 2_512)
    seconds, turns = (15.0, 1) if given.quick else (60.0, 2)
    options = {"executor": EXECUTOR, "gpus_per_node": 8, "seed": 1}
    with serving(slots, ROUND_SECONDS, "shockwave", restart_seconds=0.5, **options) as server:
        submit(server, jobs)
        client, deadline = server.client(), time.monotonic() + 120
        running = 0
        while running < slots and time.monotonic() < deadline:
            time.sleep(1)
            running = len(client.get("/api/v1/jobs?state=running&limit=10000")["items"])
        time.sleep(10)  # the first rounds start hundreds of jobs
        rounds = compare(server, given.viewers, seconds, turns)
        pages = browse(server, 6.0 if given.quick else 15.0)
    result = {
        "jobs": jobs, "running": running, "cores": os.cpu_count(), "rounds": rounds,
        "pages": pages,
    }  # fmt: skip
    show(result)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

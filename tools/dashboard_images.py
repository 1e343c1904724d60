"""The pictures of docs/dashboard.md: every page, in light and dark and on a phone.

    python tools/dashboard_images.py [--out docs/images]

A day and a half of a generated workload is simulated, and a real scheduler is started on its
journal, at the moment when that ends, over a cluster that only pretends
(``tools/pretend_cluster.py``). So there is a past to show, and a present that goes on.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from playwright.sync_api import Page
from tools.chromium import chromium
from tools.pretend_cluster import seems

from shockwave.executors.simulation import simulate
from shockwave.model.cluster import Cluster, Node
from shockwave.model.events import (
    Event,
    JobFinished,
    JobSubmitted,
    RunStarted,
    Starts,
    TenantChanged,
    job_of,
)
from shockwave.model.job import Preemptible, TraceJob
from shockwave.model.progress import Progressed
from shockwave.model.view import View
from shockwave.policies.shockwave import Shockwave
from shockwave.predict.restatement import Restatement
from shockwave.protocol.paths import JobPaths
from shockwave.research import generate
from shockwave.server.app import create_app
from shockwave.server.archive import Archive
from shockwave.server.board import Board
from shockwave.server.config import load_config
from shockwave.server.listener import Listener, tcp_socket, url_of
from shockwave.server.people import People
from shockwave.server.projection import Projection
from shockwave.server.service import Service
from shockwave.server.store import Store
from shockwave.server.tenant_settings import TenantSettings
from shockwave.server.tokens import hash_token, new_token

DAYS = 1.5
JOBS = 760
PEOPLE = {"alice": "vision", "bob": "vision", "carol": "speech", "dana": "language",
          "erin": "language", "frank": "robotics"}  # fmt: skip
TENANTS = {"vision": {"weight": 2.0, "guaranteed": 8, "by_person": True}, "speech": {},
           "language": {"weight": 1.5}, "robotics": {"most": 8}}  # fmt: skip
NODES = tuple(Node(f"gpu{number}", 8, "A100") for number in range(6))
PAGES = {"cluster": "/", "queue": "/queue", "plan": "/plan", "fairness": "/fairness",
         "history": "/history?day="}  # fmt: skip
VIEWS: dict[str, dict[str, Any]] = {
    "": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"},
    "-dark": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "dark"},
    "-phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
}


def workload(rng: np.random.Generator) -> list[TraceJob]:
    """Jobs of several people, more of them by day than by night."""
    made = generate(JOBS, seed=5, span_hours=24 * DAYS)
    people = list(PEOPLE)
    jobs = []
    for number, job in enumerate(made):
        arrival = job.spec.arrival_seconds
        hour = arrival / 3600 % 24
        owner = people[int(len(people) * rng.random() ** (1.6 if 8 < hour < 20 else 1.1))]
        spec = replace(
            job.spec,
            id=f"j-{number + 1:04d}-{rng.integers(0x1000, 0xFFFF):x}",
            owner=owner,
            tenant=PEOPLE[owner],
            name=f"{(job.spec.model or 'job').split('-')[0].lower()}-{number + 1}",
            arrival_seconds=max(0.0, arrival + 5400 * math.sin(2 * math.pi * hour / 24)),
            preemptible=Preemptible.ALWAYS,
        )
        jobs.append(replace(job, spec=spec))
    return sorted(jobs, key=lambda job: job.spec.arrival_seconds)


def past(jobs: list[TraceJob]) -> list[Event]:
    """What would have happened until now. Simulations do not write down progress: we do, once."""
    end = DAYS * 86_400
    views: list[View] = []

    def see(view: View, *_: object) -> None:
        if view.now < end:
            views[:] = [view]

    events = simulate(
        jobs, Cluster(NODES), Shockwave(), Restatement(), starts=Starts.IMMEDIATE, trace="live",
        observers=[see],
        tenants=[TenantSettings.model_validate(said).promised_to(name)
                 for name, said in TENANTS.items()],
    )  # fmt: skip
    # Tenants' accounts begin with the scheduler: they would lack what was used before.
    here = [e for e in events if e.time < end and not isinstance(e, TenantChanged)]
    over = {job_of(event) for event in here if isinstance(event, JobFinished)}
    handles = {job.spec.id: handle for handle, job in enumerate(jobs)}
    view = views[0]
    told = Progressed(
        end, view.handle, view.epochs_done, view.configuration, np.full(len(view), np.nan),
        view.productive_seconds, view.received_seconds,
    )  # fmt: skip
    active = ~np.isin(view.handle, [handles[job] for job in over if job is not None])
    return [*here, told.only(active)]


def write_past(state: Path, events: list[Event], origin: float) -> None:
    state.mkdir(mode=0o700)
    url = f"sqlite:///{state / 'shockwave.db'}"
    with closing(Store(url, Archive(state / "archive"))) as store:
        store.origin_unix(origin)
        board = Board(Projection(origin), store)
        told: list[Event] = []
        for event in events:
            if isinstance(event, RunStarted):
                event = replace(event, started_unix=origin)
            if isinstance(event, JobSubmitted):
                submission = {
                    "command": ["train"],
                    "epochs": event.job.epochs,
                    "gpus": event.job.gpus,
                }
                event = replace(event, submission=json.dumps(submission))
            told.append(event)
        for first in range(0, len(told), 500):
            board.write(told[first : first + 500])


def write_reports(state: Path, jobs: list[TraceJob], service: Service) -> None:
    """What the jobs that run would have reported, to be seen on their pages."""
    truth = {job.spec.id: job for job in jobs}
    for record in service.desk.plan().jobs:
        job = truth.get(record.id)
        if record.state != "running" or job is None or record.started is None:
            continue
        paths = JobPaths.of(state, record.id)
        paths.log(0).parent.mkdir(parents=True, exist_ok=True)
        told, at, epoch = [], record.started, 0
        for regime in job.regimes:
            for _ in range(regime.epochs):
                epoch, at = epoch + 1, at + regime.epoch_seconds
                if epoch <= record.epochs_done:
                    size, seconds = regime.configuration, regime.epoch_seconds
                    told.append(seems(epoch, record.epochs, size, seconds, at))
        paths.reports(1).write_text("".join(report for report, _ in told))
        paths.log(0).write_text("".join(line for _, line in told))


@contextmanager
def scheduler(state: Path, token: str) -> Iterator[tuple[Service, str]]:
    flags = {
        "state_dir": state, "slots": sum(node.gpus for node in NODES), "gpus_per_node": 8,
        "executor": "tools.pretend_cluster:PretendExecutor", "pretend_writes": True,
        "pretend_like": ",".join(f"{node.id}:{node.gpus}:{node.gpu_type}" for node in NODES),
        "round_seconds": 120.0, "tenants": TENANTS,
    }  # fmt: skip
    service = Service(load_config(flags=flags, environment={}).config)
    service.start()
    app = create_app(service.desk, people=People(token_hash=hash_token(token)))
    listener = Listener(app)
    with tcp_socket("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=listener.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield service, url_of(listening)
        finally:
            listener.should_exit = True
            thread.join()
            service.stop()


def take(page: Page, path: Path, *, whole: bool) -> None:
    page.wait_for_timeout(2500)
    high = page.evaluate("document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": page.viewport_size["width"], "height": min(high, 2400)}
    page.screenshot(path=path, full_page=True, clip=clip) if whole else page.screenshot(path=path)
    print(path)


def pictures(url: str, token: str, out: Path, job: str) -> None:
    day = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 86_400))
    with chromium() as started:
        for view, options in VIEWS.items():
            page = started.new_context(**options).new_page()
            page.set_default_timeout(120_000)
            page.goto(url)
            page.fill("input[name=token]", token)
            page.click("button[type=submit]")
            page.wait_for_selector("article.node")
            for name, path in {**PAGES, "job": f"/jobs/{job}"}.items():
                page.goto(url + path + (day if name == "history" else ""))
                page.wait_for_selector("section svg, tbody tr")
                if name != "queue":
                    page.wait_for_selector("section svg.chart")
                take(page, out / f"dashboard-{name}{view}.png", whole=view != "-phone")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    parser.add_argument("--stay", action="store_true", help="Go on until Ctrl-C, to look around.")
    given = parser.parse_args()
    jobs = workload(np.random.default_rng(3))
    events = past(jobs)
    # A round is due soon after the scheduler has started.
    origin, token = time.time() - DAYS * 86_400 - 90.0, new_token()
    with tempfile.TemporaryDirectory(prefix="shockwave-images-") as folder:
        state = Path(folder) / "state"
        write_past(state, events, origin)
        with scheduler(state, token) as (service, url):
            write_reports(state, jobs, service)
            before = service.desk.plan().round
            while service.desk.plan().round == before:
                time.sleep(1)
            running = [job for job in service.desk.plan().jobs if job.state == "running"]
            print(f"{url}, token {token}: {len(running)} jobs run")
            best = max(
                running,
                key=lambda job: (job.epochs_done > 20, min(job.preemptions, 3), -job.epochs),
            )
            given.out.mkdir(parents=True, exist_ok=True)
            pictures(url, token, given.out, best.id)
            while given.stay:
                time.sleep(1)


if __name__ == "__main__":
    main()

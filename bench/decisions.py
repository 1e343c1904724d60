"""How long a whole decision of the default policy takes, prediction included.

    python bench/decisions.py            # about three minutes
    python bench/decisions.py --quick    # small sizes

Jobs come in over half an hour (15 rounds), and decisions are timed from when nearly all
are there: rounds with arrivals and rounds without, jobs in the middle of their lives, a
predictor that has learned from those that finished. What a policy does when its orders are out,
and nobody waits any more, is timed apart. Prints a table and writes ``out/decisions.json``. Times
are wall-clock on one core.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from rich.console import Console
from rich.table import Table

from shockwave.engine.journal import MemoryJournal
from shockwave.engine.log import Log
from shockwave.engine.loop import RoundLoop
from shockwave.engine.state import SchedulerState
from shockwave.executors.simulated import SimulatedExecutor
from shockwave.executors.simulation import TraceFeed, by_arrival
from shockwave.model.cluster import Cluster
from shockwave.model.events import RunStarted
from shockwave.model.view import View
from shockwave.policies.base import Decision, Policy
from shockwave.policies.shockwave import Shockwave
from shockwave.predict.base import Forecast, Predictor
from shockwave.predict.restatement import Restatement
from shockwave.traces import load
from shockwave.version import __version__

SIZES = ((120, 32, 60), (460, 128, 60), (900, 256, 60), (20_000, 16_384, 20))  # jobs, GPUs, timed
QUICK_SIZES = SIZES[:2]
ROUND_SECONDS = 120.0
RESTART_SECONDS = 20.0
ALLOWED_SHARE = 0.05  # of a round


class TimedPolicy(Policy):
    """The default policy with a stopwatch around prediction and decision."""

    name: ClassVar[str] = "timed"

    def __init__(self, predictor: Predictor, enough: int) -> None:
        self._policy = Shockwave()
        self._predictor = predictor
        self._enough = enough
        self.seconds: list[float] = []
        self.after_seconds: list[float] = []
        self.active: list[int] = []

    def decide(self, view: View, forecast: Forecast) -> Decision:
        start = time.perf_counter()
        decision = self._policy.decide(view, self._predictor.forecast(view))
        seconds = time.perf_counter() - start
        if len(view) >= self._enough:
            self.seconds.append(seconds)
            self.active.append(len(view))
        return decision

    def settle(self) -> None:
        start = time.perf_counter()
        self._policy.settle()
        self.after_seconds.append(time.perf_counter() - start)


@dataclass(frozen=True)
class Timing:
    """Decisions at one size."""

    jobs: int
    gpus: int
    decisions: int
    active_mean: float
    p50_seconds: float
    p95_seconds: float
    max_seconds: float
    after_mean_seconds: float  # when the orders are out
    after_max_seconds: float


def measure(jobs: int, gpus: int, decisions: int) -> Timing:
    """Time ``decisions`` decisions with about ``jobs`` active jobs, fewer if they run out."""
    # Some finish before the last have come; a fifth more keeps the number up.
    trace = by_arrival(load(f"generated:jobs={round(1.2 * jobs)},span_hours=0.5", seed=1))
    predictor = Restatement()
    policy = TimedPolicy(predictor, enough=round(0.7 * jobs))
    log = Log(SchedulerState(), MemoryJournal())
    log.emit(
        RunStarted(
            0.0,
            policy=policy.name,
            predictor=predictor.name,
            trace="",
            nodes=Cluster.uniform(gpus).nodes,
            round_seconds=ROUND_SECONDS,
            restart_seconds=RESTART_SECONDS,
            seed=0,
            version=__version__,
        )
    )
    loop = RoundLoop(
        policy=policy,
        predictor=predictor,
        executor=SimulatedExecutor(trace, RESTART_SECONDS),
        feed=TraceFeed(trace),
        log=log,
    )
    while len(policy.seconds) < decisions and loop.step():
        pass
    p50, p95 = np.quantile(policy.seconds, [0.5, 0.95]).tolist()
    return Timing(
        jobs=jobs,
        gpus=gpus,
        decisions=len(policy.seconds),
        active_mean=float(np.mean(policy.active)),
        p50_seconds=p50,
        p95_seconds=p95,
        max_seconds=max(policy.seconds),
        after_mean_seconds=float(np.mean(policy.after_seconds)),
        after_max_seconds=max(policy.after_seconds),
    )


def show(console: Console, timings: list[Timing]) -> None:
    table = Table(title="A whole decision of the default policy, prediction included")
    for column in (
        "jobs", "GPUs", "active", "decisions", "p50 ms", "p95 ms", "max ms", "of round",
        "after orders, mean ms", "max ms",
    ):  # fmt: skip
        table.add_column(column, justify="right")
    for timing in timings:
        table.add_row(
            f"{timing.jobs:,}",
            f"{timing.gpus:,}",
            f"{timing.active_mean:,.0f}",
            str(timing.decisions),
            f"{1e3 * timing.p50_seconds:.1f}",
            f"{1e3 * timing.p95_seconds:.1f}",
            f"{1e3 * timing.max_seconds:.1f}",
            f"{timing.p95_seconds / ROUND_SECONDS:.2%}",
            f"{1e3 * timing.after_mean_seconds:.1f}",
            f"{1e3 * timing.after_max_seconds:.1f}",
        )
    console.print(table)
    allowed = ALLOWED_SHARE * ROUND_SECONDS
    late = [timing for timing in timings if timing.p95_seconds > allowed]
    console.print(
        f"Every p95 is within {ALLOWED_SHARE:.0%} of a round ({allowed:g} s)."
        if not late
        else f"Beyond {allowed:g} s at p95: {', '.join(f'{t.jobs:,} jobs' for t in late)}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Decision time of the default policy.")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where to write results")
    arguments = parser.parse_args()
    console = Console(width=110)
    timings = []
    for jobs, gpus, decisions in QUICK_SIZES if arguments.quick else SIZES:
        console.print(f"{jobs:,} jobs on {gpus:,} GPUs ...")
        timings.append(measure(jobs, gpus, decisions))
    arguments.out.mkdir(parents=True, exist_ok=True)
    report = [asdict(timing) for timing in timings]
    (arguments.out / "decisions.json").write_text(json.dumps(report, indent=2) + "\n")
    show(console, timings)


if __name__ == "__main__":
    main()

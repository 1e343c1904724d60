"""The same dozen jobs on every engine, live against replayed in the simulator.

    python bench/engines.py                    # local, Slurm and Ray: about three minutes each
    python bench/engines.py slurm --round 10

Starts a real Slurm (4 nodes) and a real Ray (a head and 3 nodes) on loopback, which needs root;
Ray lives in a network namespace of its own. Prints a table and writes ``out/engines.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from shockwave.cli.journals import events_of
from shockwave.measure import fold_history, summarize
from shockwave.model.events import JobStarted, JobStopped, StopReason
from shockwave.testing.ray_cluster import RayCluster, isolated
from shockwave.testing.slurm_cluster import SlurmCluster

ENGINES = ("local", "slurm", "ray")
DEMO = Path(__file__).resolve().parents[1] / "examples" / "live_demo.py"
FIGURES = ("makespan_seconds", "mean_jct_seconds")


def demo(chosen: argparse.Namespace, engine: str, *where: str, **variables: str) -> None:
    """Runs the workload; what it leaves is in the folder of that engine."""
    command = [
        sys.executable, str(DEMO), "--round", str(chosen.round), "--policy", chosen.policy,
        "--epoch-seconds", str(chosen.epoch_seconds), "--executor", engine,
        "--out", str(chosen.out / engine), *where,
    ]  # fmt: skip
    subprocess.run(command, check=True, env={**os.environ, **variables})


def run(chosen: argparse.Namespace, engine: str) -> None:
    """One GPU a node on Slurm and two on Ray: gangs of two span nodes where that is needed."""
    if engine == "local":
        demo(chosen, engine)
    elif engine == "slurm":
        with (
            tempfile.TemporaryDirectory(prefix="slurm-") as folder,
            SlurmCluster(Path(folder), nodes=4, gpus=1) as cluster,
        ):
            demo(chosen, engine, **cluster.environment)
    else:
        with (
            tempfile.TemporaryDirectory(prefix="ray-") as folder,
            RayCluster(Path(folder), nodes=3, gpus=2) as ray,
        ):
            demo(chosen, engine, "--ray-address", ray.address)


def itself(chosen: argparse.Namespace, engine: str) -> list[str]:
    """This program with the same settings, for one engine."""
    settings = ("round", "epoch_seconds", "policy", "out")
    words = [f"--{name.replace('_', '-')}={getattr(chosen, name)}" for name in settings]
    return [sys.executable, __file__, engine, "--inside", *words]


def measured(chosen: argparse.Namespace, engine: str) -> dict[str, Any]:
    state = chosen.out / engine / "state"
    command = [sys.executable, "-m", "shockwave.cli.main", "replay", str(state), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    replayed: dict[str, Any] = json.loads(done.stdout)
    events = list(events_of(str(state)))
    summarize(fold_history(events))  # fails if a job is not accounted for
    return {
        "gpus": replayed["gpus"],
        "jobs": replayed["jobs"],
        "starts": sum(isinstance(event, JobStarted) for event in events),
        "preemptions": sum(
            isinstance(event, JobStopped) and event.reason is StopReason.PREEMPTED
            for event in events
        ),
        "restart_seconds": replayed["restart_seconds"],
        "figures": {name: replayed["figures"][name] for name in FIGURES},
    }


def show(results: Mapping[str, Mapping[str, Any]]) -> None:
    table = Table(title="The same jobs on every engine, live against replayed", box=None)
    table.add_column("engine")
    for header in ("GPUs", "starts", "start takes", "makespan", "replayed", "mean JCT", "replayed"):
        table.add_column(header, justify="right")
    for engine, result in results.items():
        row = [str(result["gpus"]), str(result["starts"]), f"{result['restart_seconds']:.1f} s"]
        for name in FIGURES:
            figure = result["figures"][name]
            row += [f"{figure['live']:.1f} s", f"{figure['relative_difference']:+.1%}"]
        table.add_row(engine, *row)
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("engines", nargs="*", default=ENGINES, help=", ".join(ENGINES))
    parser.add_argument("--round", type=float, default=10.0)
    parser.add_argument("--epoch-seconds", type=float, default=4.0)
    parser.add_argument("--policy", default="shockwave")
    parser.add_argument("--out", type=Path, default=Path("out/engines"))
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    unknown = sorted(set(chosen.engines) - set(ENGINES))
    if unknown:
        parser.error(f"no such engine: {', '.join(unknown)}; there are {', '.join(ENGINES)}")
    chosen.out.mkdir(parents=True, exist_ok=True)
    results = {}
    for engine in chosen.engines:
        if engine == "ray" and not chosen.inside:
            subprocess.run(isolated(itself(chosen, engine)), check=True)
        else:
            run(chosen, engine)
        if not chosen.inside:
            results[engine] = measured(chosen, engine)
    if not chosen.inside:
        show(results)
        (chosen.out.parent / "engines.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

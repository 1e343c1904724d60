"""How fast the simulator is: seconds per policy, and a large trace with its memory.

    python bench/simulation.py [--quick]

Uses the paper's traces where they lie beside the checkout, else generated ones of the same
size. Every run is a process of its own, so that memory is its own too. Results go to
out/simulation.json.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "traces"
Row = dict[str, float | str | int]
CHEAP = (
    "fifo",
    "srtf",
    "las",
    "tiresias",
    "gavel",
    "themis",
    "ossp",
    "mst",
    "gandiva-fair",
    "allox",
)


def measure(trace: str, gpus: int, policy: str) -> Row:
    """One simulation in this process: seconds after start-up, and the peak of memory."""
    from shockwave.executors.simulation import TraceTruth, simulate
    from shockwave.model.cluster import Cluster
    from shockwave.policies import registry as policies
    from shockwave.predict import registry as predictors
    from shockwave.traces import load

    jobs = load(trace)
    chosen = policies.create(policy)
    predictor = predictors.create(chosen.predictor, truth=TraceTruth(jobs))
    start = time.perf_counter()
    events = simulate(jobs, Cluster.uniform(gpus), chosen, predictor)
    seconds = time.perf_counter() - start
    return {
        "trace": Path(trace).stem,
        "policy": policy,
        "jobs": len(jobs),
        "gpus": gpus,
        "events": len(events),
        "seconds": round(seconds, 3),
        "peak_gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 3),
    }


def measure_in_process(trace: str, gpus: int, policy: str) -> Row:
    command = [sys.executable, __file__, "--one", trace, str(gpus), policy]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: Row = json.loads(done.stdout)
    return result


def cases(quick: bool) -> list[tuple[str, int, str]]:
    def paper(name: str, recipe: str) -> str:
        path = SHARED / f"{name}.jsonl"
        return str(path) if path.exists() else recipe

    small = paper("paper-32gpu-120jobs", "generated:jobs=120,span_hours=1.4")
    medium = paper("paper-128gpu-460jobs", "generated:jobs=460,span_hours=1.4")
    found = [(small, 32, policy) for policy in CHEAP] + [(medium, 128, policy) for policy in CHEAP]
    found += [(medium, 128, "shockwave"), (medium, 128, "shockwave-nsdi23")]
    if not quick:
        large = "generated:jobs=100000,span_hours=1440"
        # The same arrivals with jobs long enough to keep nine tenths of the GPUs busy.
        loaded = "generated:jobs=20000,span_hours=288,min_hours=2.6,max_hours=65"
        found += [
            (trace, 2500, policy) for trace in (large, loaded) for policy in ("srtf", "gavel")
        ]
    return found


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(sys.argv[2], int(sys.argv[3]), sys.argv[4])))
        return
    table = Table(title="Simulation speed")
    for header in ("trace", "GPUs", "jobs", "policy", "seconds", "peak GB"):
        table.add_column(header, justify="left" if header in ("trace", "policy") else "right")
    results: list[Row] = []
    console = Console()
    todo = cases(quick="--quick" in sys.argv)
    with console.status("...") as status:
        for trace, gpus, policy in todo:
            status.update(f"{len(results) + 1} of {len(todo)}: {policy} on {Path(trace).stem}")
            row = measure_in_process(trace, gpus, policy)
            results.append(row)
            table.add_row(
                str(row["trace"]), str(gpus), f"{row['jobs']:,}", policy,
                f"{row['seconds']:.2f}", f"{row['peak_gigabytes']:.2f}",
            )  # fmt: skip
    console.print(table)
    out = ROOT / "out"
    out.mkdir(exist_ok=True)
    (out / "simulation.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

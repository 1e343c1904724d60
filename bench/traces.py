"""How fast traces are read, written and converted: ``python bench/traces.py [--rows 1000000]``.

Rows are generated; every conversion runs in a process of its own, so that its peak memory is
its own. Results go to ``out/traces.json``.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from shockwave.model.job import TraceJob
from shockwave.traces import load, native
from shockwave.traces.base import Rejects
from shockwave.traces.convert import Conversion
from shockwave.traces.formats import find_format
from shockwave.traces.records import job_from_record, record_from_job
from shockwave.traces.synthesis import Synthesiser

_STATES = ("COMPLETED", "FAILED", "CANCELLED")


def write_helios(path: Path, rows: int) -> None:
    """Half of the rows are jobs on GPUs, as in the real one."""
    rng = random.Random(1)
    now = datetime(2020, 4, 1, tzinfo=UTC)
    with path.open("w", encoding="utf-8") as file:
        file.write("job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,"
                   "duration,queue\n")  # fmt: skip
        for number in range(rows):
            now += timedelta(seconds=rng.randrange(30))
            wait, run = rng.randrange(600), int(rng.lognormvariate(5, 2))
            start = now + timedelta(seconds=wait)
            end = start + timedelta(seconds=run)
            gpus = rng.choice((0, 0, 0, 0, 1, 1, 2, 8))
            file.write(
                f"{number},u{rng.randrange(300)},vc{rng.randrange(30)},{gpus},4,1,"
                f"{rng.choice(_STATES)},{now:%Y-%m-%d %H:%M:%S},{start:%Y-%m-%d %H:%M:%S},"
                f"{end:%Y-%m-%d %H:%M:%S},{run},{wait}\n"
            )


def write_philly(path: Path, rows: int) -> None:
    rng = random.Random(2)
    now = datetime(2017, 10, 1, tzinfo=UTC)
    with path.open("w", encoding="utf-8") as file:
        file.write("timestamp,duration,num_gpus,gpu_time,cluster\n")
        for _ in range(rows):
            now += timedelta(seconds=rng.randrange(80))
            run, gpus = float(int(rng.lognormvariate(6, 2))), rng.choice((1, 1, 1, 4, 8))
            cluster = f"vc{rng.randrange(15)}"
            file.write(f"{now:%Y-%m-%d %H:%M:%S},{run},{gpus},{run * gpus},{cluster}\n")


def convert(source: Path, synthesise: bool) -> dict[str, float]:
    """Seconds, and the peak memory of this process."""
    start, busy = time.perf_counter(), time.process_time()
    conversion = Conversion(
        source, find_format(source), synthesiser=Synthesiser() if synthesise else None
    )
    rejects = Rejects()
    output = source.with_suffix(".jsonl")
    jobs = native.write(conversion.jobs(rejects), output, header=conversion.header())
    return {
        "rows": rejects.rows,
        "jobs": jobs,
        "seconds": round(time.perf_counter() - start, 2),
        "cpu_seconds": round(time.process_time() - busy, 2),
        "peak_mebibytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def in_own_process(source: Path, *options: str) -> dict[str, float]:
    command = [sys.executable, __file__, "--convert", str(source), *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def microseconds_a_job(jobs: list[TraceJob]) -> dict[str, float]:
    records = [record_from_job(job) for job in jobs]
    results = {}
    for name, work in (
        ("validate", lambda: [job_from_record(record) for record in records]),
        ("to_record", lambda: [record_from_job(job) for job in jobs]),
    ):
        best = float("inf")
        for _ in range(5):
            start = time.perf_counter()
            work()
            best = min(best, time.perf_counter() - start)
        results[name] = round(best / len(jobs) * 1e6, 1)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--convert", type=Path)
    parser.add_argument("--synthesise", action="store_true")
    arguments = parser.parse_args()
    if arguments.convert is not None:
        print(json.dumps(convert(arguments.convert, arguments.synthesise)))
        return
    results: dict[str, object] = {
        "microseconds_a_job": microseconds_a_job(load("generated:jobs=2000"))
    }
    with tempfile.TemporaryDirectory() as folder:
        helios, philly = Path(folder) / "cluster_log.csv", Path(folder) / "philly.csv"
        write_helios(helios, arguments.rows)
        write_philly(philly, 82_000)
        results["philly"] = in_own_process(philly)
        results["philly, synthesised"] = in_own_process(philly, "--synthesise")
        results["helios"] = in_own_process(helios)
    for name, result in results.items():
        print(f"{name}: {result}")
    out = Path("out")
    out.mkdir(exist_ok=True)
    (out / "traces.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

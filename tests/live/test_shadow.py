"""A shadow of a real Slurm cluster: it sees what happened, and changes nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from shockwave.cli.shadow import watch_until
from shockwave.engine.rounds import Rounds
from shockwave.executors.slurm.watch import SlurmWatch
from shockwave.measure.shadow import ended, journal_of, report
from shockwave.measure.shadow_rounds import ShadowRounds
from shockwave.model.errors import ExecutorError
from shockwave.testing.slurm_cluster import SlurmCluster, why_slurm_cannot_run

JOBS = int(os.environ.get("SHADOWED_JOBS", "24"))
PATIENCE_SECONDS = 900.0
PROGRAMS = ("squeue", "sacct", "sbatch", "scancel", "scontrol", "srun", "sacctmgr")
_why_not = why_slurm_cannot_run()
pytestmark = pytest.mark.skipif(_why_not is not None, reason=str(_why_not))


def recording(folder: Path, environment: dict[str, str]) -> dict[str, str]:
    """The same environment, in which every program of Slurm's writes down that it was run."""
    folder.mkdir()
    for program in PROGRAMS:
        real = shutil.which(program, path=environment["PATH"])
        script = folder / program
        script.write_text(f'#!/bin/sh\necho "{program}" >> "{folder}/calls"\nexec {real} "$@"\n')
        script.chmod(0o755)
    return {**environment, "PATH": f"{folder}:{environment['PATH']}"}


def test_a_shadow_sees_what_slurm_did_and_changes_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    with SlurmCluster(tmp_path / "slurm", nodes=2, gpus=4) as cluster:
        environment = {**os.environ, **cluster.environment}
        told = tmp_path / "told"
        told.mkdir()
        for number in range(JOBS):
            gpus, seconds = int(rng.choice([1, 1, 2, 4])), float(rng.uniform(4.0, 12.0))
            script = f"date +%s.%N > {told}/$SLURM_JOB_ID.start; sleep {seconds:.1f}; "
            script += f"date +%s.%N > {told}/$SLURM_JOB_ID.end"
            command = ["sbatch", "--parsable", f"--gres=gpu:{gpus}", "--time=5", f"--wrap={script}"]
            subprocess.run(
                [*command[:1], f"--job-name=job-{number}", "--output=/dev/null", *command[1:]],
                env=environment, check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
        began = time.time()
        watched = recording(tmp_path / "programs", environment)
        watch, rounds = SlurmWatch(watched), Rounds(5.0, 1.0)
        seen = watch_until(
            watch,
            tmp_path,
            ShadowRounds("fifo", rounds),
            8,
            lambda now: len(list(told.glob("*.end"))) == JOBS or now > began + PATIENCE_SECONDS,
        )
        deadline = time.time() + PATIENCE_SECONDS
        while len(ended(list(seen.values()))) < JOBS and time.time() < deadline:
            time.sleep(1.0)
            seen = seen | {job.number: job for job in watch.jobs()}

    # Nobody was touched: only these were run, and every job ended by itself.
    assert set((tmp_path / "programs" / "calls").read_text().split()) <= {"squeue", "sacct"}
    assert {job.state for job in seen.values()} == {"COMPLETED"}
    assert len(seen) == JOBS

    # What is replayed is what the jobs themselves saw of time.
    def moment(number: str, what: str) -> float:
        return float((told / f"{number}.{what}").read_text())

    found = report(list(seen.values()), gpus=8, chosen=("srtf",), rounds=rounds, samples=5)
    jobs = ended(list(seen.values()))
    jct = np.mean([moment(job.number, "end") - job.submitted for job in jobs])
    assert found.jobs == JOBS
    assert found.happened.mean_jct == pytest.approx(float(jct), rel=0.03)
    last = max(moment(job.number, "end") for job in jobs) - min(job.submitted for job in jobs)
    assert found.happened.makespan == pytest.approx(last, rel=0.03)
    replayed = journal_of(jobs, 8, 5.0)
    assert sum(event.kind == "job-finished" for event in replayed) == JOBS
    assert (tmp_path / "decisions.jsonl").read_text().count("would_run") > 1
    # Shorter jobs first cannot be worse than whatever order there was, by much.
    assert found.alternatives[1].mean_jct.low < 1.2 * found.happened.mean_jct


def test_a_shadow_runs_nothing_that_could_change_a_job() -> None:
    with pytest.raises(ExecutorError, match="does not run scancel"):
        SlurmWatch()._run("scancel", "1")

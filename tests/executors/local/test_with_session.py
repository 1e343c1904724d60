"""The inside of a job and the executor understand each other."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from tests.executors.local import harness

from shockwave.executors.gangs.folder import JobFolder
from shockwave.model.command import Command
from shockwave.model.events import JobFinished, JobStopped, RegimeChanged

TRAINING = """
import time
from shockwave.train import session

with session(epochs=6, batch_size=32) as job:
    state = job.load() or {"weight": 0.0}
    for epoch in range(job.epochs_done, 6):
        begin, stop = time.monotonic(), False
        while time.monotonic() - begin < 0.15 and not stop:
            time.sleep(0.01)
            stop = job.should_stop()
        if stop:
            job.save(state)
            break
        state["weight"] += 1.0
        job.report(epoch + 1, batch_size=32 if epoch < 3 else 64, samples=10, loss=0.5)
    else:
        print("weight", state["weight"])
"""


def test_a_session_is_preempted_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    slots = (0, 1)
    pytest.importorskip("shockwave.train")
    command = Command((sys.executable, "-c", TRAINING), str(tmp_path))
    with harness.executor(tmp_path / "root", {"a": command}) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", slots=slots, epochs=6)])
        watch.until(lambda: watch.epochs(0) >= 1)
        unsaved = watch.progress[-1].unsaved_seconds
        assert unsaved is not None
        assert np.isnan(unsaved), "nothing was ever saved"
        executor.stop(np.array([0]))
        folder = JobFolder.of(tmp_path / "root", "a")
        watch.until(lambda: folder.exit_record(1) is not None)
        saved = folder.saved_epochs()
        assert saved >= 1
        watch.launch([harness.order("a", slots=slots, attempt=2, epochs=6)])
        watch.until(lambda: watch.epochs(0) > saved)
        progress = watch.progress[-1]
        assert progress.restart_seconds is not None
        assert progress.unsaved_seconds is not None
        assert progress.restart_seconds > 0.0
        assert progress.unsaved_seconds > 0.0, "it saves only when it is stopped"
        watch.until_finished([harness.spec("a")])
        assert not watch.of(JobStopped)
        assert watch.epochs_done(0) == sorted(watch.epochs_done(0))
        regimes = [(e.epoch, e.configuration) for e in watch.of(RegimeChanged)]
        assert regimes == [(0, 32), (3, 64)]
        finished = watch.of(JobFinished)[0]
        assert watch.total("productive_seconds") == pytest.approx(finished.exclusive_seconds)
        assert executor.log("a").read_text() == "weight 6.0\n"

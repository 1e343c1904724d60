"""The history of regimes stays true when a job falls back behind one."""

from __future__ import annotations

from shockwave.engine.table import JobTable
from shockwave.model.job import Adaptation, JobSpec


def test_epochs_that_are_repeated_after_a_fall_back_count_once() -> None:
    table = JobTable()
    table.submit(JobSpec("a", 0.0, 1, 20, (32, 64, 128), (3.0, 2.0, 1.0), Adaptation.GNS))
    table.change_regime(0, 0, 32)
    table.change_regime(0, 5, 64)
    table.change_regime(0, 9, 128)
    table.change_regime(0, 3, 32)  # crashed, and the last checkpoint was at epoch 3
    table.change_regime(0, 6, 64)
    assert table.finished_job(0).regimes == ((0, 6.0), (1, 14.0))
    assert table.closed_epochs[0].tolist() == [6.0, 0.0, 0.0]

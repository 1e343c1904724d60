"""Columns of the queue that can be asked for."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from shockwave.cli.queue_columns import COLUMNS, chosen_columns, table_of
from shockwave.model.errors import InputError

JOB: dict[str, Any] = {
    "id": "j-1", "name": "[bold]", "owner": "ann", "tenant": "vision", "weight": 2.0, "group": "",
    "state": "running", "gpus": 1, "gpu_counts": [], "gpus_held": 1, "gpu_type": "gpu",
    "epochs_done": 2.25, "epochs": 10, "model": "", "nodes": ["n0"], "starts": 1,
    "preemptions": 0, "crashes": 0, "why": {"ftf": None, "reason": "runs"},
}  # fmt: skip


def test_all_columns_can_be_shown_and_names_are_no_markup() -> None:
    console = Console(width=200, record=True, file=None)
    with console.capture() as captured:
        console.print(table_of([JOB], chosen_columns(",".join(COLUMNS))))
    heading, row = (line.split() for line in captured.get().strip().splitlines())
    assert heading[2:4] == ["owner", "tenant"]
    assert row[:4] == ["j-1", "[bold]", "ann", "vision"]


def test_a_column_that_there_is_not_is_an_error_that_names_those_that_are() -> None:
    with pytest.raises(InputError, match=r"no such column.*owner"):
        chosen_columns("id,boss")

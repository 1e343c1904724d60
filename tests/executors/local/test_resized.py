"""An elastic job on this machine, with emulated types of GPUs."""

from __future__ import annotations

import time
from pathlib import Path

from tests.executors import resized
from tests.executors.local import harness

from shockwave.model.cluster import Node


def test_it_grows_shrinks_and_moves_with_the_losses_of_an_undisturbed_run(tmp_path: Path) -> None:
    nodes, origin = (Node("n0", 4, "A100"), Node("n1", 2, "T4")), time.time()
    commands = {resized.JOB: resized.command(tmp_path)}
    with harness.executor(tmp_path / "root", commands, nodes=nodes, origin=origin) as executor:
        resized.has_the_losses_of_an_undisturbed_run(
            executor, "A100", "T4", origin, tmp_path / "undisturbed"
        )

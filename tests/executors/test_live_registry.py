"""Live executors by name: the built-in ones, and one that another package brings."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from shockwave.executors import live
from shockwave.executors.live import EXECUTORS
from shockwave.executors.local.executor import LocalExecutor
from shockwave.executors.options import JOB_OPTIONS
from shockwave.model import registry
from shockwave.model.cluster import Node
from shockwave.model.command import Command
from shockwave.model.errors import InputError


class Elsewhere(LocalExecutor):
    name = "elsewhere"


def site(folder: Path) -> live.Site:
    return live.Site(
        state_dir=folder,
        nodes=(Node("n0", 2),),
        command_of=lambda job: Command(("true",), str(folder)),
        origin_unix=0.0,
        clock=lambda: 0.0,
        grace_seconds=1.0,
    )


def test_the_local_one_is_built_in(tmp_path: Path) -> None:
    executor = live.create("local", site(tmp_path))
    assert isinstance(executor, LocalExecutor)
    executor.shutdown(stop_jobs=False)


def test_another_package_brings_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("elsewhere", "somewhere:Elsewhere", live.EXECUTORS.group)
    monkeypatch.setattr(EntryPoint, "load", lambda self: Elsewhere)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    assert live.names() == ["local", "slurm", "ray", "elsewhere"]
    executor = live.create("elsewhere", site(tmp_path))
    assert isinstance(executor, Elsewhere)
    executor.shutdown(stop_jobs=False)


def test_an_unknown_one_is_an_error_that_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such executor \(got 'nope'\).*local"):
        live.create("nope", site(tmp_path))


def test_clients_and_executors_know_the_same_options_of_a_job() -> None:
    assert list(JOB_OPTIONS.built_in) == list(EXECUTORS.built_in)
    for name in JOB_OPTIONS.built_in:
        assert JOB_OPTIONS.load(name) is EXECUTORS.load(name).JobOptions

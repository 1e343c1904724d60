"""A gang over several nodes: one supervisor each, and nothing but files between them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.executors.local import harness

from shockwave.engine.executor import Launch
from shockwave.executors.gangs.account import LiveJob
from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.launch import GangSettings, Start, supervisor_argv
from shockwave.executors.gangs.outcome import Ending, Outcome, judge
from shockwave.executors.gangs.shipping import ship_supervisor
from shockwave.executors.gangs.supervisor.part import NOT_SEEN
from shockwave.model.command import Command

PLACEMENT = (("a", (0, 1)), ("b", (3,)))
RunPart = Callable[..., subprocess.Popen[bytes]]


def write_launch(root: Path, command: Command, generation: int = 1) -> JobFolder:
    spec = harness.spec("wide", gpus=3)
    folder = JobFolder.of(root, spec.id)
    folder.create()
    order = Launch(0, spec, PLACEMENT, generation)
    job = LiveJob(0, spec, folder)
    start = Start(order, job, command, GangSettings(grace_seconds=20.0), 0.0)
    start.write(start.parts())
    return folder


@pytest.fixture
def run_part(tmp_path: Path) -> Iterator[RunPart]:
    """Starts the supervisor of one part, as a backend does on a node."""
    started = []
    source = ship_supervisor(tmp_path)

    def run(
        folder: JobFolder, part: int, generation: int = 1, **variables: str
    ) -> subprocess.Popen[bytes]:
        argv = supervisor_argv(folder, generation, source, part=part)
        process = subprocess.Popen(argv, env={**os.environ, **variables})
        started.append(process)
        return process

    yield run
    for process in started:
        process.terminate()
        process.wait(harness.PATIENCE_SECONDS)


def ended(
    folder: JobFolder, processes: list[subprocess.Popen[bytes]], generation: int = 1
) -> Ending:
    for process in processes:
        process.wait(harness.PATIENCE_SECONDS)
    reports = folder.reports(generation)
    said = (
        [json.loads(line)["event"] for line in reports.read_text().splitlines()]
        if (reports.exists())
        else []
    )
    return judge(folder, generation, said[-1] if said else None, parts=2, adopted=False)


def test_the_ranks_of_all_parts_meet_and_see_the_gpus_of_their_node(
    tmp_path: Path, run_part: RunPart
) -> None:
    show = (
        "import json, os; names = ('RANK', 'LOCAL_RANK', 'GROUP_RANK', 'WORLD_SIZE',"
        "'MASTER_ADDR', 'MASTER_PORT', 'CUDA_VISIBLE_DEVICES', 'MORE');"
        "print(json.dumps({name: os.environ[name] for name in names}))"
    )
    command = replace(harness.script(tmp_path, show), env={"MORE": "yes"})
    folder = write_launch(tmp_path, command)
    second = run_part(folder, 1, CUDA_VISIBLE_DEVICES="7")
    first = run_part(folder, 0, CUDA_VISIBLE_DEVICES="4,6")
    assert ended(folder, [first, second]).outcome is Outcome.FINISHED
    ranks = [json.loads(folder.log(rank).read_text()) for rank in range(3)]
    assert [rank["RANK"] for rank in ranks] == ["0", "1", "2"]
    assert [rank["LOCAL_RANK"] for rank in ranks] == ["0", "1", "0"]
    assert [rank["GROUP_RANK"] for rank in ranks] == ["0", "0", "1"]
    assert [rank["CUDA_VISIBLE_DEVICES"] for rank in ranks] == ["4", "6", "7"]
    assert {rank["WORLD_SIZE"] for rank in ranks} == {"3"}
    assert {rank["MORE"] for rank in ranks} == {"yes"}
    assert len({(rank["MASTER_ADDR"], rank["MASTER_PORT"]) for rank in ranks}) == 1


def test_a_rank_that_fails_on_one_node_ends_the_ranks_on_the_others(
    tmp_path: Path, run_part: RunPart
) -> None:
    wall = "import os, time; os.environ['RANK'] == '2' and 1 / 0; time.sleep(600)"
    folder = write_launch(tmp_path, harness.script(tmp_path, wall))
    ending = ended(folder, [run_part(folder, 0), run_part(folder, 1)])
    assert ending.outcome is Outcome.CRASHED
    assert "rank 2 exited with code 1" in ending.detail
    assert "ZeroDivisionError" in ending.detail


def test_a_lease_that_is_taken_back_stops_every_part(tmp_path: Path, run_part: RunPart) -> None:
    folder = write_launch(tmp_path, harness.tiny(tmp_path, seconds=600))
    parts = [run_part(folder, 0), run_part(folder, 1)]
    harness.wait_until((folder.reports(1)).exists)
    lease = folder.lease()
    assert lease is not None
    folder.write_lease(lease._replace(stop=True))
    assert ended(folder, parts).outcome is Outcome.STOPPED


def test_a_signal_that_reaches_one_part_stops_the_gang(tmp_path: Path, run_part: RunPart) -> None:
    folder = write_launch(tmp_path, harness.tiny(tmp_path, seconds=600))
    parts = [run_part(folder, 0), run_part(folder, 1)]
    harness.wait_until((folder.path / "process-1.json").exists)  # from then on it listens
    harness.wait_until((folder.reports(1)).exists)
    parts[1].send_signal(signal.SIGTERM)
    assert ended(folder, parts).outcome is Outcome.STOPPED


def test_a_part_that_waits_for_the_others_can_be_stopped(tmp_path: Path, run_part: RunPart) -> None:
    folder = write_launch(tmp_path, harness.tiny(tmp_path))
    alone = run_part(folder, 1)
    harness.wait_until((folder.path / "process-1.json").exists)
    alone.send_signal(signal.SIGTERM)
    alone.wait(harness.PATIENCE_SECONDS)
    record = folder.exit_record(1, 1)
    assert record is not None
    assert (record.asked, record.codes) == (True, [])


def test_an_older_copy_ends_itself_when_a_newer_launch_has_the_lease(
    tmp_path: Path, run_part: RunPart
) -> None:
    command = harness.tiny(tmp_path, seconds=600)
    folder = write_launch(tmp_path, command)
    old = [run_part(folder, 0), run_part(folder, 1)]
    harness.wait_until((folder.reports(1)).exists)
    write_launch(tmp_path, command, generation=2)
    for process in old:
        assert process.wait(harness.PATIENCE_SECONDS) == 0
    saved = list((folder.path / "checkpoints").glob("*"))
    assert not saved, "what the older copy wanted to save was refused"


def test_a_node_that_does_not_see_the_folder_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shockwave.executors.gangs.supervisor import part

    monkeypatch.setattr(part, "_SEEN_WITHIN_SECONDS", 0.0)
    with pytest.raises(SystemExit) as exit_info:
        part.Supervisor(tmp_path / "jobs" / "elsewhere", 1, 0, [])
    assert exit_info.value.code == NOT_SEEN


def test_the_program_is_shipped_once_and_again_when_it_changes(tmp_path: Path) -> None:
    first = ship_supervisor(tmp_path)
    assert (first / "shockwave/executors/gangs/supervisor/part.py").is_file()
    assert ship_supervisor(tmp_path) == first
    assert [path.name for path in (tmp_path / "supervisor").iterdir()] == [first.name]

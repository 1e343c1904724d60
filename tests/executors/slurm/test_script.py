"""What is submitted for a gang."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from shockwave.executors.gangs.errors import LaunchError
from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.launch_name import LaunchName, site_of
from shockwave.executors.slurm.script import Submission
from shockwave.model.events import Placement


def submission(placement: Placement, **options: str) -> Submission:
    folder = JobFolder.of(Path("/shared/state"), "team/job 1")
    name = LaunchName("0a1b", folder.path.name, 2)
    return Submission(
        name, "team/job 1", folder, placement, "/opt/my python/bin/python3", Path("/src"), options
    )


def test_one_node() -> None:
    arguments = submission((("n1", (0, 3)),), partition="a100", cpus_per_gpu="8").arguments()
    script = arguments.pop()
    assert arguments == [
        "--no-requeue",
        "--job-name=team%2Fjob%201",
        "--comment=shockwave/0a1b/team%2Fjob%201/2",
        "--chdir=/shared/state/jobs/team%2Fjob%201",
        "--open-mode=truncate",
        "--ntasks-per-node=1",
        "--partition=a100",
        "--cpus-per-gpu=8",
        "--nodelist=n1",
        "--nodes=1",
        "--gres=gpu:2",
        "--output=/shared/state/jobs/team%%2Fjob%%201/logs/supervisor-0.log",
    ]
    command = shlex.split(script.removeprefix("--wrap=").partition("; exec ")[2])
    assert command[0] == "/opt/my python/bin/python3"
    assert command[-3:] == ["/shared/state/jobs/team%2Fjob%201", "2", "0"]


def test_several_nodes_with_as_many_gpus_each() -> None:
    arguments = submission((("n3", (0, 1)), ("n1", (2, 3)))).arguments()
    assert ":" not in arguments
    assert "--nodelist=n3,n1" in arguments
    assert "--nodes=2" in arguments
    script = shlex.split(arguments[-1].removeprefix("--wrap="))
    assert script[:2] == ["exec", "srun"]
    assert not any(word.startswith("--het-group") for word in script)
    assert "case $SLURMD_NODENAME in n3) part=0;; n1) part=1;; esac" in script[-1]


def test_nodes_with_different_numbers_of_gpus_are_components_of_one_job() -> None:
    placement: Placement = (("n3", (0,)), ("n1", (0, 1)), ("n2", (3,)))
    arguments = submission(placement, qos="high").arguments()
    border = arguments.index(":")
    first, second = arguments[:border], arguments[border + 1 :]
    assert {"--nodelist=n3,n2", "--nodes=2", "--gres=gpu:1", "--qos=high"} <= set(first)
    assert {"--nodelist=n1", "--nodes=1", "--gres=gpu:2", "--qos=high"} <= set(second)
    comments = [word for word in arguments if word.startswith("--comment=")]
    assert len(comments) == 2
    assert len(set(comments)) == 1
    assert "--het-group=0-1" in first[-1]
    assert not any(word.startswith("--wrap=") for word in second)


def test_an_option_that_slurm_is_not_told() -> None:
    with pytest.raises(LaunchError, match="nodelist"):
        submission((("n1", (0,)),), nodelist="n9").arguments()


def test_a_scheduler_keeps_its_name(tmp_path: Path) -> None:
    name = site_of(tmp_path)
    assert name
    assert site_of(tmp_path) == name
    (tmp_path / "slurm-site").write_text("")  # a full disk
    assert site_of(tmp_path)

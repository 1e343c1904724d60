"""What the processes of a job see on a Ray node."""

from __future__ import annotations

import json
from pathlib import Path

from tests.executors.local import harness as local
from tests.executors.ray import harness

from shockwave.testing.ray_cluster import RayCluster

TELL = "import json, os; print(json.dumps(dict(os.environ)))"


def test_every_rank_has_a_gpu_and_knows_the_others(cluster: RayCluster, tmp_path: Path) -> None:
    commands = {"a": local.script(tmp_path, TELL)}
    with harness.executor(cluster, tmp_path / "root", commands) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", (("n1", (0, 1, 2)), ("n0", (3,))))])
        watch.until_finished([local.spec("a")])
        ranks = [json.loads(executor.log("a", rank).read_text()) for rank in range(4)]
    assert [rank["RANK"] for rank in ranks] == ["0", "1", "2", "3"]
    assert [rank["LOCAL_RANK"] for rank in ranks] == ["0", "1", "2", "0"]
    assert {rank["WORLD_SIZE"] for rank in ranks} == {"4"}
    assert {rank["MASTER_ADDR"] for rank in ranks} == {"127.0.0.3"}  # of n1
    assert len({rank["MASTER_PORT"] for rank in ranks}) == 1
    on_n1 = [rank["CUDA_VISIBLE_DEVICES"] for rank in ranks[:3]]
    assert len(set(on_n1)) == 3
    assert all(device in "0123" for device in on_n1)


def test_ray_does_not_meddle_with_the_environment(cluster: RayCluster, tmp_path: Path) -> None:
    commands = {"a": local.script(tmp_path, TELL)}
    with harness.executor(cluster, tmp_path / "root", commands) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a")])
        watch.until_finished([local.spec("a")])
        rank = json.loads(executor.log("a").read_text())
    assert "OMP_NUM_THREADS" not in rank  # Ray would say 1
    assert "PYTHONBREAKPOINT" not in rank
    assert "RAY_JOB_ID" not in rank
    assert rank["PATH"]

"""Ranks stop at the same step, and none waits for one that is gone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.train.helpers import FakeScheduler, finish, start

from shockwave.protocol.paths import JobPaths
from shockwave.train.agreement import FileAgreement

STOP, GO = True, False


def ranks(directory: Path, count: int, patience_seconds: float = 1e9) -> list[FileAgreement]:
    return [
        FileAgreement(
            JobPaths(directory), generation=1, rank=rank, patience_seconds=patience_seconds
        )
        for rank in range(count)
    ]


@given(data=st.data())
def test_ranks_in_lock_step_stop_at_the_same_call(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Any interleaving in which no rank begins step n + 1 before all have begun step n.

    That is what a collective in every step enforces, and the weakest order that it does.
    """
    count = data.draw(st.integers(2, 4), label="ranks")
    asked = data.draw(st.integers(0, count - 1), label="rank that sees the signal")
    asked_at = data.draw(st.integers(1, 6), label="call at which it sees it")
    members = ranks(tmp_path_factory.mktemp("job"), count)
    calls = [0] * count
    stopped_at: list[int | None] = [None] * count
    for _ in range(400):
        if all(at is not None for at in stopped_at):
            break
        # A rank may make call n + 1 once every rank has left call n: none is further behind.
        ready = [
            rank for rank in range(count) if stopped_at[rank] is None and calls[rank] <= min(calls)
        ]
        rank = data.draw(st.sampled_from(ready), label="next") if ready else None
        assert rank is not None, f"stuck: {calls} {stopped_at}"
        calls[rank] += 1
        wish = rank == asked and calls[rank] >= asked_at
        if members[rank].agree(wish):
            stopped_at[rank] = calls[rank]
    assert len(set(stopped_at)) == 1
    assert stopped_at[0] is not None
    assert stopped_at[0] > asked_at


def test_uncoupled_ranks_stop_at_or_after_the_announced_call(tmp_path: Path) -> None:
    leader, ahead, behind = ranks(tmp_path, 3)
    for _ in range(10):
        assert not ahead.agree(GO)
    assert not leader.agree(GO)
    assert not leader.agree(STOP)
    assert leader.agree(GO)
    assert ahead.agree(GO)
    assert [behind.agree(GO) for _ in range(3)] == [False, False, True]


def test_a_rank_without_a_leader_stops_alone_in_time(tmp_path: Path) -> None:
    now = [0.0]
    lonely = FileAgreement(
        JobPaths(tmp_path), generation=1, rank=1, patience_seconds=15.0, clock=lambda: now[0]
    )
    assert not lonely.agree(STOP)
    now[0] = 14.0
    assert not lonely.agree(STOP)
    now[0] = 15.0
    assert lonely.agree(STOP)


def test_generations_do_not_mix(tmp_path: Path) -> None:
    (leader,) = ranks(tmp_path, 1)
    leader.agree(STOP)
    newer = FileAgreement(JobPaths(tmp_path), generation=2, rank=1, patience_seconds=1e9)
    assert not any(newer.agree(GO) for _ in range(5))


@pytest.fixture(scope="module")
def connected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which ranks that are connected by gloo have left their results."""
    pytest.importorskip("torch", reason="needs PyTorch")
    folder = tmp_path_factory.mktemp("connected")
    script = Path(__file__).with_name("connected_ranks.py")
    finish(start([str(script), str(folder)], {}))
    return folder


def found(folder: Path, rank: int) -> dict[str, object]:
    path = folder / f"rank-{rank}.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


def test_connected_ranks_agree(connected: Path) -> None:
    """Rank 1 alone got the signal, and both made one checkpoint for one request."""
    folder = connected / "agrees"
    assert found(folder, 0) == found(folder, 1) == {"steps": 5}
    assert FakeScheduler(folder).events() == ["started", "stopped"]


def test_a_dead_rank_is_an_error_not_a_hang(connected: Path) -> None:
    assert found(connected / "dies", 0) == {"error": "RankLost"}
    assert found(connected / "dies", 1) == {}


def test_the_ranks_of_the_example_stop_together_and_resume(connected: Path) -> None:
    scheduler = FakeScheduler(connected / "example")
    stopped = scheduler.reports(1)[-1]
    assert stopped["event"] == "stopped"
    assert stopped["epoch"] >= 2
    resumed = scheduler.reports(2)
    assert (resumed[0]["event"], resumed[0]["epoch"]) == ("started", stopped["epoch"])
    assert (resumed[-1]["event"], resumed[-1]["epoch"]) == ("done", stopped["epoch"] + 2)
    outcome = json.loads((connected / "example" / "outcome-2.json").read_text())
    assert outcome["accuracy"] > 0.8


def test_the_elastic_example_has_the_losses_of_an_undisturbed_run(connected: Path) -> None:
    """One rank, then four, then two, each time from within an epoch."""
    undisturbed = FakeScheduler(connected / "undisturbed").reports(1)
    expected = [record["loss"] for record in undisturbed if record["event"] == "epoch"]
    resized = FakeScheduler(connected / "resized")
    launches = [resized.reports(generation) for generation in (1, 2, 3)]
    assert [records[-1]["event"] for records in launches] == ["stopped", "stopped", "done"]
    assert all(any(r["event"] == "epoch" for r in records) for records in launches)
    losses = [r["loss"] for records in launches for r in records if r["event"] == "epoch"]
    np.testing.assert_allclose(losses, expected, rtol=1e-5)

"""A service whose jobs run by an engine that has its own nodes, its own users, and bad days."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.server.live import local_client
from tests.server.services import (
    config,
    journal,
    known,
    running,
    simply_die,
    submit,
    tiny,
    wait_for,
)

from shockwave.executors.live import Site
from shockwave.executors.local.executor import LocalExecutor
from shockwave.model.cluster import Node
from shockwave.model.errors import ExecutorError, InputError
from shockwave.model.events import Event, JobStarted, NodeDown, NodeOccupied, NodeUp, RunStarted
from shockwave.model.job import JobSpec
from shockwave.server.app import create_app
from shockwave.server.records import Submission
from shockwave.server.service import Service

LEFT_OUT = "waits: of the nodes that it may use, not enough are up"
TWO = (Node("n0", 1), Node("n1", 1))


@dataclass
class World:
    """What the engine is like now; tests change it while the service runs."""

    nodes: tuple[Node, ...] = TWO
    away: str | None = None
    news: list[Event] = field(default_factory=list)
    partitions: dict[str, frozenset[str]] = field(default_factory=dict)  # by the job's name


class Remote(LocalExecutor):
    """Real processes on this machine, as if on an engine's nodes."""

    world: World

    def nodes(self) -> tuple[Node, ...]:
        return None if self.world.away else self.world.nodes  # type: ignore[return-value]

    def away(self) -> str | None:
        return self.world.away

    def nodes_for(self, job: JobSpec) -> frozenset[str] | None:
        return self.world.partitions.get(job.name)

    def poll(self, until: float) -> list[Event]:
        events = super().poll(until)
        if self.world.away is None:
            events.extend(self.world.news)
            self.world.news = []
        return events


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def engine(world: World) -> dict[str, Any]:
    """What a service needs to run on it."""

    def make(site: Site) -> Remote:
        remote = Remote.at(site)
        remote.world = world
        return remote

    return {"make_executor": make}


def reachable(client: TestClient) -> tuple[int, str]:
    answer = client.get("/readyz")
    return answer.status_code, answer.json().get("detail") or ""


def test_the_nodes_are_those_of_the_engine(
    tmp_path: Path, world: World, engine: dict[str, Any]
) -> None:
    world.nodes = (Node("n1", 1),)
    settings = config(tmp_path, gpus_per_node=1)
    with running(settings, **engine) as service:
        assert [node.id for node in service.desk.nodes()] == ["n1"]
        job = submit(service, tiny())
        wait_for(lambda: known(service, job).state == "finished", "the job")
    events = journal(tmp_path)
    assert isinstance(events[0], RunStarted)
    assert events[0].nodes == world.nodes
    (start,) = [event for event in events if isinstance(event, JobStarted)]
    assert start.placement == (("n1", (0,)),)


def test_a_first_start_needs_the_engine(
    tmp_path: Path, world: World, engine: dict[str, Any]
) -> None:
    world.away = "the controller at 10.0.0.1 does not answer"
    service = Service(config(tmp_path), **engine)
    with pytest.raises(ExecutorError, match=r"10\.0\.0\.1 does not answer") as error:
        service.start()
    assert "\n" not in str(error.value)
    world.away = None
    with running(config(tmp_path, gpus_per_node=1), **engine) as again:  # nothing was left behind
        assert len(again.desk.nodes()) == 2


def test_an_outage_is_ridden_out_and_told(
    tmp_path: Path, world: World, engine: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with running(config(tmp_path, gpus_per_node=1), **engine) as service:
        client = local_client(create_app(service.desk, token_hash=None))
        long = submit(service, tiny(epochs=1000, seconds=0.05))
        wait_for(lambda: known(service, long).epochs_done > 0, "some progress")
        assert reachable(client) == (200, "")
        world.away = "slurmctld does not answer"
        wait_for(lambda: reachable(client)[0] == 503, "the outage")
        assert reachable(client) == (503, "slurmctld does not answer")
        done = known(service, long).epochs_done
        short = submit(service, tiny())
        assert known(service, short).why.reason == (
            "waits: nothing can be started for now: slurmctld does not answer"
        )
        wait_for(lambda: known(service, long).epochs_done > done + 10, "progress all the same")
        assert known(service, long).why.reason.startswith("runs: ")
        assert (known(service, long).starts, known(service, short).starts) == (1, 0)
        world.away = None
        wait_for(lambda: reachable(client)[0] == 200, "the return")
        wait_for(lambda: known(service, short).state == "finished", "the job that waited")
        assert (known(service, long).starts, known(service, long).preemptions) == (1, 0)
        service.desk.cancel(long)
        wait_for(lambda: known(service, long).state == "cancelled", "the end")
    said = [record.message for record in caplog.records]
    assert sum("slurmctld does not answer" in message for message in said) == 1
    assert sum("can be carried out again" in message for message in said) == 1


def test_a_restart_during_an_outage_keeps_what_runs(
    tmp_path: Path, world: World, engine: dict[str, Any]
) -> None:
    settings = config(tmp_path, gpus_per_node=1)
    service = Service(settings, **engine)
    service.start()
    job = submit(service, tiny(epochs=60, seconds=0.1))
    wait_for(lambda: known(service, job).epochs_done > 0, "some progress")
    simply_die(service)
    world.away = "no answer"
    with running(settings, **engine) as again:
        assert again.desk.is_ready() == (False, "no answer")
        assert [node.state for node in again.desk.nodes()] == ["up", "up"]
        done = known(again, job).epochs_done
        wait_for(lambda: known(again, job).epochs_done > done + 3, "more progress")
        # It comes back with another node instead of the one that is not used.
        used = known(again, job).nodes
        world.nodes = (*(node for node in TWO if node.id in used), Node("n2", 4))
        world.away = None
        wait_for(lambda: len(again.desk.nodes()) == 3, "the new node")
        states = {node.id: node.state for node in again.desk.nodes()}
        assert states == {used[0]: "up", ({"n0", "n1"} - set(used)).pop(): "down", "n2": "up"}
        wait_for(lambda: known(again, job).state == "finished", "the end")
        assert known(again, job).starts == 1


def test_a_drained_node_stays_drained_whatever_the_engine_says(
    tmp_path: Path, world: World, engine: dict[str, Any]
) -> None:
    settings = config(tmp_path, gpus_per_node=1)
    with running(settings, **engine) as service:
        service.desk.drain("n1", resume=False)
        world.news = [NodeDown(0.0, "n1"), NodeUp(0.0, Node("n1", 1)), NodeDown(0.0, "n7")]
        wait_for(lambda: not world.news, "the news")
        job = submit(service, tiny())
        wait_for(lambda: known(service, job).state == "finished", "a job on the other node")
        assert service.desk.is_ready() == (True, "")
    with running(settings, **engine) as service:
        assert [node.state for node in service.desk.nodes()] == ["up", "drained"]
        service.desk.drain("n1", resume=True)
        wide = submit(service, tiny(gpus=2))
        wait_for(lambda: known(service, wide).state == "finished", "a job on both nodes")


def test_what_others_hold_is_shown_and_left_alone(
    tmp_path: Path, world: World, engine: dict[str, Any]
) -> None:
    world.news = [NodeOccupied(0.0, "n0", 1)]
    settings = config(tmp_path, gpus_per_node=1)
    with running(settings, **engine) as service:
        wait_for(lambda: service.desk.nodes()[0].gpus_others == 1, "the others")
        client = local_client(create_app(service.desk, token_hash=None))
        items = client.get("/api/v1/nodes").json()["items"]
        assert [(item["id"], item["gpus_others"]) for item in items] == [("n0", 1), ("n1", 0)]
        assert 'shockwave_gpus{state="others"} 1.0' in client.get("/metrics").text
        jobs = [submit(service, tiny()) for _ in range(3)]
        wait_for(lambda: all(known(service, job).state == "finished" for job in jobs), "the jobs")
        wide = submit(service, tiny(gpus=2))
    starts = [event for event in journal(tmp_path) if isinstance(event, JobStarted)]
    assert {start.placement[0][0] for start in starts} == {"n1"}
    with running(settings, **engine) as again:  # the others have left meanwhile
        wait_for(lambda: known(again, wide).state == "finished", "the wide job")
        assert [node.gpus_others for node in again.desk.nodes()] == [0, 0]


def test_a_job_that_may_use_few_nodes_says_what_it_waits_for(
    tmp_path: Path, world: World, engine: dict[str, Any]
) -> None:
    second = frozenset({"n1"})
    world.partitions = {"first": second, "next": second, "lost": frozenset({"n7"})}

    def reason(job: str) -> str:
        return known(service, job).why.reason

    settings = config(tmp_path, gpus_per_node=1, policy="fifo")
    with running(settings, **engine) as service:
        first = submit(service, tiny(epochs=1000, seconds=0.05, name="first"))
        wait_for(lambda: known(service, first).nodes == ["n1"], "the first")
        following = submit(service, tiny(name="next"))
        wait_for(lambda: "room on the nodes that it may use" in reason(following), "its reason")
        filler = submit(service, tiny(epochs=1000, seconds=0.05, name="filler"))
        wait_for(lambda: known(service, filler).nodes == ["n0"], "a job in its place")
        assert "finds no room on its own nodes" in reason(filler)
        service.desk.cancel(filler)
        lost = submit(service, tiny(name="lost"))
        service.desk.cancel(first)
        wait_for(lambda: known(service, following).state == "finished", "the next")
        anywhere = submit(service, tiny(gpus=2))
        wait_for(lambda: known(service, anywhere).state == "finished", "a job for all nodes")
        assert reason(lost) == LEFT_OUT
        assert service.desk.is_ready() == (True, "")


def test_options_of_slurm_are_for_slurm(tmp_path: Path) -> None:
    with (
        running(config(tmp_path)) as service,
        pytest.raises(InputError, match=r"^slurm: .*local executor"),
    ):
        submit(
            service,
            Submission.model_validate(
                {"command": ["true"], "epochs": 1, "workdir": "/", "slurm": {"partition": "gpu"}}
            ),
        )

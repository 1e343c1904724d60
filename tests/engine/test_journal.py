"""What is written into a journal comes back the same."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shockwave.engine.journal import FileJournal, read_journal
from shockwave.executors.simulation import simulate
from shockwave.model import event_records
from shockwave.model import events as model_events
from shockwave.model.cluster import Cluster, Node
from shockwave.model.errors import JournalError
from shockwave.model.event_records import from_record, to_record
from shockwave.model.events import Event, JobSubmitted, RunEnded
from shockwave.model.job import Adaptation, JobSpec, Preemptible
from shockwave.model.options import Option
from shockwave.model.progress import Progressed
from shockwave.model.tenants import Tenant
from shockwave.policies.fifo import Fifo
from shockwave.predict.reactive import Reactive
from shockwave.testing.workloads import random_jobs

KINDS = sorted(event_records._KINDS.values(), key=lambda cls: cls.kind)
seconds = st.floats(0, 1e9, allow_nan=False)
maybe = st.none() | st.floats(allow_nan=False)
counts = st.integers(0, 10**9)
nodes = st.builds(Node, st.text(), st.integers(1, 16), st.text())
placements = st.lists(st.tuples(st.text(), st.lists(counts).map(tuple))).map(tuple)
timed_options = st.lists(st.tuples(st.text(), st.integers(1, 64), seconds), max_size=3).map(tuple)
specs = st.builds(
    JobSpec,
    id=st.text(),
    arrival_seconds=seconds,
    gpus=st.integers(1, 64),
    epochs=st.integers(1, 1000),
    configurations=st.lists(counts, min_size=1).map(tuple),
    epoch_seconds=st.lists(st.floats(1e-3, 1e6) | st.just(math.nan), min_size=1).map(tuple),
    adaptation=st.sampled_from(Adaptation),
    model=st.text(),
    tenant=st.text(),
    weight=st.floats(1e-3, 1e3),
    name=st.text(),
    preemptible=st.sampled_from(Preemptible),
    gpu_counts=st.lists(st.integers(1, 64), max_size=3).map(tuple),
    gpu_types=st.lists(st.text(), max_size=3).map(tuple),
    preferred_type=st.text(),
    gpu_memory_gb=st.none() | st.floats(1, 200),
    option_seconds=timed_options,
)
ints = st.lists(counts, max_size=4).map(lambda values: np.array(values, dtype=np.int64))
floats = st.lists(seconds | st.just(math.nan), max_size=4).map(np.array)
FIELDS: dict[str, st.SearchStrategy[object]] = {
    "float": seconds,
    "int": counts,
    "bool": st.booleans(),
    "str": st.text(),
    "str | None": st.none() | st.text(),
    "float | None": maybe,
    "Node": nodes,
    "tuple[Node, ...]": st.lists(nodes).map(tuple),
    "JobSpec": specs,
    "Tenant": st.builds(
        Tenant,
        st.text(min_size=1),
        weight=st.floats(0.1, 10.0),
        most=st.none() | st.integers(0, 9),
        by_person=st.booleans(),
    ),
    "Placement": placements,
    "Option | None": st.none() | st.builds(Option, st.text(), st.integers(1, 64)),
    "tuple[tuple[str, int, float], ...]": timed_options,
    "StopReason": st.sampled_from(model_events.StopReason),
    "Starts": st.sampled_from(model_events.Starts),
    "Ints": ints,
    "Floats": floats,
    "Floats | None": st.none() | floats,
}


@st.composite
def any_event(draw: st.DrawFn) -> Event:
    cls = draw(st.sampled_from(KINDS))
    fields: dict[str, Any] = {f.name: draw(FIELDS[str(f.type)]) for f in dataclasses.fields(cls)}
    event: Event = cls(**fields)
    return event


def same(first: Event, second: Event) -> bool:
    """Equal, where nan equals nan."""
    return type(first) is type(second) and repr(first) == repr(second)


@settings(deadline=None)
@given(any_event())
def test_every_event_survives_its_record(event: Event) -> None:
    text = json.dumps(to_record(event))
    assert same(from_record(json.loads(text)), event)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None
)
@given(st.lists(any_event(), max_size=6))
def test_a_file_journal_reads_back_what_was_appended(tmp_path: Path, events: list[Event]) -> None:
    path = tmp_path / "run.jsonl"
    with FileJournal(path) as journal:
        journal.write(events)
    again = list(read_journal(path))
    assert len(again) == len(events)
    assert all(same(*pair) for pair in zip(again, events, strict=True))


def test_unknown_epoch_times_are_null_in_the_file_and_nan_again_after() -> None:
    spec = JobSpec("a", 0.0, 1, 1, (32, 64), (math.nan, 2.0))
    record = to_record(JobSubmitted(0.0, spec))
    assert record["job"]["epoch_seconds"] == [None, 2.0]
    json.dumps(record, allow_nan=False)
    again = from_record(record)
    assert isinstance(again, JobSubmitted)
    assert math.isnan(again.job.epoch_seconds[0])


def test_a_simulation_into_a_file_equals_one_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    jobs = random_jobs(1, count=6)
    with FileJournal(path) as journal:
        assert simulate(jobs, Cluster.uniform(8), Fifo(), Reactive(), journal=journal) == []
    events = simulate(jobs, Cluster.uniform(8), Fifo(), Reactive())
    # Progress is for those who restore a run, and is not kept in memory.
    on_disk = [event for event in read_journal(path) if not isinstance(event, Progressed)]
    assert len(on_disk) == len(events)
    for mine, theirs in zip(on_disk, events, strict=True):
        if not isinstance(mine, model_events.RoundDecided):  # has a wall clock time
            assert mine == theirs
    assert isinstance(on_disk[-1], RunEnded)


@pytest.mark.parametrize(
    "damage",
    [
        '{"kind":"run-ended","time":1.0,"rou',
        "",
        "[1, 2]",
        "null",
        '{"time": 1.0}',
        '{"kind": "no-such-thing", "time": 1.0}',
        '{"kind": ["run-ended"], "time": 1.0}',
        '{"kind": "run-ended", "time": 1.0}',
        '{"kind": "run-ended", "time": 1.0, "rounds": 3, "more": 1}',
        '{"kind": "node-up", "time": 1.0, "node": "n0"}',
        '{"kind": "job-started", "time": 1, "job": "a", "placement": [3], "attempt": 1}',
        '{"kind": "job-stopped", "time": 1.0, "job": "a", "epochs_done": 1, "reason": "bored"}',
        '{"kind": "job-submitted", "time": 1.0, "job": {"id": "a"}}',
        '{"kind": "job-submitted", "time": 1.0, "job": null}',
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "run.jsonl"
    good = json.dumps(to_record(RunEnded(1.0, 2)))
    path.write_text(f"{good}\n{damage}\n{good}\n")
    with pytest.raises(JournalError, match=r"run\.jsonl, line 2: "):
        list(read_journal(path))


def test_events_before_the_damage_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(json.dumps(to_record(RunEnded(1.0, 2))) + "\n{")
    events = read_journal(path)
    assert next(events) == RunEnded(1.0, 2)
    with pytest.raises(JournalError, match="line 2"):
        next(events)


def test_bytes_that_are_no_text_are_a_journal_error(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(JournalError, match=r"run\.jsonl"):
        list(read_journal(path))

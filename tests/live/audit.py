"""What must be true after a dozen jobs ran, whatever was killed meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.live.schedulers import Scheduler, reports

from shockwave.model.events import (
    Event,
    JobFailed,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
)
from shockwave.model.progress import Progressed


def audit(
    scheduler: Scheduler,
    jobs: list[dict[str, Any]],
    epochs: Mapping[str, int],
    *,
    damaged: str = "",
) -> list[Event]:
    """Every job did exactly its epochs, once; returns the journal. ``damaged`` lost a checkpoint.

    The jobs save after every epoch.
    """
    events = scheduler.events()
    unfinished = [_story(job, events) for job in jobs if job["state"] != "finished"]
    assert not unfinished, "not all jobs finished:\n" + "\n".join(unfinished)
    assert sorted(job["name"] for job in jobs) == sorted(epochs)
    names = {job["id"]: job["name"] for job in jobs}
    finished = Counter(event.job for event in events if isinstance(event, JobFinished))
    assert finished == Counter(list(names)), "every job finishes exactly once"
    _epochs_never_vanish(events, [job for job in names if job != damaged])
    for job, name in names.items():
        starts = [e.attempt for e in events if isinstance(e, JobStarted) and e.job == job]
        assert starts == sorted(set(starts)), "no launch is made twice"
        launches = reports(scheduler.folder(job))
        _one_copy_writes(launches, name)
        best = 0
        for said in launches.values():
            trained = [line["epoch"] for line in said if line["event"] == "epoch"]
            first = next((line["epoch"] for line in said if line["event"] == "started"), None)
            if first is not None:
                lost = 2 if job == damaged else 1
                assert first >= best - lost, f"{name} lost more than its last checkpoint"
                assert trained == list(range(first + 1, first + 1 + len(trained)))
            best = max([best, *trained])
        assert best == epochs[name], f"{name} did exactly its epochs"
    return events


def _story(job: Mapping[str, Any], events: list[Event]) -> str:
    """What became of a job that should have finished."""
    own = [event for event in events if getattr(event, "job", None) == job["id"]]
    told = [event for event in own if isinstance(event, JobStarted | JobStopped | JobFailed)]
    return "\n  ".join([f"{job['name']} is {job['state']}: {job}", *map(repr, told)])


def _epochs_never_vanish(events: list[Event], jobs: list[str]) -> None:
    """Unless a job stops: what it had not saved is gone in what is told just before that."""
    done: dict[str, float] = dict.fromkeys(jobs, 0.0)
    names = [event.job.id for event in events if isinstance(event, JobSubmitted)]
    gone: set[str] = set()
    for event in events:
        if isinstance(event, Progressed):
            assert not gone, "epochs never go backwards unexplained"
            for handle, epochs in zip(event.handle.tolist(), event.epochs_done, strict=True):
                job = names[handle]
                if job in done:
                    if epochs < done[job]:
                        gone.add(job)
                    done[job] = epochs
        elif isinstance(event, JobStopped) and event.job in done:
            done[event.job] = event.epochs_done
            gone.discard(event.job)
    assert not gone, "epochs never go backwards unexplained"


def _one_copy_writes(launches: Mapping[int, list[dict[str, Any]]], name: str) -> None:
    """A launch says nothing more once a later one has begun to speak."""
    last = 0.0
    for generation, said in launches.items():
        if said:
            first = min(line["time"] for line in said)
            assert first >= last, f"{name}: launch {generation} ran beside the one before"
            last = max(line["time"] for line in said)

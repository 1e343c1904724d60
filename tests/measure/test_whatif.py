"""What-if: futures rolled forward from a state come out as the run itself did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

import numpy as np
import pytest

from shockwave.engine.journal import Journal
from shockwave.engine.snapshot import dump
from shockwave.executors.simulation import simulate
from shockwave.measure.whatif import (
    Answer,
    Change,
    DrainNode,
    ExtraJob,
    Figure,
    Interval,
    Limits,
    MoreGpus,
    OtherPolicy,
    TenantWeight,
    TooSlowError,
    ask,
)
from shockwave.measure.whatif.memory import Past, recall
from shockwave.model.cluster import Cluster
from shockwave.model.errors import InputError
from shockwave.model.events import Event, JobFinished
from shockwave.model.job import JobSpec, Regime, TraceJob
from shockwave.policies import registry as policies
from shockwave.predict import registry as predictors
from shockwave.traces import load

ROUND = 120.0
AT = 1900.0
FEW = Limits(samples=6, seconds=3600.0)


def static(name: str, arrival: float, gpus: int, minutes: int, tenant: str = "a") -> TraceJob:
    """A job of which everything is known: a minute for an epoch."""
    spec = JobSpec(name, arrival, gpus, minutes, (32,), (60.0,), tenant=tenant)
    return TraceJob(spec, (Regime(32, minutes, 60.0),))


# All come at once, so nobody is expected to come later.
JOBS = [
    static("long", 0, 4, 90),
    static("wide", 0, 4, 20, "b"),
    static("short", 0, 2, 12),
    static("late", 0, 2, 50, "b"),
    static("last", 0, 4, 30),
]
EXTRA = static("extra", AT, 8, 15).spec


class Everything(Journal):
    """Keeps the progress of every round too, as the journal of a scheduler does."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def write(self, events: Sequence[Event]) -> None:
        self.events += events


def run(jobs: list[TraceJob], policy: str = "srtf", gpus: int = 8) -> list[Event]:
    chosen = policies.create(policy)
    journal = Everything()
    predictor = predictors.create(chosen.predictor)
    simulate(jobs, Cluster.uniform(gpus), chosen, predictor, journal=journal)
    return journal.events


def finishes(events: list[Event]) -> dict[str, float]:
    return {event.job: event.time for event in events if isinstance(event, JobFinished)}


def past_at(events: list[Event], seconds: float = AT) -> Past:
    return recall(takewhile(lambda event: event.time <= seconds, events))


def asked(*changes: Change, events: list[Event] | None = None) -> Answer:
    past = past_at(events or run(JOBS))
    return ask(past.state, changes, now=AT, limits=FEW, policies=past.policies)


def figure(answer: Answer, name: str) -> Figure:
    return next(figure for figure in answer.figures if figure.name == name)


def test_what_is_known_for_certain_comes_out_as_it_will() -> None:
    """Running and waiting jobs go on from where they are, and an extra one joins them."""
    answer = asked(ExtraJob(EXTRA))
    extra = TraceJob(EXTRA, (Regime(32, 15, 60.0),))
    without, with_extra = (finishes(run(jobs)) for jobs in (JOBS, [*JOBS, extra]))
    there = {effect.job: effect for effect in answer.effects}
    assert set(there) == {"long", "late", "last", "extra"}  # two have ended by then
    for job, effect in there.items():
        assert effect.finish_after is not None
        assert effect.finish_after.middle == pytest.approx(with_extra[job], abs=ROUND)
        if job != "extra":
            assert effect.finish_before is not None
            assert effect.finish_before.middle == pytest.approx(without[job], abs=ROUND)
    assert answer.effects[0].job == "extra"
    assert answer.effects[0].is_new


def test_the_effect_of_a_job_on_uncertain_ones_is_foretold() -> None:
    """Jobs that adapt, of which only the past is known: the others end later by so much."""
    jobs = load("generated:jobs=24,span_hours=0.2", seed=5)
    at = 4000.0
    extra = TraceJob(replace(EXTRA, arrival_seconds=at, epochs=60), (Regime(32, 60, 60.0),))
    without, with_extra = run(jobs, "las"), run([*jobs, extra], "las")
    past = past_at(without, at)
    limits = Limits(samples=8, seconds=3600.0)
    answer = ask(past.state, [ExtraJob(extra.spec)], now=at, limits=limits)
    there = [effect.job for effect in answer.effects if not effect.is_new]
    before, after = finishes(without), finishes(with_extra)
    real = np.mean([after[job] - before[job] for job in there])
    foretold = figure(answer, "mean_jct_seconds").mean_difference
    assert real > 5 * ROUND
    assert foretold == pytest.approx(real, rel=0.15)
    finish = answer.effects[0].finish_after
    assert finish is not None
    assert finish.middle == pytest.approx(after["extra"], rel=0.15)


def test_a_question_changes_nothing_and_has_one_answer() -> None:
    past = past_at(run(JOBS))
    before = dump(past.state)
    answers = [
        ask(past.state, [ExtraJob(EXTRA)], now=AT, limits=FEW, policies=past.policies)
        for _ in range(2)
    ]
    assert dump(past.state) == before
    assert answers[0] == answers[1]


def test_more_gpus_bring_the_end_closer_and_a_drained_node_moves_it_away() -> None:
    def moved(*changes: Change) -> float:
        difference = figure(asked(*changes), "makespan_seconds").difference
        assert difference is not None
        return difference.middle

    assert moved(MoreGpus(8)) < -ROUND
    assert moved(DrainNode("n0", AT)) > ROUND
    later, now = (asked(DrainNode("n0", at)).effects for at in (AT + 3600.0, AT))
    # Whoever ends before the node is drained does not notice.
    assert sum(e.is_affected for e in later) < sum(e.is_affected for e in now)


def test_another_policy_and_other_weights_change_the_order() -> None:
    answer = asked(OtherPolicy("fifo"))
    assert any(effect.is_affected for effect in answer.effects)
    crowd = [static(f"{t}{n}", 0, 4, 40, t) for n in range(3) for t in "ab"]
    answer = asked(TenantWeight("b", 8.0), events=run(crowd, "gavel"))
    moved = {effect.job: effect.later_seconds for effect in answer.effects}
    means = {
        tenant: float(np.mean([m.middle for job, m in moved.items() if m and job[0] == tenant]))
        for tenant in "ab"
    }
    assert means["b"] < min(means["a"], 0.0)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (MoreGpus(0), "gpus"),
        (DrainNode("n9", AT), "drain"),
        (TenantWeight("nobody", 2.0), "tenant"),
        (TenantWeight("a", 0.0), "weight"),
        (ExtraJob(replace(EXTRA, gpus=9)), "gpus"),
    ],
)
def test_what_cannot_be_is_refused(change: Change, place: str) -> None:
    with pytest.raises(InputError) as refused:
        asked(change)
    assert refused.value.place == place


def test_a_limit_of_time_is_kept() -> None:
    ticks = iter(range(10_000))
    past = past_at(run(JOBS))
    with pytest.raises(TooSlowError):
        ask(past.state, [MoreGpus(1)], limits=Limits(6, 20.0), timer=lambda: float(next(ticks)))


def test_an_interval_holds_four_in_five() -> None:
    assert Interval.of(np.arange(11.0), margin=0.5) == Interval(0.5, 5.0, 9.5)
    assert Interval.of(np.array([np.nan])) is None

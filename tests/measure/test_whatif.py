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
    TenantTerms,
    TenantWeight,
    TooSlowError,
    ask,
)
from shockwave.measure.whatif.draws import Future
from shockwave.measure.whatif.memory import Past, recall
from shockwave.measure.whatif.roll import Present, roll
from shockwave.model.cluster import Cluster, Node
from shockwave.model.errors import InputError
from shockwave.model.events import Event, JobFinished
from shockwave.model.job import JobSpec, Regime, TraceJob
from shockwave.model.speeds import Speeds
from shockwave.model.tenants import Tenant
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


def run(
    jobs: list[TraceJob],
    policy: str = "srtf",
    cluster: Cluster | None = None,
    tenants: Sequence[Tenant] = (),
) -> list[Event]:
    chosen = policies.create(policy)
    journal = Everything()
    predictor = predictors.create(chosen.predictor)
    cluster = cluster or Cluster.uniform(8)
    simulate(jobs, cluster, chosen, predictor, journal=journal, tenants=tenants)
    return journal.events


def finishes(events: list[Event]) -> dict[str, float]:
    return {event.job: event.time for event in events if isinstance(event, JobFinished)}


def past_at(events: list[Event], seconds: float = AT) -> Past:
    return recall(takewhile(lambda event: event.time <= seconds, events))


def asked(*changes: Change, events: list[Event] | None = None) -> Answer:
    past = past_at(events or run(JOBS))
    return ask(
        past.state, changes, now=AT, limits=FEW, policies=past.policies, learner=past.learner
    )


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


def test_from_the_true_future_the_run_comes_out_to_the_second() -> None:
    """The default policy goes on with all that it remembers, and decides what it then did."""
    jobs = load("generated:jobs=24,span_hours=1.5", seed=4)
    events = run(jobs, "shockwave")
    at = 20.5 * ROUND
    past = past_at(events, at)
    present = Present.of(past.state, at)
    coming = [job for job in jobs if job.spec.arrival_seconds > at - ROUND / 2]
    lives = {job.spec.id: job for job in jobs if job.spec.id in present.watched}
    rolled = roll(present, Future(lives, tuple(coming)), [], apply=False, policies=past.policies)
    came = finishes(events)
    assert len(rolled.finish) > 5
    assert coming
    assert rolled.finish == pytest.approx({job: came[job] for job in present.watched})


def test_jobs_of_unknown_length_are_counted() -> None:
    unknown = replace(EXTRA, epoch_seconds=(float("nan"),))
    assert asked(ExtraJob(unknown)).guessed == 1
    assert asked(ExtraJob(EXTRA)).guessed == 0


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
    answer = asked(TenantWeight("b", 8.0), events=run(CROWD, "gavel"))
    assert later(answer, "b") < min(later(answer, "a"), 0.0)


CROWD = [static(f"{t}{n}", 0, 4, 40, t) for n in range(3) for t in "ab"]


def later(answer: Answer, tenant: str) -> float:
    """By how much the tenant's jobs finish later in the mean."""
    moved = [effect.later_seconds for effect in answer.effects if effect.job[0] == tenant]
    return float(np.mean([by.middle for by in moved if by is not None]))


def test_declared_tenants_get_what_they_would_be_promised() -> None:
    """Under a policy that knows no weights: the tenants' layer hands out the GPUs."""
    events = run(CROWD, "fifo", tenants=[Tenant("a"), Tenant("b")])
    heavier = asked(TenantWeight("b", 8.0), events=events)
    assert later(heavier, "b") < min(later(heavier, "a"), 0.0)
    first = asked(TenantTerms(Tenant("b", guaranteed=8)), events=events)
    assert later(first, "b") < min(later(first, "a"), 0.0)


def typed(name: str, epochs: int = 40) -> TraceJob:
    """A job that is three times as fast on an A100, and with two GPUs nearly twice as fast."""
    spec = JobSpec(name, 0.0, 1, epochs, (32,), (90.0,), gpu_counts=(1, 2), model="m")
    seconds = {"T4": {1: 90.0, 2: 50.0}, "A100": {1: 30.0, 2: 17.0}}
    by_type = {
        gpu_type: {gpus: (each,) * epochs for gpus, each in counts.items()}
        for gpu_type, counts in seconds.items()
    }
    return TraceJob(spec, (Regime(32, epochs, 90.0),), speeds=Speeds(by_type))


TYPED = run(
    [typed(f"j{number}") for number in range(6)],
    "shockwave",
    Cluster((Node("n0", 2, "T4"), Node("n1", 2, "A100"))),
)


def test_more_gpus_of_the_faster_type_bring_more() -> None:
    def earlier(gpu_type: str) -> float:
        mean = figure(
            asked(MoreGpus(2, gpu_type=gpu_type), events=TYPED), "mean_jct_seconds"
        ).mean_difference
        assert mean is not None
        return -mean

    assert earlier("A100") > max(earlier("T4"), ROUND)


def test_an_elastic_job_may_be_asked_about_and_needs_a_type_that_is_there() -> None:
    extra = replace(typed("extra", 10).spec, arrival_seconds=AT)
    answer = asked(ExtraJob(extra), events=TYPED)
    finish = answer.effects[0].finish_after
    assert finish is not None
    assert AT + 10 * 17.0 <= finish.middle <= AT + 3600.0
    with pytest.raises(InputError, match="no GPUs of these types"):
        asked(ExtraJob(replace(extra, gpu_types=("H100",))), events=TYPED)
    fast = asked(
        ExtraJob(replace(extra, gpu_types=("H100",))), MoreGpus(2, gpu_type="H100"), events=TYPED
    )
    assert fast.effects[0].finish_after is not None


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (MoreGpus(0), "gpus"),
        (DrainNode("n9", AT), "drain"),
        (TenantWeight("nobody", 2.0), "tenant"),
        (TenantWeight("a", 0.0), "weight"),
        (TenantTerms(Tenant("a", weight=0.0)), "tenant a, weight"),
        (TenantTerms(Tenant("nobody", weight=2.0)), "tenant"),
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

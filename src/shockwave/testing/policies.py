"""What every policy must do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from shockwave.engine.doubtful import are_doubtful
from shockwave.engine.retry import Retries
from shockwave.engine.state import SchedulerState
from shockwave.executors.faults import (
    Fault,
    JobCrash,
    JobNeverStarts,
    NodeFailure,
    NodeRecovery,
)
from shockwave.executors.simulation import TraceTruth, by_arrival, simulate
from shockwave.model.cluster import Cluster, Node
from shockwave.model.events import (
    Event,
    JobFailed,
    JobFinished,
    JobStopped,
    JobSubmitted,
    RoundDecided,
    Starts,
    StopReason,
)
from shockwave.model.job import JobSpec, Preemptible, TraceJob
from shockwave.model.tenants import Tenant
from shockwave.model.view import Floats, Ints, View
from shockwave.policies.base import Decision, Policy
from shockwave.predict import registry as predictors
from shockwave.predict.base import Forecast, Predictor
from shockwave.testing.workloads import alter_future, random_jobs

_SEEDS = range(2)
_INSTANT_SECONDS = 1e-6  # rounding apart
_PATIENCE_SECONDS = 600.0  # of a job that could not be started, until it is its turn
_RETRIES = Retries(
    most_failed_starts=6,
    first_back_off_seconds=30.0,
    longest_back_off_seconds=_PATIENCE_SECONDS,
)
_FAULTS: list[Fault] = [
    NodeFailure(600.0, "n0"),
    JobCrash(1500.0, "job-1"),
    JobCrash(1900.0, "job-2"),
    NodeRecovery(4000.0, Node("n0", 4)),
    NodeRecovery(5000.0, Node("n2", 4)),
    NodeFailure(7000.0, "n1"),
]


class PolicyContract(ABC):
    """Subclass it and say how to make the policy."""

    cluster = Cluster.uniform(8, gpus_per_node=4)

    @abstractmethod
    def make(self) -> Policy:
        """A fresh policy."""

    def predictor(self, jobs: list[TraceJob]) -> Predictor:
        return predictors.create(self.make().predictor, truth=TraceTruth(jobs))

    @pytest.mark.parametrize("seed", _SEEDS)
    def test_every_job_finishes(self, seed: int) -> None:
        jobs = random_jobs(seed)
        events = self._run(jobs)
        assert {e.job for e in events if isinstance(e, JobFinished)} == {j.spec.id for j in jobs}

    @pytest.mark.parametrize("seed", _SEEDS)
    def test_no_gpu_idles_while_a_waiting_job_fits(self, seed: int) -> None:
        def check(view: View, forecast: Forecast, decision: Decision) -> None:
            waiting = np.ones(len(view), dtype=np.bool_)
            waiting[decision.run] = False
            free = view.gpus_total - int(view.gpus[decision.run].sum())
            assert free >= 0, f"round {view.round}: more GPUs sold than there are"
            fits = view.handle[waiting & (view.gpus <= free)]
            assert len(fits) == 0, f"round {view.round}: {free} GPUs idle, jobs {fits} wait"

        self._run(random_jobs(seed, count=20), observers=(check,))

    @pytest.mark.parametrize("seed", _SEEDS)
    def test_decisions_do_not_depend_on_the_future(self, seed: int) -> None:
        self.check_causality(seed, cut_share=float(np.random.default_rng(seed).random()))

    def check_causality(self, seed: int, cut_share: float) -> None:
        """Alter the future after some round: every decision up to it stays the same.

        ``cut_share`` of the rounds of a random workload come before the cut.
        """
        jobs = by_arrival(random_jobs(seed, count=16))
        if self.predictor(jobs).clairvoyant:
            pytest.skip("a clairvoyant policy is a bound, not a scheduler")
        rng = np.random.default_rng(seed)
        seen: list[tuple[int, bytes, Ints]] = []

        def record(view: View, forecast: Forecast, decision: Decision) -> None:
            known = np.full(len(jobs), -1)  # epochs whose configuration was seen
            begun = view.received_seconds > 0
            known[view.handle] = np.where(begun, np.floor(view.epochs_done + 1e-6) + 1, 0)
            seen.append((view.round, view.handle[decision.run].tobytes(), known))

        self._run(jobs, observers=(record,))
        original = list(seen)
        cut, _, known = original[min(int(cut_share * len(original)), len(original) - 1)]
        altered = [
            alter_future(job, max(int(known[handle]), 0), rng)
            if known[handle] >= 0 or job.spec.arrival_seconds > cut * 120
            else job
            for handle, job in enumerate(jobs)
        ]
        seen.clear()
        self._run(altered, observers=(record,))
        before = [(number, chosen) for number, chosen, _ in original if number <= cut]
        again = [(number, chosen) for number, chosen, _ in seen if number <= cut]
        assert again == before

    @pytest.mark.parametrize("seed", _SEEDS)
    def test_the_same_run_twice_gives_the_same_events(self, seed: int) -> None:
        first, second = (
            [_without_wall_clock(event) for event in self._run(random_jobs(seed))] for _ in range(2)
        )
        assert first == second

    def test_survives_nodes_that_come_and_go_and_jobs_that_crash(self) -> None:
        jobs = random_jobs(3, count=20)
        events = self._run(jobs, faults=_FAULTS)
        assert sum(isinstance(event, JobFinished) for event in events) == len(jobs)

    @pytest.mark.parametrize("seed", _SEEDS)
    def test_a_workload_that_comes_a_year_later_is_scheduled_a_year_later(self, seed: int) -> None:
        rounds = 365 * 720
        later = _changed(
            random_jobs(seed, count=20),
            lambda job: {"arrival_seconds": job.arrival_seconds + 120.0 * rounds},
        )
        self._assert_same_schedule(later, random_jobs(seed, count=20), rounds_later=rounds)

    @pytest.mark.parametrize("seed", _SEEDS)
    def test_names_of_jobs_do_not_matter(self, seed: int) -> None:
        # The first becomes the last in the order of letters.
        renamed = _changed(
            random_jobs(seed, count=20), lambda job: {"id": f"{1000 - int(job.id[4:]):04}"}
        )
        self._assert_same_schedule(renamed, random_jobs(seed, count=20))

    @pytest.mark.parametrize("seed", _SEEDS)
    def test_weights_matter_only_relative_to_one_another(self, seed: int) -> None:
        # By a power of two, so that no tie is decided by rounding.
        heavier = _changed(random_jobs(seed, count=20), lambda job: {"weight": 16 * job.weight})
        self._assert_same_schedule(heavier, random_jobs(seed, count=20))

    def test_one_job_alone_runs_at_once(self) -> None:
        job = random_jobs(0, count=1)
        events = self._run(job)
        finish = next(event.time for event in events if isinstance(event, JobFinished))
        started = np.ceil(job[0].spec.arrival_seconds / 120) * 120
        assert finish == pytest.approx(started + 20 + job[0].exclusive_seconds)

    def _assert_same_schedule(
        self, jobs: list[TraceJob], others: list[TraceJob], rounds_later: int = 0
    ) -> None:
        schedule, finishes = self._schedule(jobs)
        expected, expected_finishes = self._schedule(others)
        assert len(schedule) == len(expected), f"{len(schedule)} decisions, not {len(expected)}"
        for (number, chosen), (other_number, other_chosen) in zip(schedule, expected, strict=True):
            assert number == other_number + rounds_later, f"round {number}, not {other_number}"
            assert chosen == other_chosen, f"round {number}: {chosen} run, not {other_chosen}"
        assert finishes - 120.0 * rounds_later == pytest.approx(expected_finishes)

    def _schedule(self, jobs: list[TraceJob]) -> tuple[list[tuple[int, list[int]]], Floats]:
        """(round, handles that run) of every decision, and the finish of every handle."""
        chosen: list[tuple[int, list[int]]] = []

        def record(view: View, forecast: Forecast, decision: Decision) -> None:
            chosen.append((view.round, view.handle[decision.run].tolist()))

        events = self._run(jobs, observers=(record,))
        finish = {event.job: event.time for event in events if isinstance(event, JobFinished)}
        return chosen, np.array([finish[job.spec.id] for job in by_arrival(jobs)])

    # Where jobs start as soon as GPUs are free.

    @pytest.mark.parametrize("seed", _SEEDS)
    def test_at_once_no_gpu_idles_at_any_time_while_a_waiting_job_fits(self, seed: int) -> None:
        jobs = random_jobs(seed, count=20)
        events = self._run(jobs, starts=Starts.IMMEDIATE)
        assert {e.job for e in events if isinstance(e, JobFinished)} == {j.spec.id for j in jobs}
        self._check_no_gpu_idles(events)
        for event in events:
            if isinstance(event, JobSubmitted):
                assert event.time == event.job.arrival_seconds

    def test_at_once_holds_with_nodes_that_come_and_go_and_jobs_that_crash(self) -> None:
        events = self._run(random_jobs(3, count=20), faults=_FAULTS, starts=Starts.IMMEDIATE)
        assert sum(isinstance(event, JobFinished) for event in events) == 20
        self._check_no_gpu_idles(events)

    @pytest.mark.parametrize("seed", _SEEDS)
    def test_at_once_nobody_is_preempted_between_rounds(self, seed: int) -> None:
        events = self._run(random_jobs(seed, count=20), starts=Starts.IMMEDIATE)
        rounds = {event.time for event in events if isinstance(event, RoundDecided)}
        assert {event.time for event in events if isinstance(event, JobStopped)} <= rounds

    # Jobs that would lose their work.

    @pytest.mark.parametrize("starts", Starts)
    @pytest.mark.parametrize("seed", _SEEDS)
    def test_jobs_that_must_stay_are_never_stopped(self, seed: int, starts: Starts) -> None:
        rng = np.random.default_rng(seed)
        choices = list(Preemptible)
        jobs = [
            replace(job, spec=replace(job.spec, preemptible=choices[int(rng.integers(3))]))
            for job in random_jobs(seed, count=20)
        ]
        # Simulated jobs tell of no checkpoints: those of WHEN_SAVED never have one.
        staying = {j.spec.id for j in jobs if j.spec.preemptible is not Preemptible.ALWAYS}
        events = self._run(jobs, starts=starts)
        assert not {event.job for event in events if isinstance(event, JobStopped)} & staying
        assert {e.job for e in events if isinstance(e, JobFinished)} == {j.spec.id for j in jobs}
        instants = None if starts is Starts.IMMEDIATE else RoundDecided
        self._check_no_gpu_idles(events, at=instants)

    # Tenants.

    @pytest.mark.parametrize("starts", Starts)
    def test_a_tenant_has_what_is_guaranteed_and_never_more_than_its_most(
        self, starts: Starts
    ) -> None:
        jobs = random_jobs(6, count=16, largest_gang=3)
        red, blue = Tenant("red", most=3), Tenant("blue", weight=0.1, guaranteed=4)
        events = self._run(jobs, starts=starts, tenants=[red, blue])
        assert sum(isinstance(event, JobFinished) for event in events) == len(jobs)
        state, crowded = SchedulerState(), 0
        for event in events:
            state.apply(event)
            held = {tenant.name: 0 for tenant in (red, blue)}
            for handle in state.running().tolist():
                held[state.table.spec(handle).tenant] += state.table.spec(handle).gpus
            assert held["red"] <= 3, f"{event.time} s: red holds {held['red']} GPUs"
            if isinstance(event, RoundDecided):
                eligible = state.eligible(event.time)
                waiting = eligible[~np.isin(eligible, state.running())].tolist()
                specs = [state.table.spec(handle) for handle in waiting]
                owed = [s.id for s in specs if s.tenant == "blue" and held["blue"] + s.gpus <= 4]
                assert not owed, f"{event.time} s: blue holds {held['blue']}, {owed} wait"
                crowded += any(spec.tenant == "red" for spec in specs)
        assert crowded, "nothing was limited"

    # Jobs that never start.

    @pytest.mark.parametrize("starts", Starts)
    def test_a_job_that_never_starts_delays_nobody_for_good(self, starts: Starts) -> None:
        jobs = random_jobs(5, count=16)
        names = {job.spec.id for job in jobs}
        stuck = jobs[2].spec.id
        events = self._run(
            jobs,
            faults=[JobNeverStarts(0.0, stuck, start_seconds=60.0)],
            starts=starts,
            retries=_RETRIES,
        )
        assert {e.job for e in events if isinstance(e, JobFinished)} == names - {stuck}
        (failed,) = [event for event in events if isinstance(event, JobFailed)]
        assert failed.job == stuck
        stops = [e for e in events if isinstance(e, JobStopped) and e.job == stuck]
        assert sum(stop.reason is StopReason.NOT_STARTED for stop in stops) == 6
        instants = None if starts is Starts.IMMEDIATE else RoundDecided
        self._check_no_gpu_idles(events, at=instants)
        self._check_nobody_waits_for(stuck, events)

    def test_a_job_that_could_not_start_has_a_fair_turn_on_a_full_cluster(self) -> None:
        jobs = by_arrival(random_jobs(5, count=12, largest_gang=1))
        stuck, handle = jobs[4].spec.id, 4
        asked: list[float] = []  # when it was decided on beside others

        def note(view: View, *_: object) -> None:
            if handle in view.handle and len(view) > 1:
                asked.append(view.now)

        events = self._run(
            jobs,
            faults=[JobNeverStarts(0.0, stuck, start_seconds=60.0)],
            observers=(note,),
            retries=_RETRIES,
            cluster=Cluster.uniform(1, gpus_per_node=2),  # there is always somebody for a GPU
        )
        failed = next(e.time for e in events if isinstance(e, JobStopped) and e.job == stuck)
        assert any(time > failed for time in asked)

    def _check_nobody_waits_for(self, stuck: str, events: Sequence[Event]) -> None:
        """From its second try on, a job that never starts has what nobody else can use.

        Unless it has waited for so long that it is its turn as it is that of any other.
        """
        state, handle = SchedulerState(), None
        for event in events:
            state.apply(event)
            if isinstance(event, JobSubmitted) and event.job.id == stuck:
                handle = state.table.find(stuck)
            if handle is None or state.table.find(stuck) is None:
                continue
            (doubtful,) = are_doubtful(
                state.table, np.array([handle]), event.time, _PATIENCE_SECONDS
            )
            if isinstance(event, RoundDecided) and doubtful and state.is_running(handle):
                eligible = state.eligible(event.time)
                waiting = eligible[~np.isin(eligible, state.running())]
                room = state.placer.room() + state.table.spec(handle).gpus
                fits = waiting[state.table.gpus[state.table.rows(waiting)] <= room]
                assert len(fits) == 0, f"{event.time} s: jobs {fits} wait for one that cannot start"

    def _check_no_gpu_idles(
        self, events: Sequence[Event], at: type[RoundDecided] | None = None
    ) -> None:
        """At any time, or when a round was decided, as the journal has it."""
        state = SchedulerState()
        for event, after in zip(events, [*events[1:], None], strict=True):
            state.apply(event)
            settled = after is None or after.time > event.time + _INSTANT_SECONDS
            if settled if at is None else isinstance(event, at):
                eligible = state.eligible(event.time)
                waiting = eligible[~np.isin(eligible, state.running())]
                sizes = state.table.gpus[state.table.rows(waiting)]
                room = state.placer.room()
                fits = waiting[sizes <= room]
                assert len(fits) == 0, f"{event.time} s: {room} GPUs idle, jobs {fits} wait"

    def _run(
        self,
        jobs: list[TraceJob],
        *,
        faults: list[Fault] | None = None,
        observers: tuple[object, ...] = (),
        starts: Starts = Starts.ROUNDS,
        retries: Retries | None = None,
        cluster: Cluster | None = None,
        tenants: Sequence[Tenant] = (),
    ) -> list[Event]:
        return simulate(
            jobs,
            cluster or self.cluster,
            self.make(),
            self.predictor(jobs),
            faults=faults or (),
            observers=observers,  # type: ignore[arg-type]
            starts=starts,
            retries=retries,
            tenants=tenants,
        )


def _changed(jobs: list[TraceJob], fields: Callable[[JobSpec], dict[str, Any]]) -> list[TraceJob]:
    """The same jobs with other fields in what they declare."""
    return [replace(job, spec=replace(job.spec, **fields(job.spec))) for job in jobs]


def _without_wall_clock(event: Event) -> Event:
    return replace(event, plan_seconds=0.0) if isinstance(event, RoundDecided) else event

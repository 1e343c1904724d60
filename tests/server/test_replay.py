"""Replaying a run: a simulated one comes out the same, a live one is measured against it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import typer
from tests.server.services import all_jobs, config, running, submit, tiny, wait_for
from typer.testing import CliRunner

from shockwave.cli.replay import replay as replay_command
from shockwave.engine.journal import FileJournal
from shockwave.executors.faults import (
    Fault,
    JobCrash,
    JobFailure,
    NodeFailure,
    NodeOccupation,
    NodeRecovery,
)
from shockwave.executors.replayed import EndSeconds, LaunchSeconds
from shockwave.executors.simulation import TraceTruth, simulate
from shockwave.measure.replay import recorded_run, replay
from shockwave.model.cluster import Cluster, Node
from shockwave.model.errors import InputError, JournalError
from shockwave.model.events import (
    Event,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
    RegimeChanged,
    RunStarted,
    Starts,
    StopReason,
)
from shockwave.model.job import Adaptation, JobSpec, Preemptible, Regime
from shockwave.model.progress import Progressed
from shockwave.policies import registry as policies
from shockwave.predict import registry as predictors
from shockwave.traces import load

RECIPE = "generated:jobs=30,span_hours=0.5"
CLUSTER = Cluster.uniform(8, 4)


def simulated(policy: str, faults: tuple[Fault, ...] = ()) -> list[Event]:
    jobs = load(RECIPE, seed=3)
    chosen = policies.create(policy, seed=3)
    predictor = predictors.create(chosen.predictor, truth=TraceTruth(jobs))
    return simulate(jobs, CLUSTER, chosen, predictor, faults=faults, trace=RECIPE, seed=3)


@pytest.mark.parametrize("policy", ["las", "srtf", "themis", "fifo"])
def test_a_simulated_run_replays_to_exactly_the_same(policy: str) -> None:
    events = simulated(policy)
    result = replay(events)
    for figure in result.figures:
        assert figure.live is not None
        assert figure.simulated == figure.live, figure
        assert figure.relative_difference == 0.0
    assert result.simulated.jobs.finish.tolist() == result.live.jobs.finish.tolist()
    assert result.policy == policy


def test_faults_are_replayed_too() -> None:
    jobs = [event.job.id for event in simulated("las") if isinstance(event, JobSubmitted)]
    node = CLUSTER.nodes[1]
    faults = (
        JobCrash(900.0, jobs[0]),
        NodeFailure(2000.0, node.id),
        JobFailure(2500.0, jobs[4], "out of memory"),
        NodeRecovery(4000.0, node),
    )
    result = replay(simulated("las", faults))
    assert len(result.run.faults) >= 3
    assert [figure.simulated for figure in result.figures] == [
        figure.live for figure in result.figures
    ]
    assert int(result.simulated.jobs.finished.sum()) == len(jobs) - 1


def test_what_others_held_is_held_again() -> None:
    node = CLUSTER.nodes[1]
    faults = (
        NodeOccupation(500.0, node.id, 3),
        NodeFailure(2000.0, node.id),
        NodeRecovery(3000.0, node),
        NodeOccupation(3500.0, node.id, 1),
        NodeOccupation(6000.0, node.id, 0),
    )
    result = replay(simulated("las", faults))
    assert result.run.faults == faults
    assert [figure.simulated for figure in result.figures] == [
        figure.live for figure in result.figures
    ]
    assert result.simulated.capacity_gpus.tolist() == [8, 5, 4, 8, 7, 8]
    alone = replay(simulated("las"))
    assert alone.simulated.jobs.finish.tolist() != result.simulated.jobs.finish.tolist()


# What a live journal tells of a job.

SPEC = JobSpec("a", 5.0, 1, 10, (32, 64), (math.nan, math.nan), adaptation=Adaptation.GNS)
STARTED = RunStarted(
    0.0,
    policy="fifo",
    predictor="reactive",
    trace="live",
    nodes=Cluster.uniform(1).nodes,
    round_seconds=10.0,
    restart_seconds=2.0,
    seed=0,
    version="0",
    started_unix=1e9,
)


def progressed(time: float, epochs_done: float, index: int, *seconds: float) -> Progressed:
    """Of the only job: seconds per epoch, productive and held."""
    epoch_seconds, productive, held = (np.array([value]) for value in seconds)
    handle, epochs, configuration = np.array([0]), np.array([epochs_done]), np.array([index])
    return Progressed(time, handle, epochs, configuration, epoch_seconds, productive, held)


def live(*more: Event) -> list[Event]:
    return [
        STARTED,
        JobSubmitted(10.0, SPEC),
        JobStarted(10.0, "a", (("n0", (0,)),), 1),
        RegimeChanged(11.0, "a", 0, 32),
        progressed(20.0, 4.0, 0, 2.0, 8.0, 10.0),
        *more,
    ]


def test_regimes_and_epoch_times_are_those_that_were_measured() -> None:
    events = live(
        RegimeChanged(20.0, "a", 4, 64),
        progressed(30.0, 10.0, 1, 1.0, 6.0, 7.0),
        JobFinished(27.0, "a", 14.0),
    )
    run = recorded_run(events)
    assert run.jobs[0].regimes == (Regime(32, 4, 2.0), Regime(64, 6, 1.0))
    assert run.jobs[0].spec is SPEC
    assert run.overheads.start_seconds == 1.0  # from its start to its first word


def test_the_cost_of_a_start_is_not_fitted_to_the_result() -> None:
    """Else the simulated completion times would agree with the live ones by construction."""
    costs = {
        recorded_run(live(JobFinished(finish, "a", work))).overheads.start_seconds
        for finish, work in ((27.0, 14.0), (95.0, 14.0), (95.0, 80.0))
    }
    assert costs == {1.0}


def test_epoch_times_add_up_to_what_the_job_took() -> None:
    events = live(RegimeChanged(20.0, "a", 4, 64), JobFinished(40.0, "a", 26.0))
    assert recorded_run(events).jobs[0].regimes == (Regime(32, 4, 2.0), Regime(64, 6, 3.0))
    events = live(progressed(20.0, 10.0, 0, 3.0, 18.0, 20.0), JobFinished(31.0, "a", 52.0))
    regimes = recorded_run(events).jobs[0].regimes
    assert sum(regime.epochs for regime in regimes) == 10
    assert sum(regime.seconds for regime in regimes) == pytest.approx(52.0)


def test_epochs_that_were_slow_are_slow_in_the_replay_too() -> None:
    """Round by round; and a regime that passed between two rounds took what its news say."""
    events = live(
        progressed(30.0, 6.0, 0, 2.5, 10.0, 10.0),
        RegimeChanged(30.0, "a", 6, 64),
        RegimeChanged(34.0, "a", 8, 32),
        progressed(40.0, 10.0, 0, 2.0, 8.0, 10.0),
        JobFinished(38.0, "a", 26.0),
    )
    first, slow, between, last = recorded_run(events).jobs[0].regimes
    assert (first, slow) == (Regime(32, 4, 2.0), Regime(32, 2, 5.0))
    assert (between.configuration, between.epochs) == (64, 2)
    assert between.epoch_seconds == pytest.approx(2.0, rel=0.05)
    assert between.seconds + last.seconds == pytest.approx(8.0)


def test_what_the_cluster_added_is_added_again() -> None:
    """A start, an end and its notice are as long as they were, and the next job waits for them."""
    second = replace(SPEC, id="b", arrival_seconds=6.0)
    ended = Progressed(
        36.0, np.array([0]), np.array([10.0]), np.array([0]), np.array([2.0]), np.array([12.0]),
        np.array([16.0]), restart_seconds=np.array([0.75]), silent_seconds=np.array([0.5]),
    )  # fmt: skip
    events: list[Event] = [
        replace(STARTED, starts=Starts.IMMEDIATE),
        JobSubmitted(5.0, SPEC),
        JobStarted(5.0, "a", (("n0", (0,)),), 1),
        JobSubmitted(6.0, second),
        RegimeChanged(6.0, "a", 0, 32),
        progressed(20.0, 4.0, 0, 2.0, 8.0, 14.75),
        ended,
        JobFinished(34.5, "a", 20.0),
        JobStarted(36.0, "b", (("n0", (0,)),), 1),
        RegimeChanged(39.0, "b", 0, 32),
        JobFinished(60.0, "b", 20.0),
    ]
    run = recorded_run(events)
    assert run.overheads.launches["a", 1] == LaunchSeconds(order=0.25, start=0.75)
    assert run.overheads.launches["b", 1] == LaunchSeconds(start=3.0)
    assert run.overheads.ends == {"a": EndSeconds(leave=0.5, notice=1.5)}
    simulated = replay(events).simulated
    # 5 + 1 to start + 20 of work + 0.5 to leave; noticed 1.5 later, then b: 3 + 20, and leaves.
    assert simulated.jobs.finish.tolist() == [26.5, 51.5]
    assert simulated.leases.start.tolist() == [5.0, 28.0]


def with_start(event: Progressed, start_seconds: float) -> Progressed:
    return replace(event, restart_seconds=np.array([start_seconds]))


def test_when_a_look_ended_follows_from_what_jobs_held_by_then() -> None:
    """Carried out at 10.25. What ends during a look is told as if it had been before it."""
    events = [
        *live()[:-1],
        with_start(progressed(20.0, 4.0, 0, 2.0, 8.0, 9.95), 0.75),
        with_start(progressed(30.0, 8.0, 0, 2.0, 8.0, 10.15), 0.75),
        with_start(progressed(33.0, 10.0, 0, 2.0, 4.0, 2.75), 0.75),
        JobFinished(33.0, "a", 20.0),
    ]
    overheads = recorded_run(events).overheads
    assert overheads.looks == pytest.approx({20.0: 0.2, 30.0: 0.35})
    assert overheads.look == pytest.approx(0.275)
    assert overheads.ends["a"].notice == pytest.approx(-0.1)
    assert list(overheads.looked) == [10.0, 20.0, 30.0, 33.0]


def test_a_later_launch_was_carried_out_when_the_looks_say() -> None:
    again = JobStarted(25.0, "a", (("n0", (0,)),), 2)
    other = replace(SPEC, id="b")
    both = Progressed(
        40.0, np.array([0, 1]), np.array([6.0, 4.0]), np.array([0, 0]), np.full(2, 2.0),
        np.array([4.0, 8.0]), np.array([14.5, 9.2]), restart_seconds=np.array([1.5, 1.0]),
    )  # fmt: skip
    events = live(
        JobStopped(20.0, "a", 4.0, StopReason.CRASHED),
        again,
        JobSubmitted(30.0, other),
        JobStarted(30.0, "b", (("n0", (1,)),), 1),
        RegimeChanged(32.0, "b", 0, 32),  # so it was carried out at 31, and the look ended at 40.2
        both,
        with_start(progressed(50.0, 10.0, 0, 2.0, 8.0, 10.0), 1.5),
    )
    assert recorded_run(events).overheads.launches["a", 2].order == pytest.approx(0.7)


def test_a_job_that_came_while_the_scheduler_was_busy_is_taken_in_with_the_next() -> None:
    """Two jobs, one decision: else there would be one more in the replay."""
    second = replace(SPEC, id="b", arrival_seconds=5.6)
    events: list[Event] = [
        replace(STARTED, starts=Starts.IMMEDIATE, nodes=Cluster.uniform(2).nodes),
        JobSubmitted(5.0, SPEC),
        JobSubmitted(5.6, second),
        JobStarted(5.9, "a", (("n0", (0,)),), 1),
        JobStarted(5.9, "b", (("n1", (0,)),), 1),
        RegimeChanged(7.0, "a", 0, 32),
        RegimeChanged(7.0, "b", 0, 32),
        progressed(28.5, 10.0, 0, 2.0, 20.0, 22.0),
        JobFinished(27.0, "a", 20.0),
        JobFinished(28.5, "b", 20.0),
    ]
    assert recorded_run(events).overheads.taken_in == {"a": 5.9, "b": 5.9}
    assert replay(events).simulated.leases.start.tolist() == [5.9, 5.9]
    waiting = JobSubmitted(5.3, replace(SPEC, id="c", arrival_seconds=5.3, gpus=2))
    later = JobSubmitted(8.0, replace(SPEC, id="d", arrival_seconds=8.0))
    taken_in = recorded_run([*events[:2], waiting, *events[2:], later]).overheads.taken_in
    assert taken_in == {"a": 5.9, "c": 5.9, "b": 5.9}


def test_an_epoch_took_longer_than_it_had_been_under_way() -> None:
    """Or the replay would see it done in a round in which it was not."""
    events = [
        *live()[:-1],
        with_start(progressed(20.0, 4.0, 0, 2.0, 8.0, 12.5), 1.0),
        with_start(progressed(40.0, 10.0, 0, 2.0, 12.0, 20.0), 1.0),
        JobFinished(38.0, "a", 20.0),
    ]
    (run,) = recorded_run(events).jobs
    before, slow, after = run.regimes
    assert (before, slow.epochs, after.epochs) == (Regime(32, 4, 2.0), 1, 5)
    assert slow.seconds > 3.5
    assert slow.seconds + after.seconds == pytest.approx(12.0)


def test_an_epoch_that_was_only_just_done_is_done_in_the_replay_too() -> None:
    events = [
        *live()[:-1],
        with_start(progressed(20.0, 4.0, 0, 2.0, 8.0, 8.995), 1.0),
        with_start(progressed(40.0, 10.0, 0, 2.0, 12.0, 20.0), 1.0),
        JobFinished(38.0, "a", 20.0),
    ]
    (run,) = recorded_run(events).jobs
    times = [regime.epoch_seconds for regime in run.regimes for _ in range(regime.epochs)]
    assert sum(times[:4]) < 7.995
    assert sum(times) == pytest.approx(20.0)


def test_regimes_that_a_crash_undid_do_not_count() -> None:
    events = live(
        RegimeChanged(18.0, "a", 4, 64),
        JobStopped(20.0, "a", 3.0, StopReason.CRASHED, "exit code 1"),
        JobStarted(20.0, "a", (("n0", (0,)),), 2),
        RegimeChanged(21.0, "a", 3, 32),
        RegimeChanged(28.0, "a", 6, 64),
        JobFinished(40.0, "a", 16.0),
    )
    run = recorded_run(events)
    assert [(r.configuration, r.epochs) for r in run.jobs[0].regimes] == [(32, 6), (64, 4)]
    assert run.faults == (JobCrash(20.0, "a"),)


def test_a_job_that_did_not_end_is_given_up_when_the_journal_ends() -> None:
    run = recorded_run(live())
    assert run.faults == (JobFailure(20.0, "a", "the journal ends"),)
    assert run.jobs[0].regimes == (Regime(32, 10, 2.0),)


def test_a_journal_without_work_or_beginning_is_refused() -> None:
    with pytest.raises(InputError, match="no job"):
        replay([STARTED, JobSubmitted(10.0, SPEC)])
    with pytest.raises(JournalError, match="run-started"):
        replay([JobSubmitted(10.0, SPEC)])
    with pytest.raises(JournalError, match="never submitted"):
        replay([STARTED, RegimeChanged(1.0, "b", 0, 32)])


# The command.

runner = CliRunner()
app = typer.Typer()
app.command()(replay_command)


def test_a_live_run_is_compared_with_its_simulation(tmp_path: Path) -> None:
    with running(config(tmp_path, round_seconds=0.5)) as service:
        for _ in range(3):
            submit(service, tiny(epochs=4, seconds=0.1))
        wait_for(lambda: all(job.state == "finished" for job in all_jobs(service)), "the jobs")
        # Beside the scheduler that still runs.
        done = runner.invoke(app, [str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert (document["policy"], document["jobs"], document["gpus"]) == ("las", 3, 2)
    for figure in document["figures"].values():
        assert figure["live"] > 0
        assert figure["simulated"] > 0
        assert math.isfinite(figure["relative_difference"])


def test_a_journal_file_is_replayed_under_another_policy(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with FileJournal(path) as file:
        file.write(simulated("las"))
    done = runner.invoke(app, [str(path), "--policy", "fifo"])
    assert done.exit_code == 0, done.output
    assert "fifo fed by reactive" in done.output
    assert "mean JCT" in done.output


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [(None, 2, "there is no journal"), ("{oops", 2, "line 1: not JSON"), ("", 1, "run-started")],
)
def test_a_bad_journal_is_one_line(
    tmp_path: Path, content: str | None, code: int, said: str
) -> None:
    path = tmp_path / "journal.jsonl"
    if content is not None:
        path.write_text(content)
    done = runner.invoke(app, [str(path)])
    assert done.exit_code == code
    assert said in " ".join(done.output.split())


@pytest.mark.parametrize("saves", [True, False])
def test_a_job_that_saves_may_be_stopped_in_the_replay_too(saves: bool) -> None:
    job = JobSpec(
        "a", 0.0, 1, 4, (32,), (1.0,), Adaptation.STATIC, preemptible=Preemptible.WHEN_SAVED
    )
    start = RunStarted(
        0.0, policy="las", predictor="reactive", trace="live", nodes=(Node("n0", 1),),
        round_seconds=5.0, restart_seconds=1.0, seed=0, version="", started_unix=0.0,
    )  # fmt: skip
    one = np.array([1.0])
    progress = Progressed(
        5.0, handle=np.array([0]), epochs_done=one, configuration=np.array([0]), epoch_seconds=one,
        productive_seconds=one, held_seconds=one, unsaved_seconds=one if saves else one * np.nan,
    )  # fmt: skip
    run = recorded_run([start, JobSubmitted(0.0, job), progress])
    (replayed,) = run.jobs
    expected = Preemptible.WHEN_SAVED if saves else Preemptible.NEVER
    assert replayed.spec.preemptible is expected

"""Real processes under a real scheduler: limits, hangs, preemption, groups, logs and figures."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import pytest
from tests.verbs.live import (
    config,
    journal,
    known,
    running,
    script,
    state_is,
    submit,
    until_over,
    wait_for,
)

from shockwave.model.events import (
    Event,
    JobFinished,
    JobSilent,
    JobStarted,
    JobStopped,
    RequeueRequested,
    StopReason,
    job_of,
)
from shockwave.server.batches import Batch
from shockwave.server.logs import Wanted, read_log
from shockwave.server.requests import Action

E = TypeVar("E", bound=Event)

# A script without a session: it counts its steps in a file that outlives it.
NINETY_STEPS = """
import os, time
path = os.path.join(os.environ["SHOCKWAVE_DIR"], "steps")
for step in range(90):
    with open(path, "a") as file:
        print(step, file=file)
    time.sleep(0.05)
"""

# Reports two epochs, and then nothing any more.
GOES_SILENT = """
import json, os, time
name = f"reports-{os.environ['SHOCKWAVE_GENERATION']}.jsonl"
with open(os.path.join(os.environ["SHOCKWAVE_DIR"], name), "a") as file:
    def say(event, epoch, **more):
        line = {"event": event, "epoch": epoch, "time": time.time(), **more}
        print(json.dumps(line), file=file, flush=True)
    say("started", 0, configuration=1)
    for epoch in (1, 2):
        time.sleep(0.1)
        say("epoch", epoch, configuration=1, seconds=0.1)
    time.sleep(600)
"""

REPORTS = """
import json, os, time
name = f"reports-{os.environ['SHOCKWAVE_GENERATION']}.jsonl"
with open(os.path.join(os.environ["SHOCKWAVE_DIR"], name), "a") as file:
    def say(event, epoch, **more):
        line = {"event": event, "epoch": epoch, "time": time.time(), **more}
        print(json.dumps(line), file=file, flush=True)
    say("started", 0, configuration=1)
    say("link", 0, name="TensorBoard", url="http://localhost:6006/")
    say("link", 0, name="bad", url="javascript:alert(1)")
    for epoch in (1, 2, 3):
        say("epoch", epoch, configuration=1, seconds=0.1, loss=1 / epoch, metrics={"top1": epoch})
    say("done", 3)
"""


def of_job(events: list[Event], kind: type[E], job: str) -> list[E]:
    return [event for event in events if isinstance(event, kind) and job_of(event) == job]


def test_a_plain_script_of_90_steps_runs_once_beside_jobs_that_would_preempt_it(
    tmp_path: Path,
) -> None:
    with running(config(tmp_path, slots=1)) as service:
        long = submit(service, script(NINETY_STEPS, epochs=90, name="long"))
        wait_for(state_is(service, long, "running"), "its start")
        reason = known(service, long).why.reason
        short = [submit(service, script("print(1)", epochs=1)) for _ in range(6)]
        assert "not preempted: it has saved nothing yet" in reason
        for job in (long, *short):
            assert until_over(service, job).state == "finished"
    steps = (tmp_path / "jobs" / long / "steps").read_text().split()
    assert steps == [str(step) for step in range(90)]
    events = journal(tmp_path)
    assert len(of_job(events, JobStarted, long)) == 1
    ends = [event.job for event in events if isinstance(event, JobFinished)]
    assert ends[0] == long  # the others had to wait for it


def test_the_same_script_is_preempted_if_it_says_that_it_may_be(tmp_path: Path) -> None:
    """What the test above would do without the protection: or it would show nothing."""
    with running(config(tmp_path, slots=1)) as service:
        long = submit(service, script(NINETY_STEPS, epochs=90, preemptible="always"))
        wait_for(state_is(service, long, "running"), "its start")
        short = submit(service, script("import time; time.sleep(0.5)"))
        until_over(service, short)
    stops = of_job(journal(tmp_path), JobStopped, long)
    assert StopReason.PREEMPTED in {stop.reason for stop in stops}


def test_a_job_is_stopped_when_its_time_is_over(tmp_path: Path) -> None:
    with running(config(tmp_path)) as service:
        job = submit(service, script("import time; time.sleep(600)", time_limit="1s"))
        record = until_over(service, job)
        assert record.state == "failed"
        assert record.why.reason == "failed: time limit: it has held its GPUs for 1 s"
        other = submit(service, script("print(1)", gpus=2))  # all GPUs are free again
        assert until_over(service, other).state == "finished"


@pytest.mark.parametrize("choice", ["nothing", "fail", "restart"])
def test_a_job_that_goes_silent_is_told_and_treated_as_it_says(tmp_path: Path, choice: str) -> None:
    settings = config(tmp_path, hang_epochs=2.0, hang_seconds=1.5, most_crashes=2)
    with running(settings) as service:
        job = submit(service, script(GOES_SILENT, epochs=9, on_hang=choice))
        if choice == "nothing":
            wait_for(lambda: known(service, job).silent_since is not None, "its silence")
            record = known(service, job)
            assert record.state == "running"
            assert "it may hang: silent since" in record.why.reason
            service.desk.act(Action.REQUEUE, [job])
            wait_for(lambda: known(service, job).starts == 2, "its second start")
            assert known(service, job).silent_since is None
            service.desk.act(Action.CANCEL, [job])
        record = until_over(service, job)
    events = journal(tmp_path)
    assert of_job(events, JobSilent, job)
    if choice == "nothing":
        assert len(of_job(events, RequeueRequested, job)) == 1
        return
    assert record.state == "failed"
    assert "it hung: it said nothing for" in record.why.reason
    assert record.starts == (1 if choice == "fail" else 2)


def test_a_job_that_reports_slowly_but_steadily_does_not_hang(tmp_path: Path) -> None:
    # An epoch is long, but it says something in between.
    talks = GOES_SILENT.replace(
        "time.sleep(600)",
        "[(say('metrics', 2, metrics={'x': 1}), time.sleep(0.2)) for _ in range(20)]",
    )
    with running(config(tmp_path, hang_epochs=2.0, hang_seconds=1.5)) as service:
        assert until_over(service, submit(service, script(talks, epochs=9))).state == "finished"
    assert not [event for event in journal(tmp_path) if isinstance(event, JobSilent)]


def test_a_group_runs_no_more_than_it_may_and_all_of_it(tmp_path: Path) -> None:
    with running(config(tmp_path, slots=4)) as service:
        common = {"command": ["sleep", "0.2"], "workdir": "/", "epochs": 1}
        batch = Batch(common=common, jobs=[{}] * 6, group="g", parallel=2)
        made, _ = service.desk.submit_many(batch, None)
        for job in made.jobs:
            assert until_over(service, job).state == "finished"
        record = service.desk.group(made.group or "")
        assert record is not None
        assert (record.jobs, record.progress) == ({"finished": 6}, 1.0)
    holding, most = 0, 0
    for event in journal(tmp_path):
        holding += isinstance(event, JobStarted) - isinstance(event, JobFinished)
        most = max(most, holding)
    assert most == 2


def test_a_job_starts_after_the_one_it_needs_and_fails_with_it(tmp_path: Path) -> None:
    with running(config(tmp_path, most_crashes=1)) as service:
        good = submit(service, script("import time; time.sleep(0.5)", name="good"))
        bad = submit(service, script("raise SystemExit(3)", name="bad"))
        after_good = submit(service, script("print(1)", after=["good"]))
        after_bad = submit(service, script("print(1)", after=[bad]))
        assert until_over(service, after_good).state == "finished"
        failed = until_over(service, after_bad)
        assert failed.why.reason == f"failed: it needs job {bad}, which did not finish"
        assert failed.starts == 0
        assert service.desk.with_details(known(service, bad)).exit_code == 3
    events = journal(tmp_path)
    (start,) = of_job(events, JobStarted, after_good)
    (end,) = of_job(events, JobFinished, good)
    assert start.time >= end.time


def test_who_is_killed_by_others_tries_again_and_not_if_it_wants_no_retries(
    tmp_path: Path,
) -> None:
    suicide = "import os; os.kill(os.getpid(), 9)"
    with running(config(tmp_path)) as service:
        once = submit(service, script(suicide, retries=0))
        assert "was killed" in until_over(service, once).why.reason
        assert known(service, once).starts == 1
        again = submit(service, script(suicide))
        wait_for(lambda: known(service, again).starts >= 3, "its third start")
        service.desk.act(Action.CANCEL, [again])


def test_logs_of_all_launches_are_read_with_a_line_between_them(tmp_path: Path) -> None:
    says = "import os; print('this is', os.environ['SHOCKWAVE_GENERATION']); raise SystemExit(1)"
    with running(config(tmp_path, most_crashes=2)) as service:
        job = submit(service, script(says))
        until_over(service, job)
        path = service.desk.log_file(job, 0)
        assert path is not None
        raw = b"".join(read_log(path, Wanted())).decode()
        lines = b"".join(read_log(path, Wanted(launches=True))).decode().splitlines()
    assert raw == "this is 1\nthis is 2\n"
    assert [line.partition(",")[0] for line in lines] == [
        "--- launch 1", "this is 1", "--- launch 2", "this is 2",
    ]  # fmt: skip


def test_figures_and_links_that_a_job_reports_are_kept(tmp_path: Path) -> None:
    with running(config(tmp_path)) as service:
        job = submit(service, script(REPORTS, epochs=3))
        record = service.desk.with_details(until_over(service, job))
        assert record.links == {"TensorBoard": "http://localhost:6006/"}
        assert record.exit_code == 0
        figures = service.desk.metrics(job).metrics
    assert [point.value for point in figures["loss"]] == [1.0, 1 / 2, 1 / 3]
    assert [(point.epoch, point.value) for point in figures["top1"]] == [(1, 1), (2, 2), (3, 3)]

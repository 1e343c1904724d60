"""The live scheduler as its doors see it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.server.services import (
    all_jobs,
    config,
    journal,
    known,
    running,
    slow,
    submit,
    tiny,
    wait_for,
)

from shockwave.executors.local.executor import LocalExecutor
from shockwave.model.errors import ExecutorError, InputError, JournalError
from shockwave.model.events import SettingsChanged
from shockwave.model.view import View
from shockwave.policies.base import Decision
from shockwave.policies.las import Las
from shockwave.predict.base import Forecast
from shockwave.server.door import Conflict
from shockwave.server.execution import site_of
from shockwave.server.service import Service


def has(service: Service, job: str, state: str) -> bool:
    return known(service, job).state == state


# Real jobs.


def test_jobs_run_share_and_finish(tmp_path: Path) -> None:
    with running(config(tmp_path)) as service:
        jobs = [submit(service, tiny(epochs=3, name=f"job-{i}")) for i in range(3)]
        wait_for(lambda: all(has(service, job, "finished") for job in jobs), "the jobs")
        for record in all_jobs(service):
            assert record.epochs_done == 3
            assert record.started is not None
            assert record.finished is not None
            assert record.submitted <= record.started < record.finished
            assert record.nodes == []
            assert record.why.reason.startswith("finished")
            assert record.why.ftf is not None
            assert record.why.ftf > 0
        log = service.desk.log_file("job-0", 0)
        assert log is not None
        assert "starts at epoch 0" in log.read_text()
        assert service.desk.log_file("job-0", 1) is None
        assert service.desk.log_file("../../etc/passwd", 0) is None
        assert service.desk.tenants()[0].finished == 3
        assert service.desk.is_ready() == (True, "")


def test_a_job_that_keeps_crashing_fails_and_shows_its_last_lines(tmp_path: Path) -> None:
    with running(config(tmp_path, most_crashes=2)) as service:
        job = submit(service, tiny(epochs=3, crash_at=1))
        wait_for(lambda: has(service, job, "failed"), "the failure")
        record = known(service, job)
        assert (record.crashes, record.preemptions) == (2, 0)
        assert "exited with code 3" in record.why.reason
        assert record.why.last_log_lines[-1] == "something is wrong"


def test_a_running_job_is_cancelled(tmp_path: Path) -> None:
    with running(config(tmp_path)) as service:
        job = submit(service, tiny(epochs=1000))
        wait_for(lambda: has(service, job, "running"), "the start")
        assert "being cancelled" in service.desk.cancel(job).why.reason
        wait_for(lambda: has(service, job, "cancelled"), "the cancellation")
        assert service.desk.cancel(job).state == "cancelled"
        other = submit(service, tiny())
        wait_for(lambda: has(service, other, "finished"), "the next job")
        with pytest.raises(Conflict, match="has finished already"):
            service.desk.cancel(other)


def test_a_drained_node_is_emptied_and_used_again_when_resumed(tmp_path: Path) -> None:
    with running(config(tmp_path)) as service:
        job = submit(service, tiny(epochs=40))
        wait_for(lambda: has(service, job, "running"), "the start")
        assert service.desk.drain("n0", resume=False).state == "drained"
        wait_for(lambda: known(service, job).preemptions == 1, "the preemption")
        assert service.desk.nodes()[0].gpus_busy == 0
        service.desk.drain("n0", resume=True)
        wait_for(lambda: service.desk.nodes()[0].state == "up", "the node")
        wait_for(lambda: has(service, job, "finished"), "the end")
        with pytest.raises(InputError, match="no such node"):
            service.desk.drain("n9", resume=False)


def test_reports_over_http_count_like_those_of_the_job_itself(tmp_path: Path) -> None:
    with running(config(tmp_path, grace_seconds=0.1)) as service:
        job = submit(service, tiny(epochs=9, seconds=1000.0))
        wait_for(lambda: has(service, job, "running"), "the start")
        epoch = {"event": "epoch", "epoch": 4, "time": 1e9, "seconds": 2.0, "configuration": 1}
        wait_for(lambda: service.desk._files.reports(job, 1).exists(), "its own first report")
        service.desk.report(job, 1, [epoch])
        wait_for(lambda: known(service, job).epochs_done == 4, "the progress")
        with pytest.raises(Conflict):
            service.desk.report(job, 0, [epoch])
        with pytest.raises(InputError):
            service.desk.report(job, 2, [epoch])
        service.desk.cancel(job)
        wait_for(lambda: has(service, job, "cancelled"), "the cancellation")
        with pytest.raises(Conflict):
            service.desk.report(job, 1, [epoch])


def test_jobs_can_be_stopped_with_the_scheduler(tmp_path: Path) -> None:
    service = Service(config(tmp_path))
    service.start()
    job = submit(service, tiny(epochs=1000))
    wait_for(lambda: known(service, job).epochs_done > 0, "some progress")
    service.stop(stop_jobs=True)
    with running(slow(tmp_path)) as again:
        record = known(again, job)
        assert (record.state, record.preemptions) == ("waiting", 1)
        again.desk.cancel(job)
        wait_for(lambda: has(again, job, "cancelled"), "the cancellation")


# When something inside goes wrong.


class Flaky(Las):
    """Fails until it is told that the bug is fixed."""

    fixed = False

    def decide(self, view: View, forecast: Forecast) -> Decision:
        if not Flaky.fixed:
            raise ZeroDivisionError("a bug")
        return super().decide(view, forecast)


def test_a_policy_that_fails_costs_rounds_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shockwave.server.recovery.policies.create", lambda name, seed=0: Flaky())
    monkeypatch.setattr(Flaky, "fixed", False)
    with running(config(tmp_path)) as service:
        job = submit(service, tiny())
        wait_for(lambda: not service.desk.is_ready()[0], "the failure")
        assert "ZeroDivisionError: a bug" in service.desk.is_ready()[1]
        Flaky.fixed = True
        wait_for(lambda: has(service, job, "finished"), "the end")
        wait_for(lambda: service.desk.is_ready()[0], "readiness")


class Clumsy(LocalExecutor):
    """Refuses its first launch."""

    refusals = 1

    def launch(self, launches):  # type: ignore[no-untyped-def]
        if Clumsy.refusals:
            Clumsy.refusals -= 1
            raise ExecutorError("no more processes")
        super().launch(launches)


def test_an_executor_that_fails_is_replaced_and_the_journal_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shockwave.executors.local.executor.LocalExecutor", Clumsy)
    monkeypatch.setattr(Clumsy, "refusals", 1)
    with running(config(tmp_path)) as service:
        job = submit(service, tiny())
        wait_for(lambda: has(service, job, "finished"), "the end")
        assert Clumsy.refusals == 0
        assert known(service, job).crashes == 0


def test_a_journal_that_cannot_be_written_stops_orders_not_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(config(tmp_path)) as service:
        append = service._store.append
        full = True

        def sometimes(*arguments):  # type: ignore[no-untyped-def]
            if full:
                raise JournalError("disk is full")
            append(*arguments)

        job = submit(service, tiny(epochs=5))
        monkeypatch.setattr(service._store, "append", sometimes)
        wait_for(lambda: "disk is full" in service.desk.is_ready()[1], "the failure")
        with pytest.raises(JournalError, match="disk is full"):
            submit(service, tiny(name="not-confirmed"))
        full = False
        wait_for(lambda: has(service, job, "finished"), "the end")
        assert known(service, job).starts == 1
        assert [record.id for record in all_jobs(service)] == [job]


# Asking, without a round in between.


def test_a_submission_is_kept_under_its_key(tmp_path: Path) -> None:
    with running(slow(tmp_path)) as service:
        first, is_new = service.desk.submit(tiny(name="a"), "key")
        assert is_new
        assert first.state == "waiting"
        again, is_new = service.desk.submit(tiny(name="a"), "key")
        assert not is_new
        assert again.id == first.id
        with pytest.raises(InputError, match="another submission"):
            service.desk.submit(tiny(name="b"), "key")
        with pytest.raises(InputError, match="256"):
            service.desk.submit(tiny(), "k" * 257)
        assert len(all_jobs(service)) == 1


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"gpus": 3}, "2 GPU slots"),
        ({"batch_sizes": [32, 32]}, "repeat"),
        ({"batch_sizes": [32], "epoch_seconds": {64: 1.0}}, "not one of batch_sizes"),
        ({"env": {"SHOCKWAVE_JOB": "x"}}, "set by the scheduler"),
        ({"env": {"A=B": "x"}}, "environment variable"),
    ],
)
def test_what_could_never_run_is_refused(tmp_path: Path, fields: dict[str, Any], said: str) -> None:
    with running(slow(tmp_path)) as service:
        with pytest.raises(InputError, match=said):
            service.desk.submit(tiny(**fields), None)
        with pytest.raises(InputError, match="not a folder"):
            service.desk.submit(tiny().model_copy(update={"workdir": "/nowhere/at/all"}), None)
        assert all_jobs(service) == []


def test_pages_and_names(tmp_path: Path) -> None:
    with running(slow(tmp_path)) as service:
        names = ["a", "b", "b", "c", "d"]
        ids = [submit(service, tiny(name=n, tenant=f"t-{n}")) for n in names]
        assert known(service, "a").id == ids[0]
        assert service.desk.job("b") is None  # two have this name
        seen: list[str] = []
        after = None
        while True:
            page, after = service.desk.jobs(states=[], tenant=None, after=after, limit=2)
            seen += [record.id for record in page]
            if after is None:
                break
        assert seen == ids
        of_b, more = service.desk.jobs(states=["waiting"], tenant="t-b", after=None, limit=2)
        assert ([record.id for record in of_b], more) == (ids[1:3], None)
        assert service.desk.jobs(states=["running"], tenant=None, after=None, limit=9) == ([], None)
        with pytest.raises(InputError, match="cursor"):
            service.desk.jobs(states=[], tenant=None, after="j-none", limit=2)
        assert [record.tenant for record in service.desk.tenants()] == ["t-a", "t-b", "t-c", "t-d"]
        assert len(service.desk.plan().jobs) == 5


def test_a_jobs_token_speaks_for_that_job_only_and_outlives_the_scheduler(tmp_path: Path) -> None:
    with running(slow(tmp_path)) as service:
        mine, other = submit(service, tiny()), submit(service, tiny())
        token = service.desk._tokens.token(mine)
        assert service.desk.job_of_token(token) == mine
        forged = other + token.removeprefix(mine)
        assert service.desk.job_of_token(forged) is None
        assert service.desk.job_of_token("") is None
        assert service.desk.job_of_token("\ud800") is None
        assert service.desk.command_of(mine).env["SHOCKWAVE_TOKEN"] == token
    with running(slow(tmp_path)) as service:
        assert service.desk.job_of_token(token) == mine


def test_events_can_be_followed(tmp_path: Path) -> None:
    with running(config(tmp_path)) as service:
        first = service.desk.events(after=0, limit=1)
        assert first[0][0] == 1
        assert first[0][1]["kind"] == "run-started"
        submit(service, tiny())
        assert service.desk.wait_for_events(after=1, timeout_seconds=60.0)
        assert service.desk.events(after=1, limit=10)[0][1]["kind"] == "job-submitted"
        assert not service.desk.wait_for_events(after=10**9, timeout_seconds=0.0)
        assert next(service.desk.journal())["kind"] == "run-started"


def test_a_second_service_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    with running(slow(tmp_path)), pytest.raises(InputError, match="another scheduler"):
        Service(slow(tmp_path)).start()
    with running(slow(tmp_path)) as service:
        assert service.desk.is_ready()[0]


def test_settings_that_changed_hold_from_the_next_start_on(tmp_path: Path) -> None:
    with running(slow(tmp_path, policy="fifo")) as service:
        job = submit(service, tiny())
    with running(config(tmp_path, policy="las", restart_seconds=0.125)) as service:
        wait_for(lambda: has(service, job, "finished"), "a job that waited for a long round")
        rounds = [item.round for item in service.desk.rounds(after=-1, limit=100)]
        assert rounds == sorted(set(rounds))
    with running(config(tmp_path, policy="las", restart_seconds=0.125)):
        pass  # nothing changed, so nothing is told
    changes = [event for event in journal(tmp_path) if isinstance(event, SettingsChanged)]
    assert [(e.policy, e.round_seconds, e.restart_seconds) for e in changes] == [
        ("las", 0.25, 0.125)
    ]


def test_a_site_tells_the_schedulers_own_time(tmp_path: Path) -> None:
    with running(slow(tmp_path)) as service:
        site = site_of(service.config, service.desk.command_of, service.origin_unix, service._clock)
        before = service._clock.now()
        assert site.clock() >= service.origin_unix + before

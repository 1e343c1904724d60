"""What people ask of a scheduler: batches, dependencies, holding, changing; by real requests."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.verbs.live import (
    config,
    journal,
    known,
    running,
    script,
    state_is,
    still,
    submit,
    wait_for,
)

from shockwave.model.errors import InputError
from shockwave.model.events import JobSubmitted
from shockwave.model.job import JobSpec
from shockwave.server.batches import Batch
from shockwave.server.door import Conflict
from shockwave.server.recovery import fold
from shockwave.server.requests import Action
from shockwave.server.service import Service

COMMON = {"command": ["true"], "workdir": "/", "epochs": 3}


def spec(service: Service, state_dir: Path, job: str) -> JobSpec:
    """What the scheduler believes, from its journal alone."""
    state, _ = fold(service._store, service._snapshots, service.origin_unix)
    handle = state.table.find(job)
    assert handle is not None
    return state.table.spec(handle)


def test_a_batch_is_one_group_and_its_jobs_may_name_each_other(tmp_path: Path) -> None:
    with running(still(tmp_path)) as service:
        jobs = [{"name": "a"}, {"name": "b", "after": ["a"]}, {"after_any": ["a", "b"]}]
        batch = Batch(common=COMMON, jobs=jobs, group="pipeline", parallel=2)
        made, is_new = service.desk.submit_many(batch, None)
        assert is_new
        assert made.group == "pipeline-0001"
        a, b, c = made.jobs
        assert spec(service, tmp_path, b).after == (a,)
        assert spec(service, tmp_path, c).after_any == (a, b)
        assert {spec(service, tmp_path, job).group_parallel for job in made.jobs} == {2}
        assert known(service, b).why.reason == f"waits: for {a} to finish"
        assert known(service, c).why.reason == f"waits: for {a}, {b} to end"
        record = service.desk.group("pipeline-0001")
        assert record is not None
        assert (record.jobs, record.parallel) == ({"waiting": 3}, 2)


def test_a_batch_with_one_bad_job_submits_none_and_names_it(tmp_path: Path) -> None:
    with running(still(tmp_path)) as service:
        batch = Batch(common=COMMON, jobs=[{}, {"gpus": 99}])
        with pytest.raises(InputError, match="2 GPU slots"):
            service.desk.submit_many(batch, None)
        batch = Batch(common=COMMON, jobs=[{}, {"gpus": "many"}])
        with pytest.raises(InputError, match=r"job 2.*gpus"):
            service.desk.submit_many(batch, None)
        batch = Batch(common=COMMON, jobs=[{}, {"after": ["nobody"]}])
        with pytest.raises(InputError, match=r"after.*nobody"):
            service.desk.submit_many(batch, None)
    assert not [event for event in journal(tmp_path) if isinstance(event, JobSubmitted)]


def test_a_batch_with_a_key_is_submitted_once(tmp_path: Path) -> None:
    with running(still(tmp_path)) as service:
        batch = Batch(common=COMMON, jobs=[{}, {}], group="g")
        first, is_new = service.desk.submit_many(batch, "key")
        again, is_new_again = service.desk.submit_many(batch, "key")
        assert (is_new, is_new_again) == (True, False)
        assert again == first
        with pytest.raises(InputError, match="another batch"):
            service.desk.submit_many(Batch(common=COMMON, jobs=[{}, {"gpus": 2}]), "key")


def test_a_job_cannot_need_one_that_was_cancelled(tmp_path: Path) -> None:
    with running(still(tmp_path)) as service:
        job = submit(service, script("", name="first"))
        service.desk.act(Action.CANCEL, [job])
        wait_for(state_is(service, job, "cancelled"), "the cancel")
        with pytest.raises(InputError, match="could never start"):
            submit(service, script("", after=["first"]))
        later = submit(service, script("", after_any=["first"]))
        assert spec(service, tmp_path, later).after_any == ()  # it is over already


def test_actions_say_what_they_could_not_do(tmp_path: Path) -> None:
    with running(still(tmp_path)) as service:
        one, other = submit(service, script("")), submit(service, script(""))
        outcomes = service.desk.act(Action.REQUEUE, [one])
        assert outcomes[0].problem == "the job does not run"
        service.desk.act(Action.HOLD, [one, other])
        assert known(service, one).held
        assert "holds it back" in known(service, one).why.reason
        assert service.desk.act(Action.HOLD, [one])[0].problem == "the job is held already"
        service.desk.act(Action.RELEASE, [one])
        assert not known(service, one).held
        assert [o.problem for o in service.desk.act(Action.CANCEL, [one, other])] == [None, None]
        wait_for(state_is(service, other, "cancelled"), "the cancel")
        assert service.desk.act(Action.CANCEL, [other])[0].problem is None  # it is as wanted
        held = service.desk.act(Action.HOLD, [other])[0]
        assert held.problem == "the job was cancelled already"


def test_a_waiting_job_can_be_changed_and_is_checked_as_a_new_one(tmp_path: Path) -> None:
    with running(still(tmp_path)) as service:
        job = submit(service, script("", name="x", tenant="t"))
        changes = {"weight": "2", "gpus": 2, "epochs": "7", "time_limit": "1h"}
        record = service.desk.change(job, changes)
        assert (record.weight, record.gpus, record.epochs, record.time_limit) == (2, 2, 7, 3600)
        changed = spec(service, tmp_path, job)
        assert (changed.weight, changed.gpus, changed.epochs, changed.tenant) == (2.0, 2, 7, "t")
        with pytest.raises(InputError, match="2 GPU slots"):
            service.desk.change(job, {"gpus": 3})
        with pytest.raises(InputError, match=r"epochs.*greater than or equal to 1"):
            service.desk.change(job, {"epochs": 0})
        with pytest.raises(InputError, match="cannot be changed"):
            service.desk.change(job, {"command": ["rm"]})


def test_a_running_job_keeps_its_gpus_but_may_weigh_more(tmp_path: Path) -> None:
    with running(config(tmp_path)) as service:
        job = submit(service, script("import time; time.sleep(600)"))
        wait_for(state_is(service, job, "running"), "its start")
        with pytest.raises(Conflict, match="while the job waits"):
            service.desk.change(job, {"gpus": 2})
        assert service.desk.change(job, {"weight": 3}).weight == 3.0


def test_a_name_that_several_jobs_have_lists_them(tmp_path: Path) -> None:
    with running(still(tmp_path)) as service:
        ids = [submit(service, script("", name="same")) for _ in range(2)]
        with pytest.raises(InputError) as caught:
            service.desk.act(Action.HOLD, ["same"])
        assert all(f"{job} (waiting" in str(caught.value) for job in ids)
        with pytest.raises(InputError, match="no such job"):
            service.desk.act(Action.HOLD, ["other"])


def test_what_was_asked_for_survives_a_restart(tmp_path: Path) -> None:
    with running(still(tmp_path)) as service:
        first = submit(service, script("", name="first"))
        second = submit(service, script("", after=["first"], on_hang="fail", retries=1))
        service.desk.act(Action.HOLD, [first])
        service.desk.change(second, {"weight": 5})
        before = spec(service, tmp_path, second)
    with running(still(tmp_path)) as service:
        assert known(service, first).held
        assert known(service, second).why.reason == f"waits: for {first} to finish"
        assert spec(service, tmp_path, second) == before
        assert before.weight == 5.0
        group = service.desk.submit_many(Batch(common=COMMON, jobs=[{}], group="g"), None)[0].group
        assert group == "g-0003"

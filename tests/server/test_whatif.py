"""What-if beside a running scheduler: answered in a process of its own, and nothing changes."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.server.live import listening
from tests.server.services import journal, running, slow, submit, tiny
from typer.testing import CliRunner

from shockwave.cli.main import app
from shockwave.model.errors import InputError
from shockwave.server.app import create_app
from shockwave.server.auth import Caller
from shockwave.server.people import People, Person
from shockwave.server.problems import ProblemError
from shockwave.server.routes_whatif import _shown, ask_what_if
from shockwave.server.service import Service
from shockwave.server.tokens import hash_token
from shockwave.server.whatif_records import WhatIfQuestion
from shockwave.server.whatifs import TooManyAtOnce, WhatIfs

TOKEN = "the-token-of-the-operator"
QUESTION = {
    "submit": [tiny(20, gpus=1, name="mine", batch_sizes=[1], epoch_seconds={1: 600}).model_dump()],
    "samples": 5,
}


def post(url: str, body: Any) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(
        f"{url}/api/v1/what-if",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=3600) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Any:
    patient = slow(tmp_path_factory.mktemp("state"), what_if_seconds=1800.0)
    with running(patient) as service:
        for _ in range(3):
            job = tiny(20, gpus=2, name="secret", batch_sizes=[1], epoch_seconds={1: 600})
            submit(service, job)
        yield service


def serving(service: Service) -> Any:
    people = People(token_hash=hash_token(TOKEN))
    return listening(create_app(service.desk, people=people, whatifs=WhatIfs.of(service.config)))


def test_a_job_is_asked_about_and_not_submitted(service: Service) -> None:
    before = journal(service.config.state_dir)
    with serving(service) as url:
        status, answer = post(url, QUESTION)
        assert status == 200, answer
        mine = answer["jobs"][0]
        assert (mine["name"], mine["is_new"], answer["samples"]) == ("mine", True, 5)
        # Two hours and more for three jobs that need both GPUs, and then this one.
        assert mine["finish_after"]["middle"] > answer["now"] + 20 * 600
        assert {figure["name"] for figure in answer["figures"]} >= {"mean_jct_seconds"}
        status, problem = post(url, {"drain": [{"node": "nowhere"}]})
        assert (status, "no such node" in problem["detail"]) == (422, True)
    assert journal(service.config.state_dir) == before


def test_people_see_of_others_what_the_queue_shows(service: Service) -> None:
    """Names stay with their owners; where the queue is private, so does everything."""
    record = WhatIfs.of(service.config).ask(WhatIfQuestion(more_gpus=4, samples=5), [])
    assert len(record.jobs) > 0
    for private, seen in ((False, len(record.jobs)), (True, 0)):
        stranger = Caller(People(private_queue=private), Person("stranger", 12345))
        shown = _shown(record, service.desk, stranger)
        assert (len(shown.jobs), shown.hidden) == (seen, len(record.jobs) - seen)
        assert not any(job.name for job in shown.jobs)


def test_what_is_wrong_with_any_state_is_said_before_a_process_is_started(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WhatIfs, "_run", lambda *_: pytest.fail("a process was started"))
    whatifs = WhatIfs.of(service.config)
    for question, words in (
        (WhatIfQuestion(), "nothing would be different"),
        (WhatIfQuestion(gpu_type="T4"), "is of no use without more_gpus"),
        (WhatIfQuestion(policy="fiffo"), "no such policy"),
    ):
        with pytest.raises(InputError, match=words):
            whatifs.ask(question, [])


def test_only_operators_name_classes(service: Service) -> None:
    """Whoever names a module has it imported with the rights of the scheduler."""
    question = WhatIfQuestion(policy="tests.plugins.nowhere:Policy", samples=5)
    whatifs = WhatIfs.of(service.config)
    request: Any = SimpleNamespace(app=SimpleNamespace(state=SimpleNamespace(whatifs=whatifs)))
    for operator, error in ((False, ProblemError), (True, InputError)):
        someone = Caller(People(), Person("someone", 12345, operator=operator))
        with pytest.raises(error, match=r"Only operators|cannot be loaded"):
            ask_what_if(request, service.desk, someone, question)


def test_one_question_at_a_time_and_none_without_a_place(service: Service) -> None:
    config = service.config.model_copy(update={"what_if_at_once": 0})
    whatifs = WhatIfs.of(config)
    with pytest.raises(TooManyAtOnce):
        whatifs.ask(WhatIfQuestion(more_gpus=1, samples=5), [])


def test_a_process_that_may_not_have_memory_is_told_of(service: Service) -> None:
    whatifs = WhatIfs.of(service.config.model_copy(update={"what_if_memory_mb": 1}))
    with pytest.raises(Exception, match=r"memory|ended"):
        whatifs.ask(WhatIfQuestion(more_gpus=1, samples=5), [])


def test_a_journal_can_be_asked_without_a_scheduler(service: Service, tmp_path: Path) -> None:
    arguments = ["what-if", "--journal", str(service.config.state_dir), "--more-gpus", "2"]
    arguments += ["--more-type", "gpu", "--promise", "default:weight=2,most=none"]
    done = CliRunner().invoke(app, [*arguments, "--samples", "5", "--json"], env=dict(os.environ))
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    shorter = next(f for f in answer["figures"] if f["name"] == "makespan_seconds")
    assert shorter["difference"]["middle"] < 0

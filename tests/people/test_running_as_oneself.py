"""A scheduler of root runs a job as the user who submitted it, with all that is theirs."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from tests.people.users import Serve, User, log_of, needs_root, shell, submit, until, wait_for

from shockwave.cli.client import Client

pytestmark = needs_root
TELL = """
import grp, json, os, resource
groups = sorted(os.getgroups())
print(json.dumps({
    "uid": os.getresuid(), "gid": os.getresgid(), "groups": groups,
    "env": dict(os.environ), "cwd": os.getcwd(),
    "files": resource.getrlimit(resource.RLIMIT_NOFILE),
}))
"""


def told(serve: Serve, user: User, **fields: object) -> dict[str, object]:
    """What a job of the user says about itself."""
    body = {"command": ["/usr/bin/env", "python3", "-I", "-S", "-c", TELL], "epochs": 1}
    env = {"PATH": "/usr/bin:/bin"}
    name = user.ask(serve.url, lambda c: submit(c, {"workdir": "/", "env": env, **body, **fields}))
    until(serve.url, name, "finished")
    return dict(json.loads(user.ask(serve.url, lambda c: log_of(c, name))))


def test_it_has_their_user_groups_and_home(serve: Serve, alice: User, bob: User) -> None:
    for user in (alice, bob):
        said = told(serve, user)
        assert said["uid"] == [user.uid] * 3
        assert said["gid"] == [user.gid] * 3
        assert said["groups"] == sorted(set(user.groups))
        environment = said["env"]
        assert isinstance(environment, dict)
        wanted = {"HOME": str(user.home), "USER": user.name, "LOGNAME": user.name}
        assert {name: environment[name] for name in wanted} == wanted


def test_the_environment_of_the_server_stays_there(serve: Serve, alice: User) -> None:
    environment = told(serve, alice, env={"PATH": "/usr/bin:/bin", "CHOSEN": "yes"})["env"]
    assert isinstance(environment, dict)
    assert "OF_THE_SERVER" not in environment
    assert (environment["CHOSEN"], environment["PATH"]) == ("yes", "/usr/bin:/bin")


def test_its_folder_is_theirs_alone(serve: Serve, alice: User, bob: User) -> None:
    name = alice.ask(serve.url, lambda c: submit(c, shell('touch "$SHOCKWAVE_DIR/saved"')))
    until(serve.url, name, "finished")
    folder = serve.state / "jobs" / name
    status = folder.stat()
    assert (status.st_uid, status.st_gid) == (alice.uid, alice.gid)
    assert stat.S_IMODE(status.st_mode) == 0o700
    for path in folder.rglob("*"):
        assert path.lstat().st_uid in (0, alice.uid), path
    assert stat.S_IMODE((folder / "environment.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "launch-1.json").stat().st_mode) == 0o600
    assert alice.do(lambda: (folder / "saved").exists())
    assert not bob.do(lambda: os.access(folder, os.R_OK) or os.access(folder, os.X_OK))


def test_a_job_goes_where_its_owner_may_and_nowhere_else(
    serve: Serve, alice: User, bob: User
) -> None:
    mine = alice.home / "work"
    alice.do(lambda: mine.mkdir(exist_ok=True))
    run = shell("pwd; touch made-here", workdir="~/work")
    name = alice.ask(serve.url, lambda c: submit(c, run))
    until(serve.url, name, "finished")
    assert (mine / "made-here").stat().st_uid == alice.uid
    # Whether a folder of somebody else is there is not told at the door, and not to the job.
    for folder in (mine, mine / "there-is-none"):
        body = shell("true", workdir=str(folder))
        name = bob.ask(serve.url, lambda c, body=body: submit(c, body))  # type: ignore[misc]
        record = until(serve.url, name, "failed")
        assert "working directory does not exist" in record["why"]["reason"]


def test_jobs_survive_the_scheduler_and_are_still_their_owners(serve: Serve, alice: User) -> None:
    name = alice.ask(serve.url, lambda c: submit(c, shell("echo $$; exec sleep 1000")))
    until(serve.url, name, "running")
    process = Path()

    def started() -> bool:
        nonlocal process
        said = log_of(Client(serve.url), name).strip()
        process = Path("/proc") / said
        return bool(said)

    wait_for(lambda: (serve.state / "jobs" / name / "logs" / "rank-0.log").exists(), "a log")
    wait_for(started, "the job to say its number")
    serve.kill()
    assert process.exists()
    serve.start()
    assert until(serve.url, name, "running")["starts"] == 1
    alice.ask(serve.url, lambda c: c.delete("jobs", name))
    until(serve.url, name, "cancelled")
    wait_for(lambda: not process.exists(), "the job to end")

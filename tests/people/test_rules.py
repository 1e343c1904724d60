"""Who may come in, submit, see, and for which tenant: with real users and real tokens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.people.users import Serve, User, log_of, needs_root, serving, shell, submit, until

from shockwave.cli.client import Client, SchedulerRefused
from shockwave.model.errors import InputError
from shockwave.server.tokens import hash_token, new_token

pytestmark = needs_root
OPERATOR = new_token()


@pytest.fixture(scope="module")
def strict(users: list[User]) -> Iterator[Serve]:
    """Alice and bob may submit, carol may not; alice's group is a tenant; others are hidden."""
    alice, bob, _ = users
    config = f"""
allow_users = ["{alice.name}", "{bob.name}"]
private_queue = true
token_sha256 = "{hash_token(OPERATOR)}"
[tenants.vision]
users = ["{alice.name}"]
weight = 2
"""
    with serving("--port", "0", config=config) as started:
        yield started


def test_who_is_not_named_is_refused_everything(strict: Serve, carol: User) -> None:
    for act in (
        lambda c: c.get("jobs"),
        lambda c: c.get("nodes"),
        lambda c: c.get("plan"),
        lambda c: c.get("me"),
        lambda c: b"".join(c.stream("events", follow="false")),
        lambda c: submit(c, shell("true")),
    ):
        assert f"User {carol.name} may not use this scheduler" in carol.refused(strict.url, act)


def test_a_private_queue_shows_nothing_of_others(strict: Serve, alice: User, bob: User) -> None:
    name = alice.ask(strict.url, lambda c: submit(c, shell("echo mine; sleep 1000")))
    until(strict.url, name, "running")
    assert [j["id"] for j in alice.ask(strict.url, lambda c: list(c.pages("jobs")))] == [name]
    assert bob.ask(strict.url, lambda c: list(c.pages("jobs"))) == []
    assert bob.ask(strict.url, lambda c: c.get("plan"))["jobs"] == []
    assert bob.ask(strict.url, lambda c: c.get("tenants"))["items"] == []
    stream = bob.ask(strict.url, lambda c: b"".join(c.stream("events", follow="false")))
    assert name.encode() not in stream
    for act in (
        lambda c: c.get("jobs", name),
        lambda c: c.get("jobs", name, "why"),
        lambda c: log_of(c, name),
        lambda c: c.delete("jobs", name),
    ):
        assert "There is no job" in bob.refused(strict.url, act)
    assert alice.ask(strict.url, lambda c: log_of(c, name)) == "mine\n"
    Client(strict.url).delete("jobs", name)  # an operator may
    until(strict.url, name, "cancelled")


def test_tenants_are_assigned_and_weights_are_theirs(strict: Serve, alice: User, bob: User) -> None:
    def tenant_of(user: User, **fields: Any) -> str:
        return str(
            user.ask(strict.url, lambda c: c.post("jobs", body=shell("true", **fields)))["tenant"]
        )

    assert tenant_of(alice) == "vision"
    assert tenant_of(alice, tenant="vision", weight=2.0) == "vision"
    assert tenant_of(bob) == bob.name
    claimed = bob.refused(strict.url, lambda c: submit(c, shell("true", tenant="vision")))
    assert claimed == f"Your tenant is {bob.name}; only an operator may submit for vision."
    heavy = bob.refused(strict.url, lambda c: submit(c, shell("true", weight=1.5)))
    assert heavy == f"Tenant {bob.name} has weight 1; only an operator may give a job 1.5."
    operator = Client(strict.url)
    made = operator.post("jobs", body=shell("true", tenant="vision", weight=9.0))
    assert (made["tenant"], made["owner"]) == ("vision", "root")


def test_the_owner_cannot_be_claimed(strict: Serve, alice: User, bob: User) -> None:
    for field in ("owner", "user"):
        body = shell("true", **{field: alice.name})
        assert field in bob.refused(strict.url, lambda c, body=body: submit(c, body))  # type: ignore[misc]


def tcp(serve: Serve) -> str:
    return next(word.rstrip(",") for word in serve.said().split() if word.startswith("http://"))


def made_token(serve: Serve, user: str) -> str:
    command = [sys.executable, "-m", "shockwave.cli.main", "token", "--user", user, "--json"]
    done = subprocess.run(
        [*command, "--state-dir", str(serve.state)], capture_output=True, text=True, check=True
    )
    return str(json.loads(done.stdout)["token"])


def test_over_tcp_a_token_says_who_you_are(strict: Serve, alice: User, bob: User) -> None:
    url = tcp(strict)
    for token in (None, "no-such-token-at-all"):
        with pytest.raises(SchedulerRefused, match="SHOCKWAVE_TOKEN"):
            Client(url, token).get("jobs")
    hers, his = (Client(url, made_token(strict, user.name)) for user in (alice, bob))
    assert hers.get("me")["user"] == alice.name
    name = submit(hers, shell("id -un"))
    until(strict.url, name, "finished")
    assert log_of(hers, name) == f"{alice.name}\n"
    with pytest.raises(InputError, match="There is no job"):
        log_of(his, name)
    with pytest.raises(InputError, match="There is no job"):
        his.delete("jobs", name)


def test_the_file_of_tokens_is_roots_and_a_line_less_revokes(strict: Serve, bob: User) -> None:
    token = made_token(strict, bob.name)
    file = strict.state / "tokens.toml"
    assert file.stat().st_mode & 0o777 == 0o600
    assert token not in file.read_text()
    assert not bob.do(lambda: os.access(file, os.R_OK))
    client = Client(tcp(strict), token)
    assert client.get("me")["user"] == bob.name
    kept = [line for line in file.read_text().splitlines() if hash_token(token) not in line]
    file.write_text("\n".join(kept))
    with pytest.raises(SchedulerRefused, match="No such token"):
        client.get("me")


def test_the_operators_token_is_nobodys(strict: Serve, alice: User) -> None:
    operator = Client(tcp(strict), OPERATOR)
    assert operator.get("me")["operator"] is True
    with pytest.raises(SchedulerRefused, match="nobody's"):
        submit(operator, shell("true"))
    name = alice.ask(strict.url, lambda c: submit(c, shell("sleep 1000")))
    operator.delete("jobs", name)
    until(strict.url, name, "cancelled")


def test_draining_is_for_operators(strict: Serve, alice: User) -> None:
    node = Client(strict.url).get("nodes")["items"][0]["id"]
    for verb in ("drain", "resume"):
        refusal = alice.refused(strict.url, lambda c, verb=verb: c.post("nodes", node, verb))  # type: ignore[misc]
        assert refusal == "Only an operator may do this."


def test_a_port_without_a_token_is_refused(tmp_path: Any) -> None:
    command = [sys.executable, "-m", "shockwave.cli.main", "serve", "--port", "0"]
    done = subprocess.run(
        [*command, "--state-dir", str(tmp_path / "state")],
        capture_output=True,
        text=True,
        env={**os.environ, "SHOCKWAVE_TOKEN": ""},
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert "there is none yet" in done.stderr


def test_who_is_let_in_by_a_person_runs_jobs_as_that_person(
    alice: User, bob: User, carol: User
) -> None:
    allowed = f'allow_users = ["{bob.name}"]'
    with serving(config=allowed, user=alice) as hers:
        me = bob.ask(hers.url, lambda c: c.get("me"))
        assert (me["user"], me["runs_as"], me["operator"]) == (bob.name, alice.name, False)
        his = bob.ask(hers.url, lambda c: submit(c, shell("id -un")))
        record = until(hers.url, his, "finished", "failed")
        assert (record["state"], record["owner"]) == ("finished", bob.name)
        assert bob.ask(hers.url, lambda c: log_of(c, his)) == f"{alice.name}\n"
        own = alice.ask(hers.url, lambda c: submit(c, shell("sleep 1000")))
        assert "belongs to" in bob.refused(hers.url, lambda c: c.delete("jobs", own))
        assert "may not use" in carol.refused(hers.url, lambda c: submit(c, shell("true")))
        alice.ask(hers.url, lambda c: c.delete("jobs", own))

"""What one user tries on the jobs of another: every way is closed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.people.users import (
    Serve,
    User,
    job,
    log_of,
    needs_root,
    shell,
    submit,
    until,
    wait_for,
)

from shockwave.cli.client import Client
from shockwave.server.places import connect

pytestmark = needs_root
SECRET = "only-for-alice-4711"  # in everything that is private of her job
RUN = f"""
import os, sys, time
folder = os.environ["SHOCKWAVE_DIR"]
os.makedirs(folder + "/checkpoints", exist_ok=True)
open(folder + "/checkpoints/{SECRET}.ckpt", "w").write("{SECRET}")
print("{SECRET}", os.getpid(), os.environ["SHOCKWAVE_TOKEN"], flush=True)
time.sleep(1000)
"""


@dataclass(frozen=True)
class HerJob:
    """Alice's job, which runs, and what root knows of it."""

    name: str
    pid: int
    token: str
    folder: Path


@pytest.fixture(scope="module")
def hers(serve: Serve, alice: User) -> Iterator[HerJob]:
    body = job(
        "/usr/bin/python3", "-I", "-S", "-c", RUN,
        name=SECRET, model=SECRET, env={"KEY": SECRET, SECRET: "1"},
    )  # fmt: skip
    name = alice.ask(serve.url, lambda c: submit(c, body))
    until(serve.url, name, "running")
    folder = serve.state / "jobs" / name
    log = folder / "logs" / "rank-0.log"
    wait_for(lambda: log.exists() and log.read_text().endswith("\n"), "her first words")
    _, pid, token = log.read_text().split()
    yield HerJob(name, int(pid), token, folder)
    record = Client(serve.url).get("jobs", name)
    assert (record["state"], record["starts"]) == ("running", 1), "nobody may have touched it"
    assert Path(f"/proc/{pid}").exists()
    Client(serve.url).delete("jobs", name)
    until(serve.url, name, "cancelled")


def test_others_see_that_it_is_there_and_no_more(serve: Serve, hers: HerJob, bob: User) -> None:
    listed = bob.ask(serve.url, lambda c: list(c.pages("jobs")))
    seen = next(record for record in listed if record["id"] == hers.name)
    assert seen["state"] == "running"
    assert seen["owner"].startswith("swalice")
    assert (seen["name"], seen["model"]) == ("", "")
    one = bob.ask(serve.url, lambda c: c.get("jobs", hers.name))
    why = bob.ask(serve.url, lambda c: c.get("jobs", hers.name, "why"))
    plan = bob.ask(serve.url, lambda c: c.get("plan"))
    assert why["reason"].startswith("runs")
    assert SECRET not in str((listed, one, why, plan))


def test_its_name_leads_nobody_else_to_it(
    serve: Serve, hers: HerJob, alice: User, bob: User
) -> None:
    assert alice.ask(serve.url, lambda c: c.get("jobs", SECRET))["id"] == hers.name
    assert "no job" in bob.refused(serve.url, lambda c: c.get("jobs", SECRET))


def test_nobody_else_reads_its_log_or_cancels_it(serve: Serve, hers: HerJob, bob: User) -> None:
    assert "belongs to" in bob.refused(serve.url, lambda c: log_of(c, hers.name))
    for query in ({"follow": "true"}, {"rank": 1}, {"tail": 1}):
        refusal = bob.refused(
            serve.url,
            lambda c, q=query: b"".join(c.stream("jobs", hers.name, "logs", **q)),  # type: ignore[misc]
        )
        assert "belongs to" in refusal
    assert "belongs to" in bob.refused(serve.url, lambda c: c.delete("jobs", hers.name))


def test_events_tell_others_only_what_is_public(serve: Serve, hers: HerJob, bob: User) -> None:
    def events(client: Client) -> str:
        return b"".join(client.stream("events", follow="false")).decode()

    seen = bob.ask(serve.url, events)
    assert hers.name in seen
    assert SECRET not in seen
    assert SECRET in events(Client(serve.url))  # the operator sees its name


def test_its_files_are_closed(serve: Serve, hers: HerJob, bob: User) -> None:
    state = serve.state
    closed = [
        hers.folder, hers.folder / "logs" / "rank-0.log", hers.folder / "environment.json",
        hers.folder / "launch-1.json", hers.folder / "checkpoints" / f"{SECRET}.ckpt",
        hers.folder / "alive-1.lock", state / "shockwave.db", state / "secret", state / "slots",
        state / "snapshots", state / "archive", state, state / "jobs", state / "serve.lock",
        state / "executor.lock",
    ]  # fmt: skip

    def readable() -> list[str]:
        return [
            str(path) for path in closed if os.access(path, os.R_OK) or os.access(path, os.W_OK)
        ]

    assert all(path.exists() for path in closed)
    assert bob.do(readable) == []


def test_its_processes_are_out_of_reach(hers: HerJob, bob: User) -> None:
    def attempts() -> list[str]:
        done = []
        for act in (
            lambda: os.kill(hers.pid, signal.SIGTERM),
            lambda: Path(f"/proc/{hers.pid}/environ").read_bytes(),
            lambda: os.readlink(f"/proc/{hers.pid}/cwd"),
        ):
            try:
                act()
                done.append("it worked")
            except PermissionError:
                pass
        return done

    assert bob.do(attempts) == []


def test_secrets_are_neither_in_the_journal_nor_in_the_list_of_processes(
    serve: Serve, hers: HerJob
) -> None:
    stored = b"".join(path.read_bytes() for path in serve.state.glob("shockwave.db*"))
    assert SECRET.encode() in stored  # its name is there
    assert f'\\"KEY\\":\\"{SECRET}'.encode() not in stored
    value = f"value-{time.time_ns()}"
    name = submit(Client(serve.url), shell("sleep 1000", env={"PASSWORD": value}))
    until(serve.url, name, "running")
    stored = b"".join(path.read_bytes() for path in serve.state.glob("shockwave.db*"))
    assert b"PASSWORD" in stored
    assert value.encode() not in stored
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True).stdout
    assert value.encode() not in listed
    Client(serve.url).delete("jobs", name)


def test_the_token_of_a_job_opens_that_job_alone(serve: Serve, hers: HerJob, bob: User) -> None:
    name = bob.ask(serve.url, lambda c: submit(c, shell('echo "$SHOCKWAVE_TOKEN"')))
    until(serve.url, name, "finished")
    token = bob.ask(serve.url, lambda c: log_of(c, name)).strip()
    forged = f"{hers.name}.{token.rpartition('.')[2]}"

    def attempts() -> list[int]:
        return [
            status(serve.url, method, f"/api/v1/jobs/{hers.name}{path}", token=given, body=body)
            for given in (token, forged)
            for method, path, body in (
                ("GET", "", None), ("GET", "/logs", None), ("GET", "/why", None),
                ("DELETE", "", None), ("POST", "/reports", b'{"generation": 1, "reports": []}'),
            )
        ]  # fmt: skip

    assert set(bob.do(attempts)) <= {401, 403, 404}
    own = bob.do(lambda: status(serve.url, "GET", f"/api/v1/jobs/{name}", token=token))
    assert own == 200


def test_a_link_in_ones_own_folder_leads_nowhere(
    serve: Serve, hers: HerJob, bob: User, tmp_path: Path
) -> None:
    """Root reads and writes there for the job, and must not be led to what is others'."""
    victim = tmp_path / "of-root"
    victim.write_text("untouched")
    plant = f"""
cd "$SHOCKWAVE_DIR"
echo "$SHOCKWAVE_TOKEN" > token
mv logs my-logs && ln -s {hers.folder}/logs logs
ln -s {victim} reports-1.jsonl
for n in 2 3 4; do ln -s {victim} alive-$n.lock; ln -s {victim} launch-$n.json; done
ln -s {victim} .lease.json.$(uname -n).{{}}.tmp
sleep 1000
"""
    name = bob.ask(serve.url, lambda c: submit(c, shell(plant)))
    folder = serve.state / "jobs" / name
    wait_for(lambda: (folder / "logs").is_symlink(), "the links")
    token = (folder / "token").read_text().strip()
    refusal = bob.refused(serve.url, lambda c: log_of(c, name))
    assert SECRET not in refusal
    followed = bob.do(
        lambda: status(serve.url, "GET", f"/api/v1/jobs/{name}/logs?tail=5", token=None)
    )
    assert followed == 404
    report = b'{"generation": 1, "reports": [{"time": 1, "event": "epoch", "epoch": 1}]}'
    posted = bob.do(
        lambda: status(serve.url, "POST", f"/api/v1/jobs/{name}/reports", token=token, body=report)
    )
    assert posted == 409
    bob.ask(serve.url, lambda c: c.delete("jobs", name))
    until(serve.url, name, "cancelled")
    assert victim.read_text() == "untouched"
    assert victim.stat().st_uid == 0


def test_a_forged_record_of_processes_kills_nobody_else(
    serve: Serve, hers: HerJob, bob: User
) -> None:
    """After a restart the scheduler knows processes from a file that the job can write."""
    ticks = Path(f"/proc/{hers.pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    forge = f"""
cd "$SHOCKWAVE_DIR"
sed -e 's/"pid": [0-9]*/"pid": {hers.pid}/' -e 's/"start_ticks": [0-9]*/"start_ticks": {ticks}/' \\
    -e 's/"ranks": [^]]*]/"ranks": [{hers.pid}]/' \\
    -e 's/"leader_start_ticks": [0-9a-z]*/"leader_start_ticks": {ticks}/' process-0.json > forged
sleep 2
mv forged process-0.json; echo forged
sleep 1000
"""
    name = bob.ask(serve.url, lambda c: submit(c, shell(forge)))
    folder = serve.state / "jobs" / name
    log = folder / "logs" / "rank-0.log"
    wait_for(lambda: log.exists() and "forged" in log.read_text(), "the forgery")
    assert str(hers.pid) in (folder / "process-0.json").read_text()
    serve.kill()
    serve.start()
    bob.ask(serve.url, lambda c: c.delete("jobs", name))
    until(serve.url, name, "cancelled")
    wait_for(lambda: not processes_of(bob), "all that he runs to end")  # the lease has told it
    assert Path(f"/proc/{hers.pid}").exists()


def test_an_idempotency_key_is_its_owners(serve: Serve, alice: User, bob: User) -> None:
    def keyed(client: Client) -> Any:
        return client.post("jobs", body=shell("true"), headers={"Idempotency-Key": "the-same"})

    first, second = alice.ask(serve.url, keyed), bob.ask(serve.url, keyed)
    assert first["id"] != second["id"]
    assert alice.ask(serve.url, keyed)["id"] == first["id"]


def test_no_request_for_many_jobs_reaches_it(serve: Serve, hers: HerJob, bob: User) -> None:
    own = bob.ask(serve.url, lambda c: submit(c, shell("sleep 1000", gpus=1)))
    for action in ("cancel", "hold", "release", "requeue"):
        for jobs in ([hers.name], [own, hers.name], [SECRET]):
            asked = {"action": action, "jobs": jobs}
            refusal = bob.refused(
                serve.url,
                lambda c, asked=asked: c.post("jobs", "actions", body=asked),  # type: ignore[misc]
            )
            assert "belongs to" in refusal or "no job" in refusal
    record = Client(serve.url).get("jobs", own)
    assert (record["state"], record["held"]) in (("running", False), ("waiting", False))
    for path, body in (
        (f"/api/v1/jobs/{hers.name}", b'{"name": "mine"}'),
        (f"/api/v1/jobs/{SECRET}", b'{"gpus": 2}'),
    ):
        changed = bob.do(lambda p=path, b=body: status(serve.url, "PATCH", p, token=None, body=b))  # type: ignore[misc]
        assert changed in (403, 404)
    assert "belongs to" in bob.refused(serve.url, lambda c: c.get("jobs", hers.name, "metrics"))
    for weight in (b"2", b'"2"', b"1e5", b'"1e5"'):
        body = b'{"weight": ' + weight + b"}"
        path = f"/api/v1/jobs/{own}"
        heavier = bob.do(lambda p=path, b=body: status(serve.url, "PATCH", p, token=None, body=b))  # type: ignore[misc]
        assert heavier == 403
    bob.ask(serve.url, lambda c: c.delete("jobs", own))


def test_a_group_is_its_owners(serve: Serve, alice: User, bob: User) -> None:
    batch = {
        "common": shell("sleep 1000", env={"KEY": SECRET}),
        "jobs": [{"name": SECRET}, {}],
        "group": SECRET,
    }
    made = alice.ask(serve.url, lambda c: c.post("batches", body=batch))
    group, jobs = made["group"], made["jobs"]
    mine = alice.ask(serve.url, lambda c: c.get("groups"))["items"]
    assert [(item["id"], item["owner"]) for item in mine] == [(group, alice.name)]
    assert bob.ask(serve.url, lambda c: c.get("groups"))["items"] == []
    assert "no group" in bob.refused(serve.url, lambda c: c.get("groups", group))
    path = f"/api/v1/groups/{group}"
    change = b'{"parallel": 1}'
    assert bob.do(lambda: status(serve.url, "PATCH", path, token=None, body=change)) == 404
    assert bob.ask(serve.url, lambda c: list(c.pages("jobs", group=group))) == []
    seen = bob.ask(serve.url, lambda c: list(c.pages("jobs")))
    assert {item["group"] for item in seen if item["id"] in jobs} == {""}
    heavy = {"common": shell("true"), "jobs": [{}, {"weight": 50}]}
    assert "weight 1" in bob.refused(serve.url, lambda c: c.post("batches", body=heavy))
    after = shell("true", after=[SECRET])
    assert "no such job" in bob.refused(serve.url, lambda c: submit(c, after))
    action = {"action": "cancel", "jobs": jobs}
    alice.ask(serve.url, lambda c: c.post("jobs", "actions", body=action))
    for name in jobs:
        until(serve.url, name, "cancelled")


def processes_of(user: User) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found += [path.name] if path.stat().st_uid == user.uid else []
    return found


def status(
    url: str, method: str, path: str, *, token: str | None, body: bytes | None = None
) -> int:
    """The status of a bare request over the socket."""
    return int(exchange(url, method, path, token=token, body=body).split(b" ", 2)[1])


def exchange(
    url: str, method: str, path: str, *, token: str | None = None, body: bytes | None = None
) -> bytes:
    """A bare request and all of its answer."""
    head = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close"]
    head += [f"Authorization: Bearer {token}"] if token else []
    if body is not None:
        head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return raw(url, "\r\n".join([*head, "", ""]).encode() + (body or b""))


def raw(url: str, sent: bytes, patience_seconds: float = 20.0) -> bytes:
    """Whatever comes back for whatever was sent."""
    with connect(Path(url.removeprefix("unix:")), timeout=20.0) as connection:
        received = b""
        connection.settimeout(patience_seconds)
        with suppress(TimeoutError, ConnectionResetError, BrokenPipeError):
            connection.sendall(sent)
            while chunk := connection.recv(65536):
                received += chunk
        return received

"""Real Unix users, made for a test and gone after it, and what they do as themselves."""

from __future__ import annotations

import os
import pickle
import pwd
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from shockwave.cli.client import Client, SchedulerRefused
from shockwave.executors.local.accounts import python_for_everybody
from shockwave.model.errors import InputError

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("useradd") is None,
    reason="making Unix users needs root and useradd",
)
_PATIENCE_SECONDS = 90.0
Result = TypeVar("Result")


@dataclass(frozen=True)
class User:
    """One of the users of a test."""

    name: str
    uid: int
    gid: int
    home: Path

    @property
    def groups(self) -> list[int]:
        return os.getgrouplist(self.name, self.gid)

    def do(self, act: Callable[[], Result]) -> Result:
        """What ``act`` returns or raises when this user does it, in a process of their own."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            try:
                os.setgroups(self.groups)
                os.setresgid(self.gid, self.gid, self.gid)
                os.setresuid(self.uid, self.uid, self.uid)
                os.chdir("/")
                os.environ.update(HOME=str(self.home), USER=self.name, LOGNAME=self.name)
                outcome: tuple[bool, Any] = (True, act())
            except BaseException as error:  # it is raised again on the other side
                traceback.clear_frames(error.__traceback__)
                outcome = (False, error.with_traceback(None))
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(_packed(outcome))
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            went_well, value = pickle.loads(pipe.read())
        os.waitpid(child, 0)
        if went_well:
            result: Result = value
            return result
        raise value

    def ask(self, url: str, act: Callable[[Client], Result]) -> Result:
        """Asks the scheduler as this user."""
        return self.do(lambda: act(Client(url)))

    def refused(self, url: str, act: Callable[[Client], object]) -> str:
        """The words of the refusal; an error if there is none."""
        with pytest.raises((SchedulerRefused, InputError)) as caught:
            self.ask(url, act)
        return str(caught.value)


def _packed(outcome: tuple[bool, Any]) -> bytes:
    try:
        packed = pickle.dumps(outcome)
        pickle.loads(packed)
    except Exception:
        return pickle.dumps((outcome[0], str(outcome[1]) if outcome[0] else _plain(outcome[1])))
    return packed


def _plain(error: BaseException) -> BaseException:
    """Errors with arguments of their own do not survive the way."""
    kind = SchedulerRefused if isinstance(error, SchedulerRefused) else InputError
    return (
        kind(str(error))
        if isinstance(error, InputError | SchedulerRefused)
        else RuntimeError(f"{type(error).__name__}: {error}")
    )


@contextmanager
def made_users(*roles: str) -> Iterator[list[User]]:
    """Users with homes that only they can read; the first two share a group.

    Others may have theirs at the same time, in this process too: names are nobody else's.
    """
    with tempfile.TemporaryDirectory(prefix="sw-homes-") as folder:
        homes = Path(folder)
        homes.chmod(0o711)
        mark = secrets.token_hex(4)
        group = f"swlab{mark}"
        names = [f"sw{role}{mark}" for role in roles]
        _run("groupadd", group)
        try:
            users = []
            for number, name in enumerate(names):
                more = ["--groups", group] if number < 2 else []
                home = homes / name
                _run("useradd", "--no-create-home", "--home-dir", str(home), "--shell", "/bin/sh",
                     "--user-group", *more, name)  # fmt: skip
                account = pwd.getpwnam(name)
                home.mkdir(mode=0o700)
                os.chown(home, account.pw_uid, account.pw_gid)
                users.append(User(name, account.pw_uid, account.pw_gid, home))
            yield users
        finally:
            for name in names:
                subprocess.run(["userdel", name], capture_output=True)
                subprocess.run(["groupdel", name], capture_output=True)
            subprocess.run(["groupdel", group], capture_output=True)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stderr}"


class Serve:
    """``shockwave serve`` as root, in a folder that all users can reach but not read."""

    python = sys.executable

    def __init__(self, folder: Path, *flags: str, config: str = "") -> None:
        self.state = folder / "state"
        self.url = f"unix:{self.state / 'shockwave.sock'}"
        self._log = folder / "serve.log"
        file = folder / "shockwave.toml"
        file.write_text(config)
        self._command = [
            self.python, "-m", "shockwave.cli.main", "serve", "--config", str(file),
            "--state-dir", str(self.state), "--slots", "4", "--round", "1", "--restart", "0.2",
            "--grace-seconds", "5", "--policy", "las", "--most-crashes", "1", *flags,
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None
        self.identity: dict[str, Any] = {}  # of its process, where it is not root

    def start(self) -> str:
        """Returns what it says when it listens."""
        with self._log.open("wb") as log:
            environment = {**os.environ, "COLUMNS": "300", "OF_THE_SERVER": "alone"}
            self._process = subprocess.Popen(
                self._command,
                stdout=log,
                stderr=log,
                env=environment | _PATHS,
                cwd=self._log.parent,
                **self.identity,
            )
        process = self._process
        wait_for(lambda: process.poll() is not None or "listens on" in self.said(), "serve")
        assert process.poll() is None, self.said()
        Client(self.url).get("me")  # also loads here what a user's process may not read
        return self.said()

    def said(self) -> str:
        return self._log.read_text()

    def kill(self) -> None:
        """Without a farewell."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(60)


_PACKAGES = [path for path in sys.path if path and not path.startswith(sys.base_prefix)]
_PATHS = {"PYTHONPATH": os.pathsep.join(_PACKAGES)}


def _python_that_knows_us() -> str:
    """One that every user can start, and that has all that the scheduler needs."""
    python = python_for_everybody()
    command = [python, "-c", "import shockwave.cli.main, shockwave.server.app"]
    if subprocess.run(command, env=os.environ | _PATHS, capture_output=True).returncode:
        pytest.skip(f"{python}, which every user can start, is not the version of the tests' own")
    return python


class ServeAs(Serve):
    """The same as a person who lets others in: the socket is where these can reach it."""

    def __init__(self, user: User, folder: Path, *flags: str, config: str = "") -> None:
        self.python = _python_that_knows_us()
        door = folder / "door" / "shockwave.sock"
        super().__init__(folder, "--socket", str(door), *flags, config=config)
        self.identity = {"user": user.uid, "group": user.gid, "extra_groups": user.groups}
        self.url = f"unix:{door}"
        for path in (self.state, door.parent):
            path.mkdir()
            os.chown(path, user.uid, user.gid)


@contextmanager
def serving(*flags: str, config: str = "", user: User | None = None) -> Iterator[Serve]:
    with tempfile.TemporaryDirectory(prefix="sw-people-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        flags = ("--stop-jobs", *flags)
        serve = (
            Serve(folder, *flags, config=config)
            if user is None
            else ServeAs(user, folder, *flags, config=config)
        )
        serve.start()
        try:
            yield serve
        finally:
            serve.stop()


def job(*command: str, **fields: Any) -> dict[str, Any]:
    """A submission as a client sends it."""
    return {"command": list(command), "epochs": 1, "workdir": "/", **fields}


def shell(script: str, **fields: Any) -> dict[str, Any]:
    return job("/bin/sh", "-c", script, **fields)


def submit(client: Client, body: dict[str, Any]) -> str:
    return str(client.post("jobs", body=body)["id"])


def log_of(client: Client, name: str) -> str:
    return b"".join(client.stream("jobs", name, "logs")).decode()


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.05)


def until(url: str, name: str, *states: str) -> dict[str, Any]:
    """The record of a job when it is in one of these states, as root sees it."""
    client, last = Client(url), dict[str, Any]()

    def there() -> bool:
        last.update(client.get("jobs", name))
        return last["state"] in states

    wait_for(there, f"{name} to be {' or '.join(states)}, not {last.get('state')}")
    return last

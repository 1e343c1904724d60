"""What root is careful about when it starts something for somebody."""

from __future__ import annotations

import os
import resource
import stat
from pathlib import Path

import pytest
from tests.people.users import User, needs_root

from shockwave.executors.local.accounts import Account, python_for_everybody
from shockwave.executors.local.user_limits import limits_of
from shockwave.model.errors import InputError
from shockwave.protocol.files import open_plain, open_to_append, write_json
from shockwave.protocol.locks import is_held, open_lock
from shockwave.server.lock import prepare_state_dir

ME = Account("me", 4711, 4711, (4711, 0), "/home/me", "/bin/sh")


def test_limits_of_a_user_beat_those_of_a_group_and_of_all(tmp_path: Path) -> None:
    (tmp_path / "limits.conf").write_text(
        "# comment\n"
        "*     soft  nofile  1000\n"
        "*     hard  nofile  5000\n"
        "@root -     nproc   70\n"
        "me    soft  nofile  2000\n"
        "you   soft  nofile  9\n"
        "me    -     core    unlimited # as large as it likes\n"
        "me    soft  stack   many\n"
        "not a line\n"
    )
    (tmp_path / "limits.d").mkdir()
    (tmp_path / "limits.d" / "10-lab.conf").write_text("* hard nofile 4000\n@nobody-such - cpu 1\n")
    infinite = resource.RLIM_INFINITY
    assert limits_of(ME, tmp_path) == {
        resource.RLIMIT_NOFILE: (2000, 4000),
        resource.RLIMIT_NPROC: (70, 70),
        resource.RLIMIT_CORE: (infinite, infinite),
    }
    assert limits_of(ME, tmp_path / "none") == {}


@needs_root
def test_a_python_for_everybody_can_be_started_by_anybody(users: list[User]) -> None:
    python = python_for_everybody()
    assert users[0].do(lambda: os.access(python, os.X_OK))


def test_a_folder_that_others_could_read_is_closed(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o755)
    state.chmod(0o755)
    (state / "secret").write_bytes(b"x" * 32)
    (state / "secret").chmod(0o644)
    prepare_state_dir(state)
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert stat.S_IMODE((state / "secret").stat().st_mode) == 0o600


@needs_root
def test_a_folder_of_somebody_else_is_refused_in_one_line(
    tmp_path: Path, users: list[User]
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    os.chown(state, users[0].uid, users[0].gid)
    with pytest.raises(InputError, match=f"belongs to {users[0].name}, not to root") as caught:
        prepare_state_dir(state)
    assert "\n" not in str(caught.value)


def test_neither_files_nor_folders_that_are_links_are_opened(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "file").write_text("of others")
    (tmp_path / "linked").symlink_to(real)
    (tmp_path / "file").symlink_to(real / "file")
    for path in (tmp_path / "linked" / "file", tmp_path / "file"):
        for act in (open_plain, open_to_append):
            with pytest.raises(OSError, match=r"symbolic links|Not a directory|not a plain file"):
                act(path)
    os.link(real / "file", tmp_path / "second-name")
    with pytest.raises(OSError, match=r"symbolic links|Not a directory|not a plain file"):
        open_to_append(tmp_path / "second-name")
    assert (real / "file").read_text() == "of others"


def test_a_record_is_not_written_through_a_link_that_waits_for_it(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("of others")
    waiting = tmp_path / f".lease.json.{os.uname().nodename}.{os.getpid()}.tmp"
    waiting.symlink_to(victim)
    write_json(tmp_path / "lease.json", {"generation": 1})
    assert victim.read_text() == "of others"
    assert (tmp_path / "lease.json").is_file()
    assert not (tmp_path / "lease.json").is_symlink()


def test_a_lock_that_is_no_file_is_held_by_nobody(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "folder").mkdir()
    assert not is_held(tmp_path / "link")
    assert not is_held(tmp_path / "folder")
    with pytest.raises(OSError, match=r"symbolic links|Not a directory|not a plain file"):
        open_lock(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()

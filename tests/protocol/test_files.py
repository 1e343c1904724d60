"""Files are there whole or not at all, and nobody is misled by what a job leaves behind."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from shockwave.protocol import VERSION
from shockwave.protocol.files import atomic_bytes, atomic_writer, read_json, write_json


def as_bytes(path: Path) -> AbstractContextManager[Any]:
    return atomic_bytes(path, check=lambda: None)


@pytest.mark.parametrize("writer", [atomic_writer, as_bytes])
def test_after_an_error_the_old_file_is_there_and_nothing_else(
    tmp_path: Path, writer: Callable[[Path], AbstractContextManager[Any]]
) -> None:
    path = tmp_path / "result"
    path.write_text("old")
    with pytest.raises(RuntimeError), writer(path):
        raise RuntimeError("half-way")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["result"]


def test_a_check_prevents_it_at_the_last_moment(tmp_path: Path) -> None:
    def refuse() -> None:
        raise RuntimeError("replaced")

    with (
        pytest.raises(RuntimeError, match="replaced"),
        atomic_bytes(tmp_path / "state", check=refuse) as file,
    ):
        file.write(b"whole")
    assert os.listdir(tmp_path) == []


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    with atomic_writer(tmp_path / "link") as file:
        file.write("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_record_says_which_version_it_is_of(tmp_path: Path) -> None:
    write_json(tmp_path / "record.json", {"n": 1}, durable=False)
    assert read_json(tmp_path / "record.json") == {"protocol": VERSION, "n": 1}


def test_a_private_record_is_for_its_owner_alone(tmp_path: Path) -> None:
    write_json(tmp_path / "token.json", {"token": "x"}, private=True)
    assert stat.S_IMODE((tmp_path / "token.json").stat().st_mode) == 0o600


def test_what_is_no_plain_file_with_an_object_is_not_there(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "list").write_text("[1]")
    (tmp_path / "half").write_text('{"n": ')
    (tmp_path / "real").write_text("{}")
    (tmp_path / "link").symlink_to("real")
    for name in ("pipe", "list", "half", "link", "missing"):
        assert read_json(tmp_path / name) is None

"""A log in pieces reads as one, also while it is written and rotated."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shockwave.executors.gangs.supervisor.rotating_log import RotatingLog
from shockwave.protocol.paths import times_of
from shockwave.server.logs import LogReader, Wanted, read_log


def ticking(seconds: float, start: float = 1_000_000.0) -> Callable[[], float]:
    times = itertools.count()
    return lambda: start + seconds * next(times)


def shown_of(path: Path, **wanted: object) -> str:
    return b"".join(read_log(path, Wanted(**wanted))).decode()  # type: ignore[arg-type]


def line(number: int) -> bytes:
    return f"line {number} {'.' * 20}\n".encode()


def lines(*numbers: int) -> str:
    return b"".join(map(line, numbers)).decode()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Ten lines, 10 s apart, in three pieces; the third launch began with line 6."""
    path = tmp_path / "rank-0.log"
    clock = ticking(10.0)
    first = RotatingLog(path, 4 * len(line(0)), 3, launch=1, clock=clock)
    for number in range(6):
        first.write(line(number))
    first.close()
    second = RotatingLog(path, 4 * len(line(0)), 3, launch=3, clock=clock)
    for number in range(6, 10):
        second.write(line(number))
    second.close()
    return path


def test_all_pieces_are_read_from_old_to_new(log: Path) -> None:
    assert log.with_name("rank-0.log.2").exists()
    assert shown_of(log) == lines(*range(10))


@pytest.mark.parametrize("count", [0, 1, 3, 7, 10, 50])
def test_the_last_lines_may_be_in_several_pieces(log: Path, count: int) -> None:
    assert shown_of(log, tail=count) == lines(*range(max(10 - count, 0), 10))


def test_what_was_written_since_a_time(log: Path) -> None:
    assert shown_of(log, since=1_000_000.0 + 75.0) == lines(8, 9)
    assert shown_of(log, since=1_000_000.0) == lines(*range(10))
    assert shown_of(log, since=2_000_000.0) == ""


def test_launches_are_told_apart(log: Path) -> None:
    shown = shown_of(log, launches=True).splitlines()
    marks = [number for number, text in enumerate(shown) if text[:10] == "--- launch"]
    assert [shown[number].split(",")[0] for number in marks] == ["--- launch 1", "--- launch 3"]
    assert shown[marks[1] + 1].startswith("line 6")
    assert "".join(f"{text}\n" for text in shown if text[:3] != "---") == lines(*range(10))


def test_a_last_line_without_an_end_does_not_swallow_the_separator(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    RotatingLog(path, 1000, 1, launch=1).write(b"half a li")
    RotatingLog(path, 1000, 1, launch=2).write(b"next\n")
    shown = shown_of(path, launches=True).splitlines()
    assert [text.partition(",")[0] for text in shown] == [
        "--- launch 1", "half a li", "--- launch 2", "next",
    ]  # fmt: skip


def test_every_line_can_have_its_time(log: Path) -> None:
    shown = shown_of(log, times=True).splitlines()
    assert [text[26:32] for text in shown] == [f"line {number}" for number in range(10)]
    assert len({text[:25] for text in shown}) == 10  # 10 s apart, and a date before each


def test_without_times_a_log_is_still_readable(log: Path) -> None:
    for path in log.parent.glob("rank-0.times*"):
        path.unlink()
    assert shown_of(log, launches=True, tail=2) == lines(8, 9)


def test_times_do_not_grow_beyond_the_log(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    log = RotatingLog(path, 1000, 1, clock=ticking(2.0))
    for _ in range(900):
        log.write(b"x")
    assert path.stat().st_size == 900
    assert times_of(path).stat().st_size < 1100


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 60), st.booleans()), max_size=40), st.integers(8, 60))
def test_whoever_reads_on_sees_every_byte_once(
    tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[int, bool]], size: int
) -> None:
    """However writing, rotating and reading take turns; as long as no piece is dropped unread."""
    path = tmp_path_factory.mktemp("logs") / "rank-0.log"
    log = RotatingLog(path, size, 90)
    written, read = b"", b""
    log.write(b"begin\n")
    written += b"begin\n"
    reader = LogReader(path, Wanted())
    for number, (length, look) in enumerate(writes):
        data = bytes(65 + (number + i) % 26 for i in range(length))
        log.write(data)
        written += data
        if look:
            read += b"".join(reader.read())
    read += b"".join(reader.read())
    reader.close()
    assert read == written

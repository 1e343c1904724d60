"""Files as they really arrive: marks, line ends, encodings, compression, cuts and noise."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.traces import sources

from shockwave.model.errors import InputError, TraceError
from shockwave.traces import load, native
from shockwave.traces.base import Rejects
from shockwave.traces.formats import FormatEntry, find_format

TABLES = ("gavel", "sia", "philly-csv", "helios", "acme", "alibaba-2023", "alibaba-2026", "slurm")
COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
}
NOISE = st.binary(min_size=1, max_size=12)


def plain_file(folder: Path, name: str) -> Path:
    path = sources.MAKERS[name](folder)
    if name == "alibaba-2020":
        return path / "pai_job_table.csv"
    return path / "shockwave.db" if name == "database" else path


@pytest.mark.parametrize("name", [*TABLES, "philly", "alibaba-2020", "journal"])
def test_marks_line_ends_and_compression_do_not_matter(tmp_path: Path, name: str) -> None:
    path = plain_file(tmp_path, name)
    expected = load(path)
    text = path.read_bytes()
    windows = b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n")
    if name == "alibaba-2020":
        windows = text.replace(b"\n", b"\r\n")
    path.write_bytes(windows)
    assert load(path, format=name) == expected
    for compress in COMPRESSORS.values():
        path.write_bytes(compress(text))
        assert load(path) == expected


@pytest.mark.parametrize("name", [*TABLES, "philly", "alibaba-2020", "journal"])
@pytest.mark.parametrize("packed", COMPRESSORS)
def test_compressed_data_that_ends_early_is_an_error_with_a_line(
    tmp_path: Path, name: str, packed: str
) -> None:
    path = plain_file(tmp_path, name)
    data = COMPRESSORS[packed](path.read_bytes())
    path.write_bytes(data[: len(data) * 2 // 3])
    with pytest.raises(TraceError, match=r"after line \d+: the compressed data is damaged"):
        load(path, format=name)


def test_zstandard_that_ends_early_is_an_error_with_a_line(tmp_path: Path) -> None:
    pytest.importorskip("zstandard", reason="Zstandard needs the package zstandard")
    path = tmp_path / "trace.jsonl.zst"
    native.write(load("generated:jobs=200"), path)
    assert len(load(path)) == 200
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(TraceError, match=r"after line \d+: the compressed data is damaged"):
        load(path)
    path.write_bytes(data[:40] + b"\x00\x00\x00" + data[43:])
    with pytest.raises(TraceError, match=r"damaged|line"):
        load(path)


@pytest.mark.parametrize("name", ["philly-csv", "helios", "acme", "alibaba-2023", "slurm"])
def test_a_row_in_another_encoding_is_counted(tmp_path: Path, name: str) -> None:
    path = plain_file(tmp_path, name)
    before = len(load(path))
    path.write_bytes(path.read_bytes() + "Jürgen,Größe,ä\n".encode("latin-1"))
    rejects = Rejects()
    assert len(list(find_format(path).stream(path, rejects))) == before
    assert rejects.reasons["are not UTF-8 text"] == 1


@pytest.mark.parametrize("name", ["philly-csv", "helios", "acme", "alibaba-2023", "slurm"])
def test_a_missing_column_is_named_with_its_line(tmp_path: Path, name: str) -> None:
    path = plain_file(tmp_path, name)
    column = sorted(FormatEntry(name).load().columns)[0]  # type: ignore[attr-defined]
    text = path.read_text()
    path.write_text(text.replace(column, "colour", 1))
    with pytest.raises(TraceError, match=rf"line 1: is no {name} trace: column '{column}' is miss"):
        load(path, format=name)


@pytest.mark.parametrize("name", ["philly-csv", "helios", "acme", "alibaba-2023", "slurm"])
def test_a_file_that_is_cut_off_loses_its_last_row_and_says_so(tmp_path: Path, name: str) -> None:
    path = plain_file(tmp_path, name)
    whole, cut = Rejects(), Rejects()
    jobs = list(find_format(path).stream(path, whole))
    lines = path.read_text().splitlines()
    good = int(str(jobs[-1].extra["source"]).rpartition(":")[2])
    path.write_text("\n".join(lines[: good - 1]) + "\n" + lines[good - 1][:20])
    assert list(find_format(path).stream(path, cut)) == jobs[:-1]
    assert cut.reasons["have more or fewer cells than the header"] >= 1


@pytest.mark.parametrize(
    "date", ["2017-02-30 00:00:00", "2017-13-01", "yesterday", "9999999-01-01", "0000-00-00"]
)
def test_dates_that_do_not_exist_are_counted(tmp_path: Path, date: str) -> None:
    path = tmp_path / "philly.csv"
    path.write_text(sources.PHILLY_CSV + f"{date},66.0,1,66.0,11cb48\n")
    rejects = Rejects()
    list(find_format(path).stream(path, rejects))
    assert rejects.reasons["have a submission that is no date"] == 1


def test_how_many_rows_are_not_used_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    load(plain_file(tmp_path, "philly-csv"))
    assert "2 of 4 rows are not used: 1 ran for no time, 1 have no duration" in caplog.text


def read_whatever(path: Path, name: str) -> None:
    """Reads, and writes what could be read; only errors that are meant for people may come."""
    try:
        jobs = FormatEntry(name).load().read(path)
    except InputError as error:
        message = str(error)
    else:
        message = ""
        native.write(jobs, path.parent / "again.jsonl")
    assert "\n" not in message


@pytest.mark.parametrize("name", sources.MAKERS)
def test_noise_gives_rejects_or_errors_and_no_traceback(tmp_path: Path, name: str) -> None:
    path = plain_file(tmp_path, name)
    original = path.read_bytes()

    @settings(
        max_examples=30,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(
        noise=NOISE,
        at=st.floats(0, 1),
        cut=st.integers(0, 40),
        seed=st.integers(0, 2**32),
    )
    def disturbed(noise: bytes, at: float, cut: int, seed: int) -> None:
        place = int(at * len(original))
        data = original[:place] + noise + original[place + cut :]
        cells = data.split(b",")
        shuffled = random.Random(seed)
        if seed % 3 == 0 and len(cells) > 2:  # values in places where they do not belong
            one, other = shuffled.sample(range(len(cells)), 2)
            cells[one], cells[other] = cells[other], cells[one]
            data = b",".join(cells)
        path.write_bytes(data)
        read_whatever(path, name)

    disturbed()


@pytest.mark.parametrize("name", sources.MAKERS)
@settings(
    max_examples=25,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode()))
def test_anything_at_all_gives_an_error_and_no_traceback(
    tmp_path: Path, name: str, data: bytes
) -> None:
    path = tmp_path / "anything"
    path.write_bytes(data)
    read_whatever(path, name)


ODD_VALUES = (
    "", "0", "-1", "1", "8", "1e999", "nan", "None", "1e15", "0.5", "2020-06-09 18:41:01", "x",
    "2020-06-09T18:41:01+99:00", "9" * 400, "٣", "\x00", "a\u2028b", '"', "1|2", "../..",
)  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_odd_values_in_every_cell_give_rejects_and_no_traceback(tmp_path: Path, name: str) -> None:
    path = plain_file(tmp_path, name)
    delimiter = {"gavel": "\t", "slurm": "|"}.get(name, ",")
    header, *rows = path.read_text().splitlines()
    if name == "gavel":
        header, rows = "", [header, *rows]
    width = len(rows[0].split(delimiter))

    @settings(max_examples=50, deadline=None, database=None)
    @given(
        cells=st.dictionaries(
            st.integers(0, width - 1), st.sampled_from(ODD_VALUES), min_size=1, max_size=3
        )
    )
    def disturbed(cells: dict[int, str]) -> None:
        row = rows[0].split(delimiter)
        for column, value in cells.items():
            row[column] = value
        path.write_text("\n".join([header, delimiter.join(row), rows[1]]), encoding="utf-8")
        read_whatever(path, name)

    disturbed()

"""Loading by path, by recipe and through plug-ins, good and broken ones."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from shockwave.model import registry
from shockwave.model.errors import InputError, TraceError
from shockwave.traces import Mix, available, generate, load, native
from shockwave.traces.formats import find_format

GOLDEN = Path(__file__).parent / "golden" / "native.jsonl"

PLUG_IN = """
from shockwave.traces import TraceFormat, native

class Reversed(TraceFormat):
    name = "reversed"
    suffixes = (".rev",)
    def read(self, path):
        return native.read(path)[::-1]

class Raising(TraceFormat):
    name = "raising"
    suffixes = (".raise",)
    def read(self, path):
        raise KeyError("column 'gpus'")

class Doubling(TraceFormat):
    name = "doubling"
    def read(self, path):
        return native.read(path) * 2

class Empty(TraceFormat):
    name = "empty"
    def read(self, path):
        return []

class Wrong(TraceFormat):
    name = "wrong"
    def read(self, path):
        return ["a job"]

class NotAFormat:
    pass

class Unfinished(TraceFormat):
    name = "unfinished"
"""


@pytest.fixture
def plug_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Installs a distribution of plug-ins, as pip would, in a folder on the path."""
    site = tmp_path / "site"
    (site / "stranger-1.0.dist-info").mkdir(parents=True)
    (site / "stranger_formats.py").write_text(PLUG_IN, encoding="utf-8")
    (site / "stranger_broken.py").write_text("import no_such_module\n", encoding="utf-8")
    (site / "stranger-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n", encoding="utf-8"
    )
    (site / "stranger-1.0.dist-info" / "entry_points.txt").write_text(
        "[shockwave.traces]\n"
        "broken = stranger_broken:Format\n"
        "reversed = stranger_formats:Reversed\n"
        "raising = stranger_formats:Raising\n"
        "doubling = stranger_formats:Doubling\n"
        "empty = stranger_formats:Empty\n"
        "wrong = stranger_formats:Wrong\n"
        "no-format = stranger_formats:NotAFormat\n"
        "unfinished = stranger_formats:Unfinished\n"
        "native = stranger_broken:Native\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "stranger_formats", raising=False)
    return site


def test_a_path_is_read_by_its_suffix() -> None:
    assert load(GOLDEN) == load(str(GOLDEN)) == native.read(GOLDEN)


def test_a_recipe_is_generated_and_a_seed_given_apart_wins() -> None:
    assert load("generated:jobs=5,seed=3") == generate(Mix(jobs=5, seed=3))
    assert load("generated:jobs=5,seed=3", seed=8) == generate(Mix(jobs=5, seed=8))


def test_the_native_format_needs_no_installed_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "entry_points", lambda group: ())
    assert next(iter(available())) == "native"
    assert load(GOLDEN)


def test_a_file_is_recognised_by_what_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    shutil.copy(GOLDEN, path)
    assert load(path) == load(path, format="native") == native.read(GOLDEN)


def test_a_file_that_nobody_recognises_lists_the_formats(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("colour,taste\nred,sweet\n")
    with pytest.raises(
        InputError, match=r"trace\.csv: no trace format .*got 'colour,taste'.*native, gavel.*--from"
    ):
        load(path)


def test_an_unknown_format_lists_the_formats() -> None:
    with pytest.raises(InputError, match=r"no such trace format \(got 'x'\)\. There are: native"):
        load(GOLDEN, format="x")


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"missing: no such file.*generated:jobs=120"):
        load(tmp_path / "missing")
    with pytest.raises(TraceError, match="is a folder"):
        load(tmp_path)


def test_a_plug_in_is_found_by_suffix_and_its_jobs_are_sorted(
    plug_ins: Path, tmp_path: Path
) -> None:
    path = tmp_path / "trace.rev"
    shutil.copy(GOLDEN, path)
    assert available()["reversed"].provider == "stranger"
    assert find_format(path).name == "reversed"
    arrivals = [job.spec.arrival_seconds for job in load(path)]
    assert arrivals == sorted(arrivals)


def test_a_broken_plug_in_breaks_nothing_else(plug_ins: Path) -> None:
    assert load(GOLDEN) == native.read(GOLDEN)  # which a plug-in tried to take the name of
    assert "broken" in available()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("broken", r"'broken' \(stranger_broken:Format, from stranger\): cannot be loaded: Module"),
        ("no-format", r"'no-format' .*is not a subclass of shockwave\.traces\.base\.TraceFormat"),
        ("unfinished", r"'unfinished' .*cannot be used: TypeError: .*abstract"),
        ("raising", r"native\.jsonl: trace format 'raising' .*failed to read it: KeyError: .*gpus"),
        ("doubling", r"'doubling' .*gave two jobs of the same id \(got 'a'\)"),
        ("empty", r"'empty' .*found no jobs"),
        ("wrong", r"'wrong' .*gave something that is not a TraceJob \(got 'a job'\)"),
    ],
)
def test_using_a_broken_plug_in_names_it(plug_ins: Path, name: str, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        load(GOLDEN, format=name)


def test_a_file_nobody_recognises_tells_of_plug_ins_that_might_have(
    plug_ins: Path, tmp_path: Path
) -> None:
    path = tmp_path / "trace.xyz"
    path.write_text("colour,taste\n")
    with pytest.raises(InputError, match=r"reversed.*'broken' .*No module named"):
        load(path)

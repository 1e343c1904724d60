"""Classes by name: built-in ones, and packages that bring theirs, sound ones and broken ones."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shockwave.executors.live import EXECUTORS
from shockwave.model.errors import InputError
from shockwave.model.registry import Registry
from shockwave.policies import registry as policies
from shockwave.policies.base import Policy
from shockwave.policies.registry import POLICIES
from shockwave.predict import registry as predictors
from shockwave.predict.base import Predictor
from shockwave.predict.registry import PREDICTORS
from shockwave.traces import formats
from shockwave.traces.formats import FORMATS

Install = Callable[[str, str, str], None]

GOOD = """
from shockwave.model.job import JobSpec, Regime, TraceJob
from shockwave.policies.fifo import Fifo
from shockwave.predict.reactive import Reactive
from shockwave.traces.base import TraceFormat

class Lifo(Fifo):
    name = "lifo"

class Mood(Reactive):
    name = "mood"

class One(TraceFormat):
    name = "one"
    suffixes = (".one",)

    def read(self, path):
        return [TraceJob(JobSpec("only", 0.0, 1, 1, (32,), (5.0,)), (Regime(32, 1, 5.0),))]

class Abstract(Fifo.__mro__[1]):
    name = "abstract"

not_a_class = 3
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs packages of one module and one entry point each into a folder on the path."""
    monkeypatch.syspath_prepend(tmp_path)
    modules: list[str] = []

    def add(package: str, entry: str, code: str) -> None:
        module = package.replace("-", "_")
        modules.append(module)
        (tmp_path / f"{module}.py").write_text(code)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entry)
        importlib.invalidate_caches()

    yield add
    for module in modules:
        sys.modules.pop(module, None)


@pytest.fixture
def good(install: Install) -> None:
    install(
        "good-pack",
        "[shockwave.policies]\nlifo = good_pack:Lifo\n"
        "[shockwave.predictors]\nmood = good_pack:Mood\n"
        "[shockwave.traces]\none = good_pack:One\n",
        GOOD,
    )


@pytest.mark.usefixtures("good")
def test_plug_ins_are_found_and_made(tmp_path: Path) -> None:
    assert "lifo" in policies.names()
    assert policies.create("lifo").name == "lifo"
    assert isinstance(policies.create("lifo"), Policy)
    assert "mood" in predictors.names()
    assert isinstance(predictors.create("mood"), Predictor)
    assert formats.available()["one"].provider == "good-pack"
    path = tmp_path / "trace.one"
    path.touch()
    assert [job.spec.id for job in formats.load(path)] == ["only"]


@pytest.mark.usefixtures("good")
def test_plug_ins_are_not_imported_before_they_are_used() -> None:
    policies.names()
    predictors.names()
    formats.available()
    assert "good_pack" not in sys.modules


def test_without_plug_ins_there_are_none() -> None:
    assert Registry("policy", "shockwave.no-such-group", Policy, {}).names() == []


@pytest.mark.usefixtures("good")
def test_a_broken_plug_in_is_an_error_for_who_uses_it_and_nobody_else(
    install: Install, tmp_path: Path
) -> None:
    install(
        "bad-pack",
        "[shockwave.policies]\nbroken = bad_pack:Broken\n"
        "[shockwave.traces]\nbroken = bad_pack:Broken\n",
        "raise RuntimeError('half installed')",
    )
    message = r"plug-in 'broken' .*bad-pack.*RuntimeError: half installed.*uninstall bad-pack"
    with pytest.raises(InputError, match=message):
        policies.create("broken")
    with pytest.raises(InputError, match=message):
        formats.available()["broken"].load()
    assert policies.create("lifo").name == "lifo"
    assert policies.create("fifo").name == "fifo"
    assert predictors.create("mood").name == "mood"
    path = tmp_path / "trace.one"
    path.touch()
    assert len(formats.load(path)) == 1


def test_a_broken_predictor_is_an_error_that_names_the_package(install: Install) -> None:
    install("bad-pack", "[shockwave.predictors]\nbroken = bad_pack:Broken\n", "raise RuntimeError")
    with pytest.raises(InputError, match=r"'broken' .*bad-pack.*RuntimeError"):
        predictors.create("broken")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("not_a_class", r"good-pack.*is not a subclass of shockwave\.policies\.base\.Policy"),
        ("Mood", r"good-pack.*is not a subclass of shockwave\.policies\.base\.Policy"),
        ("Missing", r"good-pack.*AttributeError"),
        ("Abstract", r"good-pack.*abstract"),
    ],
)
def test_a_plug_in_that_is_no_policy_is_an_error(
    install: Install, target: str, message: str
) -> None:
    install("good-pack", f"[shockwave.policies]\nodd = good_pack:{target}\n", GOOD)
    with pytest.raises(InputError, match=message):
        policies.create("odd")


def test_a_plug_in_cannot_take_the_name_of_a_built_in(install: Install) -> None:
    install(
        "good-pack",
        "[shockwave.policies]\ngavel = good_pack:Lifo\n"
        "[shockwave.predictors]\nreactive = good_pack:Mood\n",
        GOOD,
    )
    assert policies.create("gavel").name == "gavel"
    assert policies.names().count("gavel") == 1
    assert predictors.create("reactive").name == "reactive"
    assert predictors.names().count("reactive") == 1


@pytest.mark.parametrize(
    "registry", [POLICIES, PREDICTORS, FORMATS, EXECUTORS], ids=lambda r: r.kind
)
def test_what_is_built_in_has_the_name_that_it_is_found_by(registry: Registry[Any]) -> None:
    for name in registry.built_in:
        assert registry.load(name).name == name
        assert registry.provider(name) == "shockwave-scheduler"


@pytest.mark.usefixtures("good")
def test_a_class_is_named_directly(tmp_path: Path) -> None:
    assert policies.create("good_pack:Lifo").name == "lifo"
    assert predictors.create("good_pack:Mood").name == "mood"
    assert [job.spec.id for job in formats.load(tmp_path, format="good_pack:One")] == ["only"]


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("no_such_module:Lifo", "cannot be loaded: ModuleNotFoundError.*PYTHONPATH"),
        ("good_pack:Missing", "cannot be loaded: AttributeError"),
        ("good_pack:Mood", r"is not a subclass of shockwave\.policies\.base\.Policy"),
        ("good_pack:Abstract", "cannot be used: TypeError.*abstract"),
        ("good pack:Lifo", r"no such policy.*There are: shockwave, .*my_package:MyClass"),
    ],
)
@pytest.mark.usefixtures("good")
def test_a_class_that_cannot_be_used_is_an_error_that_names_it(
    reference: str, message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        policies.create(reference)
    assert repr(reference) in str(caught.value)

"""The catalogue of settings: how each is spelled, what it says of itself, where it is shown.

It is made from the settings of ``serve`` and the options of the executors. Flags, environment
variables, the configuration file, ``shockwave config`` and the page of the documentation are made
from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from shockwave.executors.live import EXECUTORS
from shockwave.server.settings import OPTIONS, ServeConfig

ENVIRONMENT_PREFIX = "SHOCKWAVE_"
# The groups of settings, by their first: in the help, and in the documentation.
_PANELS = {
    "state_dir": "State",
    "socket": "Listening",
    "operators": "People",
    "policy": "Deciding",
    "executor": "Running jobs",
    "most_crashes": "Jobs that fail or hang",
    "notify": "Notifications",
}
_FURTHER_FLAGS = {
    "policy": "-p",
    "round_seconds": "--round",
    "restart_seconds": "--restart",
    "stop_jobs": "--keep-jobs",
}


@dataclass(frozen=True)
class Setting:
    """One setting: ``name`` in a file, ``--name`` as a flag, ``SHOCKWAVE_NAME`` in the environment.

    ``panel`` is the group that it is shown in, ``executor`` the one that it is an option of, and
    ``key`` its name among those.
    """

    name: str
    key: str
    field: FieldInfo
    panel: str
    executor: str | None = None

    @property
    def variable(self) -> str:
        return ENVIRONMENT_PREFIX + self.name.upper()

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def flags(self) -> list[str]:
        """Its spellings on the command line. A switch has one for each position."""
        further = _FURTHER_FLAGS.get(self.name)
        if self.kind is bool:
            return [f"{self.flag}/{further or self.flag.replace('--', '--no-', 1)}"]
        return [self.flag, *([further] if further else [])]

    @property
    def is_secret(self) -> bool:
        return SecretStr in _types(self.field.annotation)

    @property
    def is_table(self) -> bool:
        """Whether it can only be written in a file."""
        return get_origin(self.field.annotation) is dict

    @property
    def kind(self) -> type:
        """The type of its values, as far as it matters to somebody who writes one."""
        known = {kind for kind in _types(self.field.annotation) if isinstance(kind, type)}
        if str in known:
            return str
        return next((kind for kind in (bool, int, float, Path) if kind in known), str)

    @property
    def description(self) -> str:
        """In plain words, on one line."""
        return " ".join((self.field.description or "").replace("``", "").split())

    @property
    def default(self) -> str:
        """As it is written; empty where nothing is set by default, or what depends on the place."""
        is_fixed = not (self.field.default_factory or self.field.is_required())
        value = self.field.default if is_fixed else None
        if isinstance(value, bool | float):
            return f"{value:g}" if isinstance(value, float) else str(value).lower()
        return "" if value in (None, ()) else str(value)


def common_settings() -> Iterator[Setting]:
    """Those that hold whatever the executor."""
    panel = ""
    for name, field in ServeConfig.model_fields.items():
        panel = _PANELS.get(name, panel)
        if name != OPTIONS:
            yield Setting(name, name, field, panel)


def settings_of(executor: str) -> Iterator[Setting]:
    """Those that are made from the options of an executor. Raises :class:`InputError`."""
    kind = EXECUTORS.load(executor)
    for key, field in kind.SiteOptions.model_fields.items():
        name = f"{kind.name.replace('-', '_')}_{key}"
        yield Setting(name, key, field, f"Executor {kind.name}", kind.name)


def known_settings(executor: str | None = None) -> dict[str, Setting]:
    """By name: the common ones, those of the built-in executors, and those of ``executor``.

    An executor of another package cannot take the name of a setting that exists.
    """
    executors = dict.fromkeys([*EXECUTORS.built_in, *([executor] if executor else [])])
    known = {setting.name: setting for setting in common_settings()}
    for name in executors:
        for setting in settings_of(name):
            known.setdefault(setting.name, setting)
    return known


def _types(annotation: Any) -> Iterator[Any]:
    """The annotation and all that it is made of, such as the parts of a union."""
    yield annotation
    for part in get_args(annotation):
        yield from _types(part)

"""The settings in force, from four sources.

Flags win over environment variables (``SHOCKWAVE_PORT=7411``), those over the TOML file, that
over the defaults. The file has the names of the settings as keys. Options of an executor may
also stand in a section: ``slurm_partition = "gpu"`` is ``partition = "gpu"`` below ``[slurm]``.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr, ValidationError

from shockwave.executors.live import EXECUTORS
from shockwave.model.errors import InputError
from shockwave.server.settings import OPTIONS, ServeConfig
from shockwave.server.settings_catalogue import (
    Setting,
    common_settings,
    known_settings,
    settings_of,
)

__all__ = ["EffectiveConfig", "ServeConfig", "load_config"]

CONFIG_VARIABLE = "SHOCKWAVE_CONFIG"
DEFAULT_FILE = "shockwave.toml"  # in the working directory, if it is there
_HINT = "See 'shockwave config' for all settings"


@dataclass(frozen=True)
class EffectiveConfig:
    """The settings, and where each of them came from."""

    config: ServeConfig
    sources: Mapping[str, str]

    def values(self) -> Iterator[tuple[str, Any]]:
        """Every setting that this executor has, by name."""
        for setting in common_settings():
            yield setting.name, _plain(getattr(self.config, setting.key))
        for setting in settings_of(self.config.executor):
            yield setting.name, _plain(getattr(self.config.site_options, setting.key))

    def to_toml(self) -> str:
        """As a file that could be read back, except that a token is not shown."""
        return "".join(f"{self._line(name, value)}\n" for name, value in self.values())

    def to_json(self) -> str:
        """The same for programs."""
        settings = {
            name: "set, and not shown" if isinstance(value, SecretStr) else value
            for name, value in self.values()
        }
        return json.dumps({"settings": settings, "sources": dict(self.sources)}, indent=1)

    def _line(self, name: str, value: object) -> str:
        source = self.sources.get(name, "default")
        if isinstance(value, SecretStr):
            return f"# {name} is set, and not shown  # {source}"
        if value is None:
            return f"# {name} is not set  # {source}"
        if name == "slots" and self.config.discovers_nodes:
            return f"# {name}: the executor knows  # {source}"
        return f"{name} = {_toml(value)}  # {source}"


def load_config(
    file: Path | None = None,
    *,
    flags: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
) -> EffectiveConfig:
    """Settings from all sources.

    ``file`` defaults to ``$SHOCKWAVE_CONFIG``, else to ``./shockwave.toml`` if that exists.
    Raises :class:`InputError` that names the source, the key and the value.
    """
    given = _Given(file, os.environ if environment is None else environment, flags or {})
    given.collect_one(next(setting for setting in common_settings() if setting.name == "executor"))
    executor = str(given.values.get("executor") or ServeConfig.model_fields["executor"].default)
    try:
        own_name = EXECUTORS.load(executor).name
        known = known_settings(executor)
    except InputError as error:
        problem = f"{error.source}: {error.problem}" if error.source else error.problem
        raise given.wrong("executor", problem, value=executor, hint=error.hint) from error
    given.collect(known)
    values: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for name, value in given.values.items():
        setting = known.get(name)
        if setting is None:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0]}?" if near else None
            raise given.wrong(name, "there is no such setting", hint=hint)
        if setting.executor not in (None, own_name):
            problem = f"{name} is for the executor {setting.executor}, but executor is {executor}"
            raise given.wrong(name, problem)
        (values if setting.executor is None else options)[setting.key] = value
    try:
        config = ServeConfig.model_validate({**values, OPTIONS: options})
    except ValidationError as error:
        raise given.explained(error, known, own_name) from error
    return EffectiveConfig(config, given.sources)


@dataclass
class _Given:
    """What was given, where, and how to speak about it."""

    file: Path | None
    environment: Mapping[str, str]
    flags: Mapping[str, object]
    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.file = self.file or _default_file(self.environment)
        self._text = "" if self.file is None else _read(self.file)
        self._parsed = {} if self.file is None else _parse(self.file, self._text)
        self._sections: dict[str, tuple[str, str]] = {}  # section and key, by setting

    def collect(self, known: Mapping[str, Setting]) -> None:
        """All values, the nearest source last. A token in a file is an error."""
        for setting in known.values():
            section = self._parsed.get(setting.executor or "")
            if isinstance(section, dict):
                del self._parsed[str(setting.executor)]
                for key, value in section.items():
                    name = f"{setting.name.removesuffix(setting.key)}{key}"
                    self._parsed[name] = value
                    self._sections[name] = (str(setting.executor), key)
        for setting in known.values():
            if setting.is_secret and setting.name in self._parsed:
                its_hash = "Put its SHA-256 there as token_sha256, or set"
                raise InputError(
                    f"a {setting.key.rpartition('_')[2]} is not kept in a file",
                    source=str(self.file),
                    place=setting.name,
                    hint=f"{its_hash if setting.name == 'token' else 'Set'} {setting.variable}",
                )
        self.values |= self._parsed
        self.sources |= dict.fromkeys(self._parsed, str(self.file))
        for setting in known.values():
            self.collect_one(setting)
        for name in self.flags.keys() - known:
            self.values[name], self.sources[name] = self.flags[name], name

    def collect_one(self, setting: Setting) -> None:
        """From the nearest source that has it."""
        variable = None if setting.is_table else self.environment.get(setting.variable)
        found = (
            (self._parsed.get(setting.name), str(self.file)),
            (variable or None, setting.variable),
            (self.flags.get(setting.name), setting.flag),
        )
        for value, source in found:
            if value is not None:
                self.values[setting.name], self.sources[setting.name] = value, source

    def explained(
        self, error: ValidationError, known: Mapping[str, Setting], executor: str
    ) -> InputError:
        """The first problem, at the place where a person can repair it."""
        first = error.errors(include_url=False, include_context=False)[0]
        problem = re.sub(r"^(Value error|Assertion failed), ", "", first["msg"])
        place = [str(part) for part in first["loc"]]
        if place[:1] == [OPTIONS]:
            place = [f"{executor.replace('-', '_')}_{key}" for key in place[1:2]]
        if not place:
            return InputError(problem, source="configuration", hint=_HINT)
        shown = None if known[place[0]].is_secret else first["input"]
        return self.wrong(place[0], problem, value=shown)

    def wrong(
        self,
        name: str,
        problem: str,
        *,
        value: object = None,
        hint: str | None = None,
    ) -> InputError:
        """The error, at the place where the setting was made."""
        came_from = self.sources.get(name, "default")
        place: str | None = None  # a variable or a flag says it all
        if came_from == str(self.file):
            line = self._line_of(name)
            place = name if line is None else f"line {line}, {name}"
        elif came_from == "default":
            place = name
        return InputError(problem, source=came_from, place=place, value=value, hint=hint or _HINT)

    def _line_of(self, name: str) -> int | None:
        section, key = self._sections.get(name, ("", name))
        here = ""
        for number, line in enumerate(self._text.splitlines(), start=1):
            header = re.match(r"""\s*\[+\s*["']?([^\]"']+)""", line)
            if header is not None:
                here = header[1].strip()
                if not section and here == name:
                    return number
            elif here == section and re.match(rf"""\s*["']?{re.escape(key)}["']?\s*=""", line):
                return number
        return None


def _default_file(environment: Mapping[str, str]) -> Path | None:
    if environment.get(CONFIG_VARIABLE):
        return Path(environment[CONFIG_VARIABLE])
    here = Path(DEFAULT_FILE)
    return here if here.is_file() else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"the configuration cannot be read: {error.strerror}", source=str(path)
        ) from error
    except UnicodeDecodeError as error:
        raise InputError("the configuration is not UTF-8 text", source=str(path)) from error


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem, _, place = str(error).partition(" (at ")
        raise InputError(
            f"not TOML: {problem}",
            source=str(path),
            place=place.rstrip(")") or None,
            hint="A setting looks like: round_seconds = 60",
        ) from error


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return str(value) if isinstance(value, Path) else value


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        inside = ", ".join(f"{json.dumps(name)} = {_toml(item)}" for name, item in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    return json.dumps(value, ensure_ascii=False)

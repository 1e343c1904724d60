"""The settings of ``shockwave serve``: one model, four sources.

Flags win over environment variables (``SHOCKWAVE_PORT=7411``), those over the TOML file,
that over the defaults. The file has the fields of :class:`ServeConfig` as top-level keys.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from shockwave.engine.loop import Rounds
from shockwave.engine.retry import Retries
from shockwave.executors import live as executors
from shockwave.model.cluster import Cluster
from shockwave.model.errors import InputError
from shockwave.policies import registry as policies
from shockwave.predict import registry as predictors
from shockwave.server.slurm_options import (
    SlurmCount,
    SlurmFeatures,
    SlurmMemory,
    SlurmName,
    SlurmNames,
)
from shockwave.server.tokens import hash_token, is_loopback

ENVIRONMENT_PREFIX = "SHOCKWAVE_"
CONFIG_VARIABLE = "SHOCKWAVE_CONFIG"
DEFAULT_FILE = "shockwave.toml"  # in the working directory, if it is there
_SHORTEST_TOKEN = 16
_ADDRESS = r"^(auto|[^-\s:]\S*:[0-9]{1,5})$"  # HOST:PORT
_ONE_WORD = r"^[^-\s]\S*$"
_ENGINES = ("ray", "slurm")  # with settings of their own, which begin with the name


def _default_state_dir() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "shockwave"


def _gpus_of_this_machine() -> int:
    """What the NVIDIA driver lists; one emulated slot where there is none."""
    try:
        return len(os.listdir("/proc/driver/nvidia/gpus")) or 1
    except OSError:
        return 1


class ServeConfig(BaseModel):
    """How a live scheduler runs. Times are in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    state_dir: Path = Field(default_factory=_default_state_dir)
    database_url: str | None = None  # None: SQLite in the state directory
    host: str = "127.0.0.1"
    port: int = Field(7410, ge=0, le=65_535)  # 0: any free port
    token: SecretStr | None = None  # from the environment only; a file holds its hash
    token_sha256: str | None = Field(None, pattern=r"^[0-9a-f]{64}$")
    max_body_bytes: int = Field(1 << 20, ge=1024)

    policy: str = Field(default_factory=lambda: policies.names()[0])
    predictor: str | None = None  # None: the one that the policy is meant for
    seed: int = Field(0, ge=0)
    round_seconds: float = Field(120.0, gt=0)
    restart_seconds: float = Field(20.0, ge=0)

    executor: str = "local"
    slots: int = Field(default_factory=_gpus_of_this_machine, ge=1, le=100_000)
    gpus_per_node: int | None = Field(None, ge=1)  # None: all slots on one node
    grace_seconds: float = Field(30.0, ge=0)
    start_seconds: float = Field(60.0, gt=0)  # that an engine has to start a gang
    ray_address: str | None = Field(None, pattern=_ADDRESS)  # None: a cluster of slots, here
    slurm_partition: SlurmNames | None = None  # for jobs that do not say, as the next five
    slurm_account: SlurmName | None = None
    slurm_qos: SlurmName | None = None
    slurm_constraint: SlurmFeatures | None = None
    slurm_cpus_per_gpu: SlurmCount | None = None
    slurm_mem_per_gpu: SlurmMemory | None = None
    slurm_python: str | None = Field(None, pattern=_ONE_WORD)  # Python 3.11+ on the nodes
    stop_jobs: bool = False  # at shutdown; else they run on and are adopted at the next start

    most_crashes: int = Field(3, ge=1)  # in a row without progress, then the job is failed
    first_back_off_seconds: float = Field(10.0, ge=0)
    longest_back_off_seconds: float = Field(600.0, ge=0)

    @field_validator("state_dir")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return Path(os.path.abspath(value.expanduser()))

    @field_validator("policy")
    @classmethod
    def _known_policy(cls, value: str) -> str:
        if value not in policies.names():
            raise ValueError(f"no such policy; there are {', '.join(policies.names())}")
        return value

    @field_validator("executor")
    @classmethod
    def _known_executor(cls, value: str) -> str:
        if value not in executors.names():
            raise ValueError(f"no such executor; there are {', '.join(executors.names())}")
        return value

    @field_validator("predictor")
    @classmethod
    def _known_predictor(cls, value: str | None) -> str | None:
        usable = [name for name in predictors.names() if name != "oracle"]
        if value is not None and value not in usable:
            raise ValueError(f"no such predictor for live jobs; there are {', '.join(usable)}")
        return value

    @field_validator("token")
    @classmethod
    def _long_enough(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value()) < _SHORTEST_TOKEN:
            raise ValueError(f"a token has at least {_SHORTEST_TOKEN} characters")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.restart_seconds >= self.round_seconds:
            raise ValueError(
                f"restart_seconds ({self.restart_seconds:g}) must be below round_seconds "
                f"({self.round_seconds:g}), or no job would ever make progress"
            )
        self._check_executor()
        if not is_loopback(self.host) and self.token_hash is None:
            raise ValueError(
                f"host {self.host!r} can be reached by others, so a token is required: "
                "set SHOCKWAVE_TOKEN or token_sha256, or stay on 127.0.0.1"
            )
        return self

    def _check_executor(self) -> None:
        """A setting that would be passed over is a mistake."""
        for name in self.engine_options:
            engine = name.partition("_")[0]
            if engine != self.executor:
                raise ValueError(
                    f"{name} is for the executor {engine}, but executor is {self.executor}"
                )
        if self.discovers_nodes:
            for name in ("slots", "gpus_per_node"):
                if name in self.model_fields_set and getattr(self, name) is not None:
                    knows = "Slurm" if self.executor == "slurm" else "the cluster at ray_address"
                    raise ValueError(f"{name} is not for this executor: {knows} knows its GPUs")

    @property
    def engine_options(self) -> dict[str, str]:
        """The settings that only one executor knows, as far as they are set."""
        return {
            name: str(value)
            for name in type(self).model_fields
            if name.startswith(tuple(f"{engine}_" for engine in _ENGINES))
            and (value := getattr(self, name)) is not None
        }

    @property
    def discovers_nodes(self) -> bool:
        """Whether nodes come from the engine, not from these settings."""
        return self.executor == "slurm" or self.ray_address is not None

    @property
    def token_hash(self) -> str | None:
        """The SHA-256 of the operator's token; None where there is none."""
        return (
            self.token_sha256 if self.token is None else hash_token(self.token.get_secret_value())
        )

    @property
    def database(self) -> str:
        """The database's URL."""
        return self.database_url or f"sqlite:///{self.state_dir / 'shockwave.db'}"

    @property
    def cluster(self) -> Cluster:
        """The nodes that these settings make; none where the engine knows them."""
        if self.discovers_nodes:
            return Cluster(())
        return Cluster.uniform(self.slots, self.gpus_per_node or self.slots)

    @property
    def rounds(self) -> Rounds:
        return Rounds(self.round_seconds, self.restart_seconds)

    @property
    def retries(self) -> Retries:
        return Retries(
            self.most_crashes, self.first_back_off_seconds, self.longest_back_off_seconds
        )


@dataclass(frozen=True)
class EffectiveConfig:
    """The settings, and where each of them came from."""

    config: ServeConfig
    sources: Mapping[str, str]

    def to_toml(self) -> str:
        """As a file that could be read back, except that a token is not shown."""
        return "".join(f"{self._line(name)}\n" for name in ServeConfig.model_fields)

    def _line(self, name: str) -> str:
        value = getattr(self.config, name)
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
    environment = os.environ if environment is None else environment
    path = file or _default_file(environment)
    text = "" if path is None else _read(path)
    values: dict[str, object] = {}
    sources: dict[str, str] = {}
    if path is not None:
        values |= _parse(path, text)
        if "token" in values:
            raise InputError(
                "a token is not kept in a file",
                source=str(path),
                place="token",
                hint="Put its SHA-256 there as token_sha256, or set SHOCKWAVE_TOKEN",
            )
        sources |= dict.fromkeys(values, str(path))
    for name in ServeConfig.model_fields:
        variable = ENVIRONMENT_PREFIX + name.upper()
        if environment.get(variable):
            values[name], sources[name] = environment[variable], variable
    for name, value in (flags or {}).items():
        if value is not None:
            values[name], sources[name] = value, "--" + name.replace("_", "-")
    try:
        return EffectiveConfig(ServeConfig.model_validate(values), sources)
    except ValidationError as error:
        raise _explain(error, sources, path, text) from error


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


def _explain(
    error: ValidationError, sources: Mapping[str, str], path: Path | None, text: str
) -> InputError:
    """The first problem, at the place where a person can repair it."""
    first = error.errors(include_url=False, include_context=False)[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    problem = re.sub(r"^(Value error|Assertion failed), ", "", first["msg"])
    if not name:
        return InputError(problem, source="configuration", hint=_HINT)
    source = sources.get(name, "default")
    place: str | None = name
    if path is not None and source == str(path):
        line = _line_of(name, text)
        place = name if line is None else f"line {line}, {name}"
    elif source != "default":
        place = None  # the variable or the flag says it all
    hint = _HINT
    if first["type"] == "extra_forbidden":
        problem = "there is no such setting"
        close = difflib.get_close_matches(name, ServeConfig.model_fields, n=1)
        hint = f"Did you mean {close[0]}?" if close else _HINT
    shown = None if name == "token" else first["input"]
    return InputError(problem, source=source, place=place, value=shown, hint=hint)


_HINT = "See 'shockwave config' for all settings"


def _line_of(name: str, text: str) -> int | None:
    for number, line in enumerate(text.splitlines(), start=1):
        if re.match(rf"""\s*["']?{re.escape(name)}["']?\s*=|\s*\[+\s*{re.escape(name)}\b""", line):
            return number
    return None


def _toml(value: object) -> str:
    if isinstance(value, Path):
        value = str(value)
    return json.dumps(value, ensure_ascii=False)

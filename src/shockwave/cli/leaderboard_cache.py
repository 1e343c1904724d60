"""Results by what they follow from: the code, the policy's own source, the workload."""

from __future__ import annotations

import hashlib
import inspect
import json
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import shockwave
from shockwave.measure.workloads import Figures
from shockwave.policies.registry import POLICIES
from shockwave.protocol.files import atomic_writer

if TYPE_CHECKING:
    from shockwave.cli.leaderboard import Task

# What decides about a figure; doors and real executors do not.
_LAYERS = ("model", "traces", "predict", "plan", "policies", "engine", "measure")


class Cache:
    """A folder of JSON files. A file that is damaged is as good as none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, task: Task) -> Figures | None:
        with suppress(OSError, ValueError):
            found = json.loads(self._path(task).read_text(encoding="utf-8"))
            if isinstance(found, dict):
                return found
        return None

    def put(self, task: Task, figures: Figures) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        with atomic_writer(self._path(task)) as file:
            json.dump(figures, file)

    def _path(self, task: Task) -> Path:
        parts = [json.dumps(asdict(task)), _code(), _policy_source(task.policy)]
        if task.trace is not None:
            parts.append(_content(Path(task.trace)))
        key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        return self._folder / f"{key[:32]}.json"


@lru_cache(maxsize=1)
def _code() -> str:
    root = Path(shockwave.__file__).parent
    files = [file for layer in _LAYERS for file in sorted((root / layer).rglob("*.py"))]
    files += [root / "executors" / f"{name}.py" for name in ("simulated", "simulation", "faults")]
    digest = hashlib.sha256(np.__version__.encode())
    for file in files:
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


@lru_cache(maxsize=64)
def _policy_source(name: str) -> str:
    source = inspect.getsourcefile(POLICIES.load(name))
    return hashlib.sha256(Path(source).read_bytes()).hexdigest() if source else ""


@lru_cache(maxsize=64)
def _content(path: Path) -> str:
    digest = hashlib.sha256()
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    for file in files:
        if file.is_file():
            digest.update(file.read_bytes())
    return digest.hexdigest()

"""A stand-in for NVIDIA's library, for machines without its GPUs. Tests say what it sees."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType
from typing import Any


class NVMLError(Exception):
    pass


@dataclass
class FakeGpu:
    name: str
    gibibytes: int = 80
    processes: set[int] = field(default_factory=set)
    broken: bool = False


@dataclass
class _Memory:
    total: int


@dataclass
class _Process:
    pid: int


def fake_pynvml(gpus: list[FakeGpu], *, driver: bool = True) -> Any:
    """A module that answers as ``pynvml`` would on a machine with these GPUs."""
    module: Any = ModuleType("pynvml")

    def init() -> None:
        if not driver:
            raise NVMLError("Driver Not Loaded")

    def handle(index: int) -> int:
        if gpus[index].broken:
            raise NVMLError("GPU is lost")
        return index

    module.NVMLError = NVMLError
    module.nvmlInit = init
    module.nvmlDeviceGetCount = lambda: len(gpus)
    module.nvmlDeviceGetHandleByIndex = handle
    module.nvmlDeviceGetUUID = lambda index: f"GPU-{index:04d}-fake"
    module.nvmlDeviceGetName = lambda index: gpus[index].name.encode()
    module.nvmlDeviceGetMemoryInfo = lambda index: _Memory(gpus[index].gibibytes * 2**30)
    module.nvmlDeviceGetComputeRunningProcesses = lambda index: [
        _Process(pid) for pid in sorted(gpus[index].processes)
    ]
    return module

"""What NVIDIA's management library says: the GPUs of this machine and who computes on them.

The library is ``nvidia-ml-py`` (``pip install 'shockwave-scheduler[nvidia]'``). Where it or the
driver is missing, nothing is known and nobody is disturbed.
"""

from __future__ import annotations

import importlib
import logging
import re
from dataclasses import dataclass
from typing import Any

logger = logging.getLogger(__name__)

_MAKERS = ("NVIDIA", "GeForce", "Tesla")  # words of a name that tell nothing apart


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of this machine. ``index`` counts in the order of the PCI bus."""

    index: int
    uuid: str
    name: str
    memory_bytes: int

    def is_called(self, device: str) -> bool:
        """Whether ``CUDA_VISIBLE_DEVICES`` means this one: by number, or how its id begins."""
        if device.isdigit():
            return int(device) == self.index
        return bool(device) and self.uuid.startswith(device)

    @property
    def gpu_type(self) -> str:
        """Its name in one word, as jobs ask for it.

        >>> Gpu(0, "", "NVIDIA GeForce RTX 2080 Ti", 0).gpu_type, Gpu(0, "", "Tesla T4", 0).gpu_type
        ('RTX-2080-Ti', 'T4')
        """
        words = [word for word in self.name.split() if word not in _MAKERS]
        return re.sub(r"[^A-Za-z0-9._+-]", "-", "-".join(words))

    def __str__(self) -> str:
        return f"{self.index}: {self.name}, {self.memory_bytes / 2**30:.0f} GiB"


class Library:
    """NVIDIA's library, opened. Whatever it cannot say is left out."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml

    def gpus(self) -> list[Gpu]:
        found: list[Gpu] = []
        try:
            count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            logger.warning("NVIDIA's library does not list GPUs: %s", error)
            return found
        for index in range(count):
            try:
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
                uuid, name = (
                    _text(self._nvml.nvmlDeviceGetUUID(handle)),
                    _text(self._nvml.nvmlDeviceGetName(handle)),
                )
                memory = int(self._nvml.nvmlDeviceGetMemoryInfo(handle).total)
            except self._nvml.NVMLError as error:
                logger.warning("GPU %d does not answer: %s", index, error)
                continue
            found.append(Gpu(index, uuid, name, memory))
        return found

    def computing(self, gpu: Gpu) -> frozenset[int]:
        """The processes that compute on a GPU. One that only draws a desktop is none."""
        try:
            handle = self._nvml.nvmlDeviceGetHandleByIndex(gpu.index)
            found = self._nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        except self._nvml.NVMLError:
            return frozenset()
        return frozenset(int(process.pid) for process in found)


def open_library() -> Library | None:
    """None where it is not installed, or there is no driver for it."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    return Library(nvml)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value

"""What can be said about jobs on this machine: by the operator for all, by a user for one."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from shockwave.executors import options
from shockwave.executors.local.devices import checked, devices_of_slots, types_of, usable_devices
from shockwave.executors.local.limits import bytes_of
from shockwave.model.errors import InputError

_MEMORY = r"^[1-9][0-9]*[KMGT]?$"


def _devices(text: str) -> str:
    checked(text)
    return text


def _memory(text: str) -> str:
    bytes_of(text)
    return text


class LocalSite(options.SiteOptions):
    """Of the machine."""

    devices: Annotated[str, AfterValidator(_devices)] | None = None
    """GPUs to use, by number or id: ``2,3``. Without it, those that ``CUDA_VISIBLE_DEVICES`` of
    the scheduler names, or all."""
    leave_to_others: bool = True
    """Leave GPUs alone on which processes of others compute. Needs NVIDIA's library,
    ``pip install 'shockwave-scheduler[nvidia]'``."""

    def gpus_here(self) -> int:
        return len(usable_devices(self.devices))

    def types_of_slots(self, slots: int) -> list[str]:
        try:
            devices = devices_of_slots(slots, self.devices)
        except InputError:  # there are too few, which the executor says when it is made
            return super().types_of_slots(slots)
        return [kind or options.UNKNOWN_TYPE for kind in types_of(devices)]


class LocalJob(options.JobOptions):
    """Of a job. Limits are kept by control groups of the kernel."""

    memory: (
        Annotated[
            str,
            Field(max_length=16, json_schema_extra={"pattern": _MEMORY}),
            AfterValidator(_memory),
        ]
        | None
    ) = None
    """Memory that the job may use at most, such as ``8G``; beyond it, the kernel ends it."""
    cpus: float | None = Field(None, gt=0, le=4096)
    """Processors that the job may use at most, such as ``4`` or ``0.5``."""

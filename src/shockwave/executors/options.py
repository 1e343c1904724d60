"""Options that only one executor knows: of the site for all jobs, and of a job for itself.

An executor declares them as two pydantic models. Flags, environment variables, the sections of
configuration and job files, and the documentation are made from these.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from shockwave.model.registry import Registry

UNKNOWN_TYPE = "gpu"


class _Options(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    def given(self) -> dict[str, str]:
        """Those that are set, as text."""
        return {name: str(value) for name, value in self.model_dump(exclude_none=True).items()}


class SiteOptions(_Options):
    """What the operator may say. Every field has a default, and a text below it says what it is."""

    def node_source(self) -> str | None:
        """Who knows the nodes; None where the settings of the scheduler say how many GPUs."""
        return None

    def gpus_here(self) -> int:
        """How many GPUs this machine has for the executor; 0 where it has none or need not."""
        return 0

    def types_of_slots(self, slots: int) -> list[str]:
        """The type of GPU behind each of so many slots, as far as it is known."""
        return [UNKNOWN_TYPE] * slots


class JobOptions(_Options):
    """What a user may say about one job. Fields are declared as those of the site."""


# Apart from the executors, because whoever submits a job should not wait for these to load.
JOB_OPTIONS = Registry(
    "executor",
    "shockwave.executors",
    JobOptions,
    {
        "local": "shockwave.executors.local.options:LocalJob",
        "slurm": "shockwave.executors.slurm.options:SlurmJobOptions",
        "ray": "shockwave.executors.options:JobOptions",
    },
)

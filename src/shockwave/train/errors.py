"""The errors of a training session.

::

    ShockwaveError
    ├── CheckpointError     a checkpoint could not be written, or not be understood
    ├── Fenced              a newer launch of the same job has taken over
    └── RankLost            the ranks of a job can no longer agree: one of them is gone
"""

from __future__ import annotations

from shockwave.model.errors import ShockwaveError


class CheckpointError(ShockwaveError, RuntimeError):
    """A checkpoint could not be written (the older ones are intact) or not be decoded."""


class Fenced(ShockwaveError, RuntimeError):  # noqa: N818 - the name is the protocol's
    """A newer generation of this job runs: this one may no longer write anything."""

    def __init__(self, own_generation: int, newer_generation: int, seen_in: str) -> None:
        self.own_generation = own_generation
        self.newer_generation = newer_generation
        super().__init__(
            f"generation {own_generation} of this job was replaced by generation "
            f"{newer_generation} (seen in {seen_in}): nothing was written. "
            "End this process; the newer one carries on"
        )


class RankLost(ShockwaveError, RuntimeError):  # noqa: N818 - a fact about the world
    """Another rank of this job left without an agreement, so no rank can go on."""

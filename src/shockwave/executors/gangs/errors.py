"""What can go wrong between the scheduler and whatever runs its gangs."""

from __future__ import annotations

from shockwave.model.errors import ExecutorError


class LaunchError(Exception):
    """The launch can never work as it is: the job's fault; says why."""


class BackendAway(ExecutorError):  # noqa: N818  (a state of affairs)
    """Slurm or Ray does not answer: an outage to ride out, nobody's fault."""

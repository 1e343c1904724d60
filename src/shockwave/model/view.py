"""What a scheduler may know at the start of a round, one array element per active job.

Predictors and policies see a :class:`View` and nothing else. All arrays are copies in
submission order; ``handle`` is the job's number for the whole run, everything else a
policy indexes by position in the view.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from shockwave.model.options import Options

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class View:
    """The observable state of all active (arrived, unfinished) jobs.

    Scalars: ``now``, the ``round`` about to start, ``gpus`` up at the moment, the lengths
    ``round_seconds`` and ``restart_seconds``, ``jobs_seen`` since the run began, and
    ``changed``: whether a job, a regime or a node changed since the last decision.
    ``between_rounds`` only free GPUs are filled, in the policy's order; nobody is preempted.
    """

    now: float
    round: int
    gpus_total: int
    round_seconds: float
    restart_seconds: float
    jobs_seen: int
    changed: bool
    between_rounds: bool

    # Declared at submission.
    handle: Ints
    arrival: Floats
    gpus: Ints
    epochs: Floats
    weight: Floats
    tenant: Ints  # a number per tenant
    kind: Ints  # a number per (model, adaptation), to share experience by
    adaptation: Ints  # Adaptation.code
    configurations: Ints  # how many configurations the job declared
    profile: Floats  # [job, configuration] declared seconds per epoch, nan where unknown

    # Observed since.
    running: Bools  # holds GPUs now
    must_stay: Bools  # runs, and stays whatever is decided: it would lose its work
    epochs_done: Floats  # fractional
    configuration: Ints  # index of the current (or first) configuration
    regime_epochs: Floats  # epochs done in the ongoing regime
    configuration_epochs: Floats  # [job, configuration] epochs done in each so far
    measured_seconds: Floats  # [job, configuration] measured seconds per epoch, nan if none
    productive_seconds: Floats  # time spent making progress
    received_seconds: Floats  # time under lease, restarts included
    fair_seconds: Floats  # productive time, each second divided by the fair share of its day
    active_integral: Floats  # sum over the job's rounds of the number of active jobs
    rounds_active: Ints  # rounds that the job has been active for
    restarts: Ints
    measured_restart_seconds: Floats  # what its last start cost, nan until it was measured
    unsaved_seconds: Floats  # work since its last checkpoint, nan if there is none

    # Where jobs have a choice, or there are several types of GPUs. ``gpus`` is the request.
    options: Options | None = None

    def __len__(self) -> int:
        return len(self.handle)

    @cached_property
    def epoch_seconds(self) -> Floats:
        """[job, configuration] best known seconds per epoch: measured, else declared."""
        return np.where(np.isnan(self.measured_seconds), self.profile, self.measured_seconds)

    @cached_property
    def epochs_left(self) -> Floats:
        """Epochs to go. A job beyond the number it declared is taken to need a tenth more."""
        overdue = self.epochs_done >= self.epochs
        return np.where(overdue, 0.1 * self.epochs_done, self.epochs - self.epochs_done)

    @cached_property
    def elapsed(self) -> Floats:
        """Seconds since arrival."""
        return self.now - self.arrival

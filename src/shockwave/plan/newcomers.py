"""What those who come change for those who are there.

A fair finish is later the more jobs share the cluster, and so is the end of all. Whoever decides in
an hour will know who has come by then. So the deadlines of a sampled future move with those who
come in it: by the deadlines of today, a waiting job would start at the same time in all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.model.view import Floats


@dataclass(frozen=True)
class Newcomers:
    """Who has come by when, in each sample; times in seconds from now."""

    after: Floats  # [sample, place] when they come; infinite where nobody does
    jobs: Floats  # [sample, place] how many
    work: Floats  # [sample, place] the seconds that they take on all GPUs
    seen: int  # jobs that have come before
    expected: float  # ... for each of which so many more are expected as long as some come
    gpus_total: int
    fair_stretch: Floats  # [job] the longest fair completion time, in runtimes times jobs per GPU

    def jobs_per_gpu(self, seconds: float) -> Floats:
        """[sample] of the whole workload, as it will be counted then."""
        come = self.after <= seconds
        more = 1.0 + self.expected * (~come & np.isfinite(self.after)).any(axis=1)
        jobs = (self.seen + (self.jobs * come).sum(axis=1)) * more
        return np.asarray(np.maximum(jobs / self.gpus_total, 1.0))

    def later_end(self, seconds: float) -> Floats:
        """[sample] by how much later all can have ended, with those who will have come."""
        return np.asarray((self.work * (self.after <= seconds)).sum(axis=1))

"""One round of the market: jobs, what their options are worth to them, and the GPUs for sale.

    maximise    sum_j value[j, o_j]
    subject to  one option o_j per job or none (worth 0), and for every type t
                sum of gpus[o_j] over the jobs with type[o_j] = t  <=  capacity[t]

At prices ``pi >= 0`` per GPU of each type every job chooses for itself, and

    D(pi) = sum_j max(0, max_o value[j, o] - pi[type o] gpus[o])  +  pi . capacity

is at least the value of any allocation: a bound that comes with the prices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.model.errors import InputError
from shockwave.model.view import Floats, Ints


@dataclass(frozen=True)
class Market:
    """What is for sale and what it is worth to whom.

    Raises:
        InputError: where arrays disagree in length, a value is ``nan`` or ``+inf``, or an option
            has no GPUs.
    """

    values: Floats  # [job, option]; -inf where the job may not take it
    gpus: Ints  # [option]
    type: Ints  # [option] position in capacity
    capacity: Ints  # [type] GPUs

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.shape[1] != len(self.gpus):
            raise InputError("must be [job, option]", place="values", value=self.values.shape)
        if len(self.type) != len(self.gpus):
            raise InputError("must have a type per option", place="type", value=len(self.type))
        if len(self.gpus) and (self.gpus.min() < 1 or self.type.max() >= len(self.capacity)):
            raise InputError("an option needs GPUs, of a type that exists", place="gpus")
        if np.isnan(self.values).any() or np.isposinf(self.values).any():
            raise InputError("must be numbers, or -inf for what may not be", place="values")

    def __len__(self) -> int:
        return len(self.values)

    def reduced(self, prices: Floats) -> Floats:
        """[job, option] what an option is worth after paying for it."""
        return np.asarray(self.values - prices[self.type] * self.gpus)

    def bound(self, prices: Floats) -> float:
        """``D``: no allocation is worth more, whatever the prices are."""
        best = self.reduced(prices).max(axis=1, initial=0.0)
        return float(best.sum() + prices @ self.capacity)

    def worth(self, choice: Ints) -> float:
        """The value of an allocation: an option per job, -1 for none."""
        takes = np.flatnonzero(choice >= 0)
        return float(self.values[takes, choice[takes]].sum())

    def used(self, choice: Ints) -> Ints:
        """[type] GPUs that an allocation takes."""
        taken = choice[choice >= 0]
        weights = self.gpus[taken]
        used = np.bincount(self.type[taken], weights=weights, minlength=len(self.capacity))
        return used.astype(np.int64)

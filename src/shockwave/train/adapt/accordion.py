"""Accordion: a small batch in critical regimes, a large one elsewhere.

Training is in a critical regime while its gradient changes fast, and there a small batch keeps
the accuracy. Every few epochs the norm of the accumulated gradient is compared with that of the
previous check; the regime is critical if

    | |g_previous| - |g_now| | / |g_previous|  >=  threshold

or if the schedule of the learning rate changed it since then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from shockwave.model.errors import InputError


class Accordion:
    """Chooses between two batch sizes at epoch boundaries.

    ``accumulated_norm`` must be the norm of the *mean* gradient over an epoch: a sum would
    shrink with the number of steps as soon as the batch grows, and look like a change.

    >>> accordion = Accordion(32, 256)
    >>> [accordion.at_epoch_end(norm, learning_rate=0.1) for norm in (8.0, 3.0, 2.5, 1.0)]
    [32, 32, 256, 32]
    """

    def __init__(
        self,
        small_batch_size: int,
        large_batch_size: int,
        *,
        threshold: float = 0.5,
        every_epochs: int = 1,
    ) -> None:
        if not 1 <= small_batch_size < large_batch_size:
            raise InputError(
                "the batch sizes must grow",
                place="small_batch_size, large_batch_size",
                value=(small_batch_size, large_batch_size),
            )
        if not threshold > 0:
            raise InputError("must be above 0", place="threshold", value=threshold)
        if every_epochs < 1:
            raise InputError("must be 1 or more", place="every_epochs", value=every_epochs)
        self.small_batch_size = small_batch_size
        self.large_batch_size = large_batch_size
        self.threshold = threshold
        self.every_epochs = every_epochs
        self.batch_size = small_batch_size
        self._epochs = 0
        self._previous_norm: float | None = None
        self._previous_learning_rate: float | None = None

    @property
    def learning_rate_scale(self) -> float:
        """What to multiply the schedule's learning rate with: it grows along with the batch."""
        return self.batch_size / self.small_batch_size

    def at_epoch_end(self, accumulated_norm: float, learning_rate: float) -> int:
        """The batch size of the next epoch.

        ``learning_rate`` is that of the schedule, before :attr:`learning_rate_scale`; otherwise
        the scaling itself would count as a change. A norm that is not finite is critical.
        """
        self._epochs += 1
        if self._epochs % self.every_epochs:
            return self.batch_size
        critical = self._is_critical(accumulated_norm, learning_rate)
        self.batch_size = self.small_batch_size if critical else self.large_batch_size
        self._previous_norm = accumulated_norm if math.isfinite(accumulated_norm) else None
        self._previous_learning_rate = learning_rate
        return self.batch_size

    def _is_critical(self, norm: float, learning_rate: float) -> bool:
        previous = self._previous_norm
        if previous is None or not math.isfinite(norm):
            return True  # nothing to compare with: the beginning is critical
        if learning_rate != self._previous_learning_rate:
            return True
        if previous == 0.0:
            return norm != 0.0
        return abs(previous - norm) / previous >= self.threshold

    def state_dict(self) -> dict[str, float | int | None]:
        return {
            "batch_size": self.batch_size,
            "epochs": self._epochs,
            "previous_norm": self._previous_norm,
            "previous_learning_rate": self._previous_learning_rate,
        }

    def load_state_dict(self, state: Mapping[str, float | int | None]) -> None:
        batch_size = state["batch_size"]
        if batch_size not in (self.small_batch_size, self.large_batch_size):
            raise InputError(
                f"was saved with other batch sizes than {self.small_batch_size} and "
                f"{self.large_batch_size}",
                place="batch_size",
                value=batch_size,
            )
        self.batch_size = int(batch_size)
        self._epochs = int(state["epochs"] or 0)
        self._previous_norm = state["previous_norm"]
        self._previous_learning_rate = state["previous_learning_rate"]

"""How fast a job truly runs with every option: the seconds of each of its epochs.

A profile covers some numbers of GPUs of some types. Between two numbers the logarithm of the
time is interpolated linearly in the logarithm of the number; below the smallest the time grows
as the GPUs get fewer, and beyond the largest nothing is gained.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType


class Speeds:
    """Seconds of every epoch, by type and number of GPUs.

    >>> speeds = Speeds({"T4": {1: (80.0, 40.0), 4: (20.0, 10.0)}})
    >>> [round(seconds, 3) for seconds in speeds.epoch_seconds("T4", 2)]
    [40.0, 20.0]
    """

    def __init__(self, by_type: Mapping[str, Mapping[int, tuple[float, ...]]]) -> None:
        self.by_type = MappingProxyType(
            {
                gpu_type: MappingProxyType(dict(sorted(by_count.items())))
                for gpu_type, by_count in by_type.items()
            }
        )
        self._between: dict[tuple[str, int], tuple[float, ...]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Speeds) and self.by_type == other.by_type

    def __hash__(self) -> int:
        return hash(tuple((name, tuple(counts)) for name, counts in self.by_type.items()))

    def __reduce__(self) -> tuple[type[Speeds], tuple[dict[str, dict[int, tuple[float, ...]]]]]:
        return Speeds, ({name: dict(counts) for name, counts in self.by_type.items()},)

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(self.by_type)

    @property
    def counts(self) -> tuple[int, ...]:
        """The numbers of GPUs that are covered on any type, ascending."""
        return tuple(sorted({count for counts in self.by_type.values() for count in counts}))

    @property
    def epochs(self) -> int:
        return min(len(seconds) for counts in self.by_type.values() for seconds in counts.values())

    def epoch_seconds(self, gpu_type: str, gpus: int) -> tuple[float, ...]:
        """One figure for each epoch; ``KeyError`` for a type that is not covered."""
        covered = self.by_type[gpu_type]
        if gpus in covered:
            return covered[gpus]
        key = (gpu_type, gpus)
        if key not in self._between:
            self._between[key] = _interpolated(covered, gpus)
        return self._between[key]

    def mean_seconds(self, gpu_type: str, gpus: int) -> float:
        """Seconds per epoch, the mean over all epochs; nan for a type that is not covered."""
        if gpu_type not in self.by_type:
            return math.nan
        seconds = self.epoch_seconds(gpu_type, gpus)
        return math.fsum(seconds) / len(seconds)


def _interpolated(covered: Mapping[int, tuple[float, ...]], gpus: int) -> tuple[float, ...]:
    below = [count for count in covered if count < gpus]
    above = [count for count in covered if count > gpus]
    if not above:
        return covered[below[-1]]
    if not below:
        return tuple(seconds * above[0] / gpus for seconds in covered[above[0]])
    low, high = below[-1], above[0]
    part = math.log(gpus / low) / math.log(high / low)
    return tuple(
        one ** (1 - part) * other**part
        for one, other in zip(covered[low], covered[high], strict=True)
    )

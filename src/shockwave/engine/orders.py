"""What a round orders: who stops, who starts where and with what, who goes on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from shockwave.engine.placement import Placer
from shockwave.model.events import Placement
from shockwave.model.options import Option
from shockwave.model.view import Ints

MOST_TRIED = 1000  # jobs to fill gaps with, however many wait


def _nobody() -> Ints:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Orders:
    """Handles. ``complete`` if everybody who was chosen runs.

    Who is in ``stopped`` and in ``placements`` starts again at once, with another option.
    """

    stopped: Ints = field(default_factory=_nobody)
    placements: dict[int, Placement] = field(default_factory=dict)  # of those that start
    continuing: Ints = field(default_factory=_nobody)
    complete: bool = True
    options: dict[int, Option] = field(default_factory=dict)  # of those that start, if any choose

    @property
    def running(self) -> Ints:
        started = np.fromiter(self.placements, dtype=np.int64, count=len(self.placements))
        return np.concatenate([self.continuing, started])


def in_the_way(
    placer: Placer, gpus: int, nodes: frozenset[str] | None, least_liked_first: Iterable[int]
) -> list[int]:
    """No more of these gangs than have to leave ``nodes`` for a gang of ``gpus`` to fit there.

    None of them if all of them were not enough.
    """
    missing = gpus - placer.room(nodes)
    gains: dict[int, int] = {}
    for other in least_liked_first:
        if missing <= 0:
            break
        slots = [s for node, s in placer.placement(other) if nodes is None or node in nodes]
        if slots:
            gains[other] = sum(map(len, slots))
            missing -= gains[other]
    if missing > 0:
        return []
    for other in sorted(gains, key=gains.__getitem__):
        if missing + gains[other] <= 0:
            missing += gains.pop(other)
    return list(gains)

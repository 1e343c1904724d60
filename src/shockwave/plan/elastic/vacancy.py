"""How long GPUs have been idle that a job could take, and so are likely to stay.

A restart is worth what it costs only if what it brings lasts. In a crowd that is minutes: somebody
else will want these GPUs. But GPUs that nobody has wanted for an hour will hardly be wanted within
ten minutes, and a job that grows into them takes them from nobody. As long as they have been idle,
so long they are taken to stay free.
"""

from __future__ import annotations

import numpy as np

from shockwave.model.view import Floats, Ints
from shockwave.plan.elastic.worth import Shares


class Vacancy:
    """Since when so many GPUs of a type have been idle without a break."""

    def __init__(self) -> None:
        self._since: list[Floats] = []  # by type: [GPUs] when at least so many became idle

    def see(self, now: float, held: Ints, shares: Shares) -> Floats:
        """[job, option] for how long as many GPUs have been idle as a job would take more.

        ``held[job]`` is the option that it holds, -1 for none. 0 for what takes no more GPUs, and
        for what takes more than are idle. Types only ever come to the end.
        """
        own = np.flatnonzero(held >= 0)
        more = np.tile(shares.gpus, (len(held), 1))
        same = shares.type[held[own], None] == shares.type
        more[own] -= np.where(same, shares.gpus[held[own], None], 0)
        lasted = np.zeros(more.shape)
        for number, idle in enumerate(_idle(held, shares).tolist()):
            if number == len(self._since):
                self._since.append(np.empty(0))
            before = self._since[number][: idle + 1]
            since = np.append(before, np.full(idle + 1 - len(before), now))
            self._since[number] = since
            fits = (shares.type == number) & (more > 0) & (more <= idle)
            lasted[fits] = now - since[more[fits]]
        return lasted


def _idle(held: Ints, shares: Shares) -> Ints:
    """[type] GPUs that no job holds."""
    option = held[held >= 0]
    weights = shares.gpus[option]
    taken = np.bincount(shares.type[option], weights=weights, minlength=len(shares.capacity))
    return np.maximum(shares.capacity - taken.astype(np.int64), 0)

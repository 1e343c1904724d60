"""When an option that nobody has tried is worth a try.

Whoever tries an option that is expected to be ``z`` deviations slower than the best one, and goes
back where it is no better, gains ``phi(z) - z Phi(-z)`` deviations of the logarithm on average:
that part of the time that it has to go. A try costs two restarts and a round, times the shares of
the cluster that it takes: others wait meanwhile (:func:`cost_of_a_try`). So there is a ``z``
from which on a try does not pay, and an option is bid for as if it were that much faster
(the knowledge gradient of a single try). Jobs that soon end hardly try anything; one that has hours
to go tries even what is likely to be slower, and is not left where it happened to start.
"""

from __future__ import annotations

import math

import numpy as np

from shockwave.model.view import Floats, Ints

_BEHIND: Floats = np.linspace(0.0, 3.0, 61)
_GAINED: Floats = np.array(
    [
        math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) - 0.5 * z * math.erfc(z / math.sqrt(2.0))
        for z in _BEHIND.tolist()
    ]
)


def cost_of_a_try(seconds: Floats, gpus: Ints, share: float) -> Floats:
    """[job, option] what a try costs that takes ``seconds[job]``; ``share`` GPUs are a fair share.

    >>> cost_of_a_try(np.array([100.0]), np.array([1, 2, 8]), share=2.0).tolist()
    [[100.0, 100.0, 400.0]]
    """
    return np.asarray(seconds[:, None] * np.maximum(gpus / share, 1.0))


def hope(deviation: Floats, to_go: Floats, cost: Floats) -> Floats:
    """[job, option] how far behind, of the logarithm, an option may be and still be worth a try.

    ``deviation[job, option]`` of the logarithm of its seconds, ``to_go[job]`` in seconds, and
    ``cost[job, option]`` of a try in seconds.

    >>> doubt, hours = np.array([[0.5], [0.5], [0.0]]), np.array([28.0, 0.01, 28.0])
    >>> hope(doubt, 3600.0 * hours, np.full((3, 1), 120.0)).round(1).ravel().tolist()
    [1.2, 0.0, 0.0]
    """
    deviation = np.maximum(deviation, 1e-9)
    gain_needed = cost / to_go[:, None] / deviation
    return np.asarray(deviation * np.interp(-gain_needed, -_GAINED, _BEHIND))

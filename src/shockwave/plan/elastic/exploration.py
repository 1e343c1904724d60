"""When an option that nobody has tried is worth a try.

Which curve of scaling a job is on is open, and how far it is from that curve. Whoever tries an
option that is expected to be behind the best one by ``h`` of the logarithm, and goes back where it
is no better, gains

    g_c  =  s G((h + d_c) / s),      G(z) = phi(z) - z Phi(-z)

of the logarithm on average if it is on curve ``c``: ``d_c`` is how much slower than expected the
option is on that curve, ``s`` the deviation around it. With ``p_c`` for how likely a curve is, it
saves ``sum_c p_c (1 - exp(-g_c))`` of the time that it has to go. So a tenth of a chance to be on a
curve that gains much counts for what it is; one Gaussian for all curves would not see it. A try
costs two restarts and a round, times the shares of the cluster that it takes: others wait meanwhile
(:func:`cost_of_a_try`). So there is an ``h`` from which on a try does not pay, and an option is bid
for as if it were that much faster (the reservation value of an option, or the knowledge gradient of
a single try). Jobs that soon end hardly try anything; one that has hours to go tries even what is
likely to be slower, and is not left where it happened to start.
"""

from __future__ import annotations

import math

import numpy as np

from shockwave.model.view import Floats, Ints

_LEAST_LIKELY = 0.01  # curves below this are left out: few would try for so little
_AT_ONCE = 128  # jobs, so that what is computed stays near the processor
_STEPS = 3  # of Newton's method, on the logarithm of what is saved

_FINE = 50.0  # steps of the tables in a deviation
_AHEAD, _BEHIND = -128.0, 4.0  # deviations: where they begin, and what is never worth a try
_Z: Floats = np.arange(_AHEAD, _BEHIND, 1.0 / _FINE)
_BETTER: Floats = np.array([0.5 * math.erfc(z / math.sqrt(2.0)) for z in _Z.tolist()])
_GAINED: Floats = np.exp(-0.5 * _Z**2) / math.sqrt(2.0 * math.pi) - _Z * _BETTER


def cost_of_a_try(seconds: Floats, gpus: Ints, share: float) -> Floats:
    """[job, option] what a try costs that takes ``seconds[job]``; ``share`` GPUs are a fair share.

    >>> cost_of_a_try(np.array([100.0]), np.array([1, 2, 8]), share=2.0).tolist()
    [[100.0, 100.0, 400.0]]
    """
    return np.asarray(seconds[:, None] * np.maximum(gpus / share, 1.0))


def hope(likely: Floats, apart: Floats, deviation: Floats, to_go: Floats, cost: Floats) -> Floats:
    """[job, option] how far behind, of the logarithm, an option may be and still be worth a try.

    ``likely[job, curve]``, ``apart[job, curve, option]`` how much slower than expected it is on
    that curve, ``deviation[job, option]`` around the curve, ``to_go[job]`` in seconds, and
    ``cost[job, option]`` of a try in seconds.

    >>> doubt, hours = np.array([[0.5], [0.5], [0.0]]), np.array([28.0, 0.01, 28.0])
    >>> one, cost = np.ones((3, 1)), np.full((3, 1), 120.0)
    >>> hope(one, np.zeros((3, 1, 1)), doubt, 3600.0 * hours, cost).round(1).ravel().tolist()
    [1.2, 0.0, 0.0]
    """
    found = np.empty(cost.shape)
    for start in range(0, len(cost), _AT_ONCE):
        few = slice(start, start + _AT_ONCE)
        needed = cost[few] / to_go[few, None]
        found[few] = _behind(likely[few], apart[few], np.maximum(deviation[few], 1e-6), needed)
    return found


def _behind(likely: Floats, apart: Floats, deviation: Floats, needed: Floats) -> Floats:
    """[job, option] where what is saved, of the time to go, is what is ``needed``; at least 0."""
    job, curve = np.nonzero(likely >= _LEAST_LIKELY)
    first = np.flatnonzero(np.diff(job, prepend=-1))
    chance, around = likely[job, curve][:, None], deviation[job]
    slower = apart[job, curve] / around
    # From the hope of the best curve alone: with the others there is more to gain.
    alone = -np.log1p(-np.minimum(needed[job] / chance, 1.0 - 1e-9)) / around
    alone = np.interp(-alone, -_GAINED, _Z) - slower
    behind = np.maximum.reduceat(alone * around, first, axis=0)
    most = np.maximum.reduceat((_BEHIND - slower) * around, first, axis=0)
    for _ in range(_STEPS):
        np.clip(behind, 0.0, most, out=behind)
        at = ((slower + behind[job] / around - _AHEAD) * _FINE + 0.5).astype(np.int64)
        takes = chance * np.exp(-around * _GAINED.take(at, mode="clip"))
        saved = np.add.reduceat(chance - takes, first, axis=0)
        fewer = np.add.reduceat(takes * _BETTER.take(at, mode="clip"), first, axis=0)
        behind += saved / fewer * np.log(saved / needed)
    return np.clip(behind, 0.0, most)

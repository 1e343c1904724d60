"""What each tenant may use of a round, and in whose favour GPUs are handed out.

A pure layer between tenants and policies: from weights, guarantees, limits, balances and what is
wanted now to GPUs per tenant (:func:`shares_of`), and to the weight that each job has in the market
(:func:`effective_weights`). docs/tenants.md has the equations.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shockwave.model.tenants import Tenant
from shockwave.model.view import Floats, Ints

SPENDING = 0.5  # of its share that a tenant may spend of its carry-over in a round, beyond it
LAG_ROUNDS = 5.0  # in which what was owed and not given is made up for
LAG_SECONDS = 6 * 3600.0  # of a share; more is not remembered


@dataclass(frozen=True, slots=True)
class Balance:
    """What the past left a tenant with, in GPU-seconds.

    ``carry_over`` was lent to others and may be spent; ``lag`` is what was due and not given, or
    negative, given and not due, because gangs are indivisible and nobody is stopped at any moment.
    """

    carry_over: float = 0.0
    lag: float = 0.0


@dataclass(frozen=True, slots=True)
class Share:
    """GPUs of one tenant: promised, due by what is wanted now, and due with its carry-over."""

    entitled: float
    plain: float
    due: float


def water_fill(total: float, weight: Floats, floor: Floats, ceiling: Floats) -> Floats:
    """``x = clip(level * weight, floor, ceiling)`` with ``sum x = min(total, sum ceiling)``.

    Floors that are more than the total together are scaled to it.

    >>> wanted = np.array([2.0, 9.0, 9.0])
    >>> water_fill(8.0, np.array([1.0, 1.0, 2.0]), np.zeros(3), wanted).tolist()
    [2.0, 2.0, 4.0]
    """
    if float(ceiling.sum()) <= total:
        return ceiling.copy()
    promised = float(floor.sum())
    if promised >= total:
        return floor * (total / promised)

    def at(level: float) -> Floats:
        return np.asarray(np.clip(level * weight, floor, ceiling))

    turns = np.sort(np.concatenate([floor / weight, ceiling / weight])).tolist()
    above = bisect.bisect_right(turns, total, key=lambda level: float(at(level).sum()))
    low, high = turns[above - 1], turns[above]  # between these every part is a line
    least, largest = float(at(low).sum()), float(at(high).sum())
    return at(low + (high - low) * (total - least) / (largest - least))


def shares_of(
    tenants: Sequence[Tenant],
    wanted: Sequence[float],
    balances: Sequence[Balance],
    gpus: int,
    round_seconds: float,
) -> list[Share]:
    """The GPUs of each tenant in the coming round, in the order of ``tenants``."""
    weight = np.array([tenant.weight for tenant in tenants])
    limits = [gpus if tenant.most is None else min(tenant.most, gpus) for tenant in tenants]
    most = np.array(limits, dtype=np.float64)
    guaranteed = np.minimum([float(tenant.guaranteed) for tenant in tenants], most)
    ceiling = np.minimum(most, wanted)
    floor = np.minimum(guaranteed, ceiling)
    entitled = water_fill(gpus, weight, guaranteed, most)
    plain = water_fill(gpus, weight, floor, ceiling)
    carried = np.array([balance.carry_over for balance in balances])
    once = np.maximum(SPENDING * entitled * round_seconds, 1e-9)  # that a round may take of it
    spending = SPENDING * np.minimum(1.0, carried / once)
    due = plain if not spending.any() else water_fill(gpus, weight * (1 + spending), floor, ceiling)
    rows = zip(entitled.tolist(), plain.tolist(), due.tolist(), strict=True)
    return [Share(*row) for row in rows]


def settled(balance: Balance, share: Share, tenant: Tenant, used: float, seconds: float) -> Balance:
    """The balance after ``seconds`` with this share, of which ``used`` GPU-seconds were used.

    What is not wanted of what was promised is carried over; what is due beyond the plain share is
    taken from it.
    """
    carried = balance.carry_over * 0.5 ** (seconds / (3600.0 * tenant.half_life_hours))
    lent = max(share.entitled - max(share.due, share.plain), 0.0)
    spent = max(share.due - share.plain, 0.0)
    limit = share.entitled * 3600.0 * tenant.carry_over_hours
    carried = min(max(carried + (lent - spent) * seconds, 0.0), limit)
    longest = LAG_SECONDS * max(share.entitled, share.due)
    lag = balance.lag + share.due * seconds - used
    return Balance(carried, min(max(lag, -longest), longest))


def effective_weights(weight: Floats, tenant: Ints, due: Mapping[int, float]) -> Floats:
    """[job] its weight as a part of its tenant's, in proportion to what is due to that.

    The mean stays as it was, and so does the order of the jobs of one tenant.
    """
    numbers, inverse = np.unique(tenant, return_inverse=True)
    total = np.bincount(inverse, weights=weight)
    endowment = np.array([max(due.get(number, 0.0), 1e-6) for number in numbers.tolist()])
    scaled = weight * (endowment / total)[inverse]
    return np.asarray(scaled * (weight.mean() / scaled.mean()))

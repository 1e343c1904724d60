"""Policies in order: by their regret, measure by measure, with intervals over workloads.

The regret of a workload is a mean over its seeds. The interval is of the mean over workloads,
``t_(n-1) * s / sqrt(n)``: how much the choice of workloads matters. Who knows the future is
ranked as if it were not there, and so shares a rank.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from shockwave.measure.regret import MEASURES, Grid, Measure, regrets
from shockwave.measure.summary import student_t_975

# Figures that depend on the speed of the machine.
COST = ("plan_seconds_mean", "plan_seconds_p95", "wall_seconds")


@dataclass(frozen=True)
class Place:
    """A policy by one measure."""

    rank: int
    mean: float
    half_width: float | None  # of the 95 % interval; None of a single workload
    worst: float
    worst_family: str

    def told(self, measure: Measure) -> str:
        """Mean and interval as people read them."""
        if self.half_width is None:
            return measure.write_regret(self.mean)
        half = 100 * self.half_width if measure.share else self.half_width
        digits = 1 if measure.share else 2
        return f"{measure.write_regret(self.mean)} ± {half:.{digits}f}"


@dataclass(frozen=True)
class Ranked:
    """A policy by all measures, and what its decisions cost."""

    policy: str
    clairvoyant: bool
    places: Mapping[str, Place]
    mean_rank: float
    plan_seconds: float  # mean of a decision


def ranking(runs: Sequence[Mapping[str, Any]], policies: Sequence[str]) -> list[Ranked]:
    """The policies by their mean rank; ties in the order given."""
    knows = {str(run["policy"]) for run in runs if run["clairvoyant"]}
    by_measure = {m.key: _places(regrets(runs, m), policies, knows) for m in MEASURES}
    rows = []
    for policy in policies:
        places = {key: table[policy] for key, table in by_measure.items() if policy in table}
        costs = [run["plan_seconds_mean"] or 0.0 for run in runs if run["policy"] == policy]
        ranks = [place.rank for place in places.values()]
        rows.append(
            Ranked(
                policy,
                policy in knows,
                places,
                fmean(ranks) if ranks else math.inf,
                fmean(costs) if costs else 0.0,
            )
        )
    return sorted(rows, key=lambda row: row.mean_rank)


def _places(grid: Grid, policies: Sequence[str], knows: set[str]) -> dict[str, Place]:
    values = {
        policy: {family: row[policy] for family, row in grid.items() if policy in row}
        for policy in policies
    }
    means = {policy: fmean(row.values()) for policy, row in values.items() if row}
    rivals = [mean for policy, mean in means.items() if policy not in knows]
    places = {}
    for policy, mean in means.items():
        row = values[policy]
        worst = max(row, key=lambda family: row[family])
        places[policy] = Place(
            1 + sum(other < mean for other in rivals), mean, _half_width([*row.values()]),
            row[worst], worst,
        )  # fmt: skip
    return places


def _half_width(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    return student_t_975(len(values) - 1) * stdev(values) / math.sqrt(len(values))

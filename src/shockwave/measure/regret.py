"""How far every policy is from the best one, family by family and figure by figure.

The regret of a policy is its figure, a mean over seeds, against the best of all policies that
do not know the future: as a ratio, or as a difference in percentage points where the figure is
a share, whose best may be 0. A clairvoyant policy has a regret too, but is never the best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any


@dataclass(frozen=True)
class Measure:
    """A figure that policies are compared by; lower is better."""

    key: str
    title: str
    share: bool = False

    def write(self, value: float) -> str:
        """A figure as people read it."""
        if self.share:
            return f"{100 * value:.1f} %"
        return f"{value / 3600:.2f} h" if self.key.endswith("_seconds") else f"{value:.2f}"

    def write_regret(self, value: float) -> str:
        """A ratio as ``1.03``; a difference of shares in percentage points, as ``+2.5``."""
        return f"{100 * value:+.1f}" if self.share else f"{value:.2f}"


MEASURES = (
    Measure("mean_jct_seconds", "Mean job completion time"),
    Measure("makespan_seconds", "Makespan"),
    Measure("worst_ftf_egalitarian", "Worst egalitarian finish-time fairness"),
    Measure("unfair_themis", "Unfair jobs by themis", share=True),
    Measure("restart_lost", "GPU time lost by restarts", share=True),
)

# [family][policy] of one measure.
Grid = dict[str, dict[str, float]]


def means(runs: Sequence[Mapping[str, Any]], measure: Measure) -> Grid:
    """Means over seeds; families in which the measure does not apply are left out.

    A run is a mapping with ``family``, ``policy``, ``seed`` and the figures.
    """
    values: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        if run.get(measure.key) is not None:
            of_family = values.setdefault(str(run["family"]), {})
            of_family.setdefault(str(run["policy"]), []).append(float(run[measure.key]))
    return {
        family: {policy: fmean(figures) for policy, figures in of_family.items()}
        for family, of_family in values.items()
    }


def regrets(runs: Sequence[Mapping[str, Any]], measure: Measure) -> Grid:
    """Every policy against the best of its family that does not know the future."""
    knows = {str(run["policy"]) for run in runs if run["clairvoyant"]}
    grid: Grid = {}
    for family, figures in means(runs, measure).items():
        candidates = [value for policy, value in figures.items() if policy not in knows]
        if not candidates:
            continue
        best = min(candidates)
        grid[family] = {
            policy: value - best if measure.share else value / best
            for policy, value in figures.items()
        }
    return grid


@dataclass(frozen=True)
class Standing:
    """A policy over all families: its mean regret, its worst, and where that was."""

    policy: str
    mean: float
    worst: float
    worst_family: str


def standings(grid: Grid) -> dict[str, Standing]:
    """By policy, in the order in which they appear."""
    policies = dict.fromkeys(policy for figures in grid.values() for policy in figures)
    table = {}
    for policy in policies:
        seen = {family: figures[policy] for family, figures in grid.items() if policy in figures}
        worst = max(seen, key=lambda family: seen[family])
        table[policy] = Standing(policy, fmean(seen.values()), seen[worst], worst)
    return table

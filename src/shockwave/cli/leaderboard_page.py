"""The leaderboard as a page: ranks with intervals, cost, and every regret as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shockwave.cli.pages import page, section
from shockwave.measure.charts.heatmap import Panel, heatmap_svg
from shockwave.measure.charts.svg import escape
from shockwave.measure.ranking import Ranked
from shockwave.measure.regret import MEASURES, regrets

# Regrets above which a cell of the picture is one shade darker.
_LEVELS = {False: (1.03, 1.1, 1.25, 1.6), True: (0.02, 0.05, 0.15, 0.3)}


def leaderboard_page(
    runs: Sequence[Mapping[str, Any]], ranked: Sequence[Ranked], title: str, suite: str
) -> str:
    """The page, complete in itself."""
    families = dict.fromkeys(str(run["family"]) for run in runs)
    facts = [
        (str(len(ranked)), "policies"),
        (str(len(families)), "workloads"),
        (str(len({run["seed"] for run in runs})), "seeds"),
        (f"{len(runs):,}", "simulations"),
        (suite, "suite"),
    ]
    panels = [
        Panel(measure.title, grid, _LEVELS[measure.share], measure.write_regret)
        for measure in MEASURES
        if (grid := regrets(runs, measure))
    ]
    picture = heatmap_svg(
        "Regret, workload by workload", panels, [row.policy for row in ranked],
        "1.00 is the best policy that does not know the future; shares in percentage points",
    )  # fmt: skip
    caption = (
        "Regret is a figure against that of the best policy which does not know the future: a "
        "ratio, or percentage points for shares. Means over workloads with 95 % intervals; below "
        "them the worst. Ordered by the mean of the ranks. Lower is better everywhere."
    )
    return page(
        title,
        facts,
        [
            section("Ranks", caption, _table(ranked)),
            section("Every workload", "All regrets; the paler the better.", picture),
        ],
    )


def _table(ranked: Sequence[Ranked]) -> str:
    heads = "".join(f"<th>{escape(measure.title)}</th>" for measure in MEASURES)
    rows = []
    for row in ranked:
        cells = []
        for measure in MEASURES:
            place = row.places.get(measure.key)
            if place is None:
                cells.append("<td>-</td>")
                continue
            worst = f"{measure.write_regret(place.worst)} {place.worst_family}"
            cells.append(
                f"<td><b>{place.rank}.</b> {escape(place.told(measure))}"
                f"<br><small>{escape(worst)}</small></td>"
            )
        name = escape(row.policy) + (" (knows the future)" if row.clairvoyant else "")
        rows.append(
            f"<tr><th>{name}</th><td>{row.mean_rank:.1f}</td>{''.join(cells)}"
            f"<td>{row.plan_seconds * 1000:.2f}</td></tr>"
        )
    return (
        '<div style="overflow-x:auto">'
        f"<table><thead><tr><th>policy</th><th>mean rank</th>{heads}<th>ms a decision</th></tr>"
        f"</thead><tbody>{''.join(rows)}</tbody></table></div>"
    )

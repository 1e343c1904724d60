"""The report as text: complete, self-contained, safe, small, and always the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from shockwave.measure import (
    RunHistory,
    aggregate,
    fold_history,
    render_report,
    summarize,
    write_report,
)
from shockwave.measure.charts.gantt import gantt_chart, model_order
from shockwave.model.errors import InputError
from shockwave.model.events import Event, JobFinished, NodeDown

from .journals import (
    RANKS,
    ToyJob,
    hand_made,
    run_started,
    started,
    submitted,
    toy_events,
    toy_history,
    toy_workload,
)

Runs = list[tuple[dict[str, Any], RunHistory]]

EVIL = "<script>alert('x')</script>\"&"


def toy_runs(ranks: Sequence[str] = tuple(RANKS)) -> Runs:
    histories = [toy_history(toy_workload(), rank) for rank in ranks]
    return [(summarize(history), history) for history in histories]


class Outline(HTMLParser):
    """Every start tag with its attributes, and whether all tags are closed in order."""

    VOID = frozenset({"meta"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def classed(self, name: str) -> list[dict[str, str | None]]:
        return [attrs for _, attrs in self.tags if name in (attrs.get("class") or "").split()]


def test_the_page_holds_every_part() -> None:
    outline = Outline(render_report(toy_runs(), "Toys"))
    assert outline.open == []
    sections = [attrs["id"] for tag, attrs in outline.tags if tag == "section"]
    assert sections == ["table", "jct", "ftf", "time", "gantt"]
    assert len(outline.classed("chip")) == len(RANKS)
    assert len(outline.classed("lines")) == 2 + 3  # the first for two widths
    assert len(outline.classed("line")) == (2 + 3) * len(RANKS)
    assert len(outline.classed("areas")) == 2 * 2 * len(RANKS)
    assert len(outline.classed("gantt")) == len(RANKS)
    captions = outline.classed("caption")
    assert len(captions) >= len(sections)


def test_the_page_loads_nothing() -> None:
    page = render_report(toy_runs(), "Toys")
    outline = Outline(page)
    for tag, attrs in outline.tags:
        assert tag not in {"link", "img", "iframe", "object", "embed"}
        assert not {"src", "href", "xlink:href"} & set(attrs)
    assert "default-src 'none'" in page
    assert not re.search(r"url\(|@import|https?://", page)


def test_names_of_users_cannot_become_markup() -> None:
    jobs = [ToyJob(EVIL, 0.0, 1, 500.0, model=EVIL), ToyJob("b", 0.0, 1, 300.0)]
    history = fold_history(toy_events(jobs, "first-come", trace=EVIL))
    page = render_report([(summarize(history, policy=EVIL), history)], EVIL)
    assert "<script>alert" not in page
    outline = Outline(page)
    assert outline.open == []
    assert [tag for tag, _ in outline.tags].count("script") == 1


def test_the_same_runs_give_the_same_bytes() -> None:
    assert render_report(toy_runs(), "Toys") == render_report(toy_runs(), "Toys")


def test_the_best_of_a_column_is_marked_and_a_clairvoyant_policy_never() -> None:
    runs = toy_runs(("first-come", "shortest-first"))
    runs[0][0]["makespan_seconds"], runs[1][0]["makespan_seconds"] = 7200.0, 10_800.0
    page = render_report(runs, "Toys")
    cells = re.findall(r'<td class="([^"]*)" data-value="(?:7200|10800)">([^<]*)</td>', page)
    assert cells == [("first best", "2.00"), ("first", "3.00")]

    history = runs[0][1]
    object.__setattr__(history.settings, "predictor", "oracle")
    page = render_report([*runs, runs[1]], "Toys")
    assert page.count(">clairvoyant</span>") == 1
    assert '<td class="first" data-value="7200">2.00</td>' in page


def test_a_single_policy_is_not_called_the_best() -> None:
    assert "best" not in re.findall(
        r'<td class="(.*?)"', render_report(toy_runs(("first-come",)), "Toy")
    )


def test_a_figure_that_does_not_apply_is_never_the_best() -> None:
    page = render_report(toy_runs(), "Toys")  # one of the policies has a gap, the others none
    missing = re.findall(r'<td class="([^"]*)" data-value=""><span class="none">', page)
    assert len(missing) == len(RANKS) - 1
    assert all("best" not in kinds for kinds in missing)


def test_seeds_show_as_mean_and_interval() -> None:
    runs = toy_runs(("first-come",))
    seeds = [dict(runs[0][0], makespan_seconds=seconds) for seconds in (7200.0, 9000.0, 10_800.0)]
    page = render_report(runs, "Toys", [aggregate(seeds)])
    assert '2.50<span class="ci">±1.24</span>' in page  # 4.3027 * 0.5 / sqrt(3)
    assert "<b>3</b>seeds" in page
    assert page.count('class="ci"') == 1  # all other figures are the same in every seed


def test_a_gantt_of_too_many_leases_says_what_it_leaves_out() -> None:
    history = toy_history(toy_workload(), "round-robin")
    chart = gantt_chart(
        history, model_order([history]), horizon_seconds=20_000.0, label="", max_leases=30
    )
    assert (chart.leases_shown, chart.leases) == (30, len(history.leases))
    shortest_shown = min(int(width) for width in re.findall(r"h(\d+)v", chart.svg))
    assert shortest_shown >= sorted(history.leases.seconds.tolist())[-30] - 1
    whole = gantt_chart(history, model_order([history]), horizon_seconds=20_000.0, label="")
    assert whole.leases_shown == whole.leases > 30


def test_gangs_are_drawn_as_runs_of_neighbouring_gpus() -> None:
    events: list[Event] = [
        run_started(),
        submitted("A", 0.0, 3),
        started(0.0, "A", 1, ("n0", 0), ("n0", 1), ("n1", 1)),
        JobFinished(50.0, "A", 40.0),
    ]
    history = fold_history(events)
    svg = gantt_chart(history, ["ResNet-18"], horizon_seconds=50.0, label="").svg
    assert "M0 0h50v1.84H0zM0 3h50v0.84H0z" in svg


def test_lost_nodes_show_as_a_ceiling() -> None:
    events = hand_made()
    events.insert(-1, NodeDown(360.0, "n1"))
    history = fold_history(events)
    page = render_report([(summarize(history), history)], "Toys")
    assert 'class="ceiling"' in page
    assert 'class="ceiling"' not in render_report(toy_runs(("first-come",)), "Toys")


@pytest.mark.parametrize(
    "events",
    [[run_started()], [run_started(), submitted("A")], hand_made()[:4]],
    ids=["no jobs", "nothing started", "broken off"],
)
def test_a_run_without_results_still_has_a_page(events: list[Event]) -> None:
    history = fold_history(events)
    assert Outline(render_report([(summarize(history), history)], "Empty")).open == []


def test_nothing_to_show_is_refused() -> None:
    with pytest.raises(InputError, match="at least one run"):
        render_report([], "Nothing")
    with pytest.raises(InputError, match="one aggregate per run"):
        render_report(toy_runs(("first-come",)), "Toys", [])


def test_ten_policies_and_many_jobs_stay_small() -> None:
    runs = [
        (summarize(history), history)
        for history in [
            fold_history(toy_events(toy_workload(460), "round-robin", gpus=32)) for _ in range(2)
        ]
    ]
    page = render_report(runs * 5, "Many")
    assert len(page) < 4_000_000


def test_the_file_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    runs = toy_runs(("first-come",))
    write_report(path, runs, "Toys")
    assert path.read_text("utf-8") == render_report(runs, "Toys")
    with pytest.raises(InputError):
        write_report(path, [], "Nothing")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]

"""The report in a real browser: it draws, it reacts, and it asks the network for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tools.chromium import MISSING, PATH, chromium

from shockwave.measure import fold_history, summarize, write_report

from .journals import RANKS, ToyJob, toy_events, toy_history, toy_workload

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.skipif(PATH is None, reason=MISSING)

EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    histories = [toy_history(toy_workload(), rank) for rank in RANKS]
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(path, [(summarize(history), history) for history in histories], "Toys")
    return path


@pytest.fixture
def page(browser: Browser, report: Path) -> Iterator[Page]:
    """The open report; fails afterwards if anything was logged, requested or raised."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    trouble: list[str] = []
    opened.on("console", lambda message: trouble.append(message.text))
    opened.on("pageerror", lambda error: trouble.append(str(error)))
    opened.on("request", lambda request: trouble.append(request.url))
    opened.goto(report.as_uri())
    yield opened
    context.close()
    assert trouble == [report.as_uri()]


def hover(page: Page, selector: str, right: float, down: float) -> str:
    """The tooltip after moving to a fraction of an element's width and height."""
    target = page.locator(selector).first
    target.evaluate("svg => svg.scrollIntoView({block: 'center'})")
    box = target.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + right * box["width"], box["y"] + down * box["height"])
    return str(page.locator("#tip").inner_text())


def test_everything_is_drawn_and_nothing_overflows(page: Page) -> None:
    assert page.locator("#comparison tbody tr").count() == len(RANKS)
    assert page.locator("svg.lines:visible .line").count() == 4 * len(RANKS)
    for selector in ("svg.lines .line", "svg.areas .area", "svg.gantt:visible .bars"):
        box = page.locator(selector).first.bounding_box()
        assert box is not None
        assert box["width"] > 50
        assert box["height"] > 5
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0


@pytest.mark.parametrize("width", [1280, 375])
def test_no_two_labels_of_a_chart_overlap(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    overlaps = page.evaluate("""() => [...document.querySelectorAll("svg.chart")].flatMap((svg) => {
            const boxes = [...svg.querySelectorAll("text")]
                .map((text) => [text.textContent, text.getBoundingClientRect()])
                .filter(([, box]) => box.width > 0);
            return boxes.flatMap(([name, a], i) => boxes.slice(i + 1)
                .filter(([, b]) => a.left < b.right && b.left < a.right
                    && a.top + 3 < b.bottom && b.top + 3 < a.bottom)
                .map(([other]) => name + " / " + other));
        })""")
    assert overlaps == []


def test_on_a_phone_everything_fits_and_can_be_read(page: Page) -> None:
    page.set_viewport_size({"width": 375, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.locator("svg.lines:visible .line").count() == 4 * len(RANKS)
    small = page.evaluate(
        """() => [...document.querySelectorAll("svg.chart text")]
            .map((text) => [text.textContent, text.getBoundingClientRect()])
            .filter(([, box]) => box.width > 0 && box.height < 10)
            .map(([name, box]) => name + " is " + box.height + " pixels high")"""
    )
    assert small == []
    outside = page.evaluate(
        """() => [...document.querySelectorAll("svg.chart")]
            .filter((svg) => !svg.closest(".wide"))
            .flatMap((svg) => [...svg.querySelectorAll("text")])
            .map((text) => [text.textContent, text.getBoundingClientRect()])
            .filter(([, box]) => box.width > 0 && (box.left < 0 || box.right > innerWidth))
            .map(([name]) => name)"""
    )
    assert outside == []
    assert hover(page, "#jct svg:visible", 0.5, 0.5)


def test_a_policy_can_be_hidden_and_shown_again(page: Page) -> None:
    chip = page.locator(".chip").nth(1)
    lines = page.locator('svg.lines .line[data-policy="1"]')
    row = page.locator('.row[data-policy="1"] .who')
    assert lines.first.is_visible()
    chip.click()
    assert chip.get_attribute("aria-pressed") == "false"
    assert not lines.first.is_visible()
    assert not row.is_visible()
    assert page.locator("#comparison tr.off").count() == 1
    assert page.locator('svg.lines .line[data-policy="0"]').first.is_visible()
    chip.click()
    assert lines.first.is_visible()
    assert row.is_visible()


def test_one_gantt_chart_at_a_time(page: Page) -> None:
    assert page.locator("svg.gantt:visible").count() == 1
    page.locator(".tab").nth(2).click()
    assert page.locator("#gantt-2").is_visible()
    assert not page.locator("#gantt-0").is_visible()


def test_bars_and_curves_tell_what_they_are(page: Page) -> None:
    bar = hover(page, "#gantt-0 svg", 0.2, 0.1)
    assert bar.startswith("Job ")
    assert "GPU" in bar
    assert " to " in bar
    curve = hover(page, "#jct svg", 0.5, 0.5)
    assert curve.startswith("within ")
    assert all(rank in curve for rank in RANKS)
    assert hover(page, "#ftf svg.lines", 0.6, 0.5).startswith("at or below ")
    area = hover(page, "#time svg.areas", 0.3, 0.5)
    assert "in use" in area
    assert "%" in area


def test_columns_explain_themselves_and_sort(page: Page) -> None:
    head = page.locator("#comparison thead th[data-tip]").first
    head.hover()
    assert "Lower is better" in page.locator("#tip").inner_text()
    head.click()
    values = page.eval_on_selector_all(
        "#comparison tbody tr td:nth-of-type(1)", "cells => cells.map((c) => +c.dataset.value)"
    )
    assert values == sorted(values)
    assert head.get_attribute("aria-sort") == "ascending"


def test_light_and_dark_differ(browser: Browser, report: Path) -> None:
    colours = []
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme)
        opened = context.new_page()
        opened.goto(report.as_uri())
        colours.append(opened.evaluate("getComputedStyle(document.body).backgroundColor"))
        context.close()
    assert colours[0] != colours[1]


def test_names_of_users_stay_text_in_tooltips(browser: Browser, tmp_path: Path) -> None:
    jobs = [ToyJob(EVIL, 0.0, 8, 2000.0, model=EVIL)]
    history = fold_history(toy_events(jobs, "first-come"))
    path = tmp_path / "report.html"
    write_report(path, [(summarize(history, policy=EVIL), history)], EVIL)
    context = browser.new_context()
    opened = context.new_page()
    opened.goto(path.as_uri())
    assert EVIL in hover(opened, "#gantt-0 svg", 0.5, 0.3)
    assert EVIL in hover(opened, "#jct svg", 0.5, 0.5)
    assert opened.locator("img").count() == 0
    context.close()

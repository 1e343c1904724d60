"""The story of one job: every time that a decision about it changed, and why."""

from __future__ import annotations

from rich import box
from rich.table import Table

from shockwave.cli.console import duration
from shockwave.model.errors import InputError
from shockwave.model.view import View
from shockwave.policies.base import Decision
from shockwave.policies.why import Why, why
from shockwave.predict.base import Forecast


class Story:
    """An observer of the round loop that remembers what was decided about one job."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.chapters: list[tuple[Why, float]] = []  # and the epochs done then

    def __call__(self, view: View, forecast: Forecast, decision: Decision) -> None:
        found = (view.handle == self.handle).nonzero()[0]
        if len(found):
            position = int(found[0])
            told = why(view, decision, position)
            self.chapters.append((told, float(view.epochs_done[position])))

    def turns(self) -> list[tuple[Why, float]]:
        """The first chapter, and each in which the job started, stopped, or saw its
        expected start move by more than a tenth."""
        turns: list[tuple[Why, float]] = []
        for chapter in self.chapters:
            if not turns or _differs(turns[-1][0], chapter[0]):
                turns.append(chapter)
        return turns


def story_table(story: Story, job: str, policy: str, finish: float | None) -> Table:
    """One row a turn. Raises :class:`InputError` for a job that no decision was about."""
    turns = story.turns()
    if not turns:
        raise InputError("no decision was taken about this job", place="--explain", value=job)
    ended = "did not finish" if finish is None else f"finished at {duration(finish)}"
    table = Table(
        title=f"Job {job} under {policy}: {ended}",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
    )
    for header in ("at", "epochs", "expected start", "predicted finish (80 %)", "fair finish"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("why")
    for told, epochs in turns:
        table.add_row(
            duration(told.time),
            f"{epochs:.1f}",
            "now" if told.runs else duration(told.expected_start),
            _interval(told),
            duration(told.fair_finish),
            told.reason,
        )
    return table


def _differs(before: Why, after: Why) -> bool:
    if before.runs != after.runs:
        return True
    if after.runs or before.expected_start is None or after.expected_start is None:
        return False
    wait = max(before.expected_start - before.time, 1.0)
    return abs(after.expected_start - before.expected_start) > max(0.1 * wait, 600.0)


def _interval(told: Why) -> str:
    if told.finish is None:
        return "-"
    return f"{duration(told.finish)} ({duration(told.finish_low)} to {duration(told.finish_high)})"

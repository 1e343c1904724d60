"""``shockwave predict``: how well can the future of these jobs be predicted?"""

from __future__ import annotations

import dataclasses
import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from shockwave.cli.console import console, duration, note, one_line_errors
from shockwave.cli.simulate import TraceArgument
from shockwave.measure.calibration import calibration_svg
from shockwave.model.files import check_writable
from shockwave.predict import registry
from shockwave.predict.scoring import Score, score
from shockwave.protocol.files import atomic_writer
from shockwave.traces import load


def predict(
    trace: TraceArgument,
    predictor: Annotated[
        list[str] | None,
        typer.Option("--predictor", "-p", help="Repeat to compare several. Default: all."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of recipes and of sampling.")] = 0,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write the scores here.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a calibration plot (SVG) here.")] = None,
) -> None:
    """Score predictors on a trace: error, coverage and CRPS at 25, 50 and 75 % progress."""
    with one_line_errors():
        for path in (json_path, plot):
            if path is not None:
                check_writable(path)
        names = predictor or [name for name in registry.names() if name != "oracle"]
        makers = [partial(registry.create, name) for name in names]
        for make in makers:
            make()
        jobs = load(trace, seed=seed)
        scores = score(jobs, makers, seed=seed)
        console.print(_table(scores, f"{trace}: predictions of the remaining runtime"))
        if json_path is not None:
            with atomic_writer(json_path) as file:
                json.dump([dataclasses.asdict(item) for item in scores], file, indent=1)
        if plot is not None:
            with atomic_writer(plot) as file:
                file.write(calibration_svg(scores))
            note(f"Calibration plot: {plot}")


def _table(scores: list[Score], title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.caption = escape(
        "in 80 %: the truth lies within [q10, q90]. PIT 80 %: the same, but a forecast that is "
        "certain and right counts 0.8."
    )
    table.caption_justify = "left"
    for header in (
        "predictor",
        "progress",
        "cases",
        "MAE",
        "MAE / runtime",
        "CRPS",
        "in 80 %",
        "PIT 80 %",
    ):
        table.add_column(header, justify="left" if header == "predictor" else "right")
    for row in scores:
        table.add_row(
            row.predictor,
            "all" if row.progress is None else f"{row.progress:.0%}",
            f"{row.cases:,}",
            duration(row.mae_seconds),
            f"{row.mae_relative:.1%}",
            duration(row.crps_seconds),
            f"{row.closed_coverage_80:.0%}",
            f"{row.coverage_80:.0%}",
        )
    return table

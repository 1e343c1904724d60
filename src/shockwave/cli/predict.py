"""``shockwave predict``: how well can the future of these jobs be predicted?"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
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
from shockwave.model.cluster import Cluster
from shockwave.model.files import check_writable
from shockwave.predict import registry
from shockwave.predict.scoring import Score, score
from shockwave.predict.speed_scoring import SpeedScore, score_speeds
from shockwave.protocol.files import atomic_writer
from shockwave.traces import load


def predict(
    trace: TraceArgument,
    predictor: Annotated[
        list[str] | None,
        typer.Option("--predictor", "-p", help="Repeat to compare several. Default: all."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of recipes and of sampling.")] = 0,
    speeds: Annotated[
        Path | None, typer.Option(help="Speeds of models, for jobs that bring none (JSON).")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            help="What nodes have, such as T4:6x4,A100:2x8; else 4 GPUs.", show_default=False
        ),
    ] = None,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write the scores here.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a calibration plot (SVG) here.")] = None,
) -> None:
    """Score predictors on a trace: error, coverage and CRPS at 25, 50 and 75 % progress.

    Where jobs have a choice of GPUs, also predictions of their speed with every option.
    """
    with one_line_errors():
        for path in (json_path, plot):
            if path is not None:
                check_writable(path)
        names = predictor or [name for name in registry.names() if name != "oracle"]
        makers = [partial(registry.create, name) for name in names]
        for make in makers:
            make()
        nodes = () if cluster is None else Cluster.parse(cluster).nodes
        jobs = load(trace, seed=seed, profiles=speeds)
        scores = score(jobs, makers, seed=seed)
        console.print(_table(scores, f"{trace}: predictions of the remaining runtime"))
        node_gpus = {node.gpu_type: node.gpus for node in nodes}
        of_speeds = score_speeds(jobs, node_gpus=node_gpus, seed=seed)
        if of_speeds:
            console.print(_speed_table(of_speeds, f"{trace}: predictions of seconds per epoch"))
        if json_path is not None:
            document = {
                "runtimes": [dataclasses.asdict(one) for one in scores],
                "speeds": [dataclasses.asdict(one) for one in of_speeds],
            }
            with atomic_writer(json_path) as file:
                json.dump(document, file, indent=1)
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


def _speed_table(scores: Sequence[SpeedScore], title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.caption = escape(
        "By distance from the nearest option on which the job itself was measured. error: "
        "|predicted - true| / true. in 80 %: the truth lies within [q10, q90]."
    )
    table.caption_justify = "left"
    for header in ("predictor", "distance", "cases", "mean error", "median error", "in 80 %"):
        words = header in ("predictor", "distance")
        table.add_column(header, justify="left" if words else "right")
    for row in scores:
        table.add_row(
            row.predictor,
            row.distance or "all",
            f"{row.cases:,}",
            f"{row.error_relative:.1%}",
            f"{row.median_error_relative:.1%}",
            "-" if row.coverage_80 is None else f"{row.coverage_80:.0%}",
        )
    return table

"""What jobs report beside their progress, from the training loop to the person who looks."""

from __future__ import annotations

import json
import math
from pathlib import Path

from shockwave.executors.gangs.ledger import Ledger
from shockwave.protocol.paths import JobPaths
from shockwave.protocol.reports import ReportReader
from shockwave.server.job_reports import MOST_POINTS, reported
from shockwave.train import session


def write(paths: JobPaths, generation: int, *records: object) -> None:
    paths.path.mkdir(parents=True, exist_ok=True)
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    paths.reports(generation).write_text("".join(f"{line}\n" for line in lines))


def epoch(number: int, **fields: object) -> dict[str, object]:
    return {"event": "epoch", "time": 100.0 + number, "epoch": number, **fields}


def test_a_session_reports_figures_and_links(tmp_path: Path) -> None:
    environment = {
        "SHOCKWAVE_JOB": "a",
        "SHOCKWAVE_DIR": str(tmp_path),
        "SHOCKWAVE_GENERATION": "1",
    }
    with session(epochs=2, batch_size=8, environment=environment) as job:
        job.link("TensorBoard", "http://localhost:6006")
        job.report(1, 8, 100, loss=0.5, metrics={"top1": 0.7, "bad": math.nan})
        job.log(grad_norm=2.0)
        job.report(2, 8, 100, loss=0.25)
    found = reported("a", JobPaths(tmp_path))
    values = {name: [point.value for point in points] for name, points in found.metrics.items()}
    assert values == {"loss": [0.5, 0.25], "top1": [0.7], "grad_norm": [2.0]}
    assert found.links == {"TensorBoard": "http://localhost:6006"}


def test_remarks_say_nothing_about_progress_but_that_the_job_lives(tmp_path: Path) -> None:
    paths = JobPaths(tmp_path)
    remark = {"event": "metrics", "time": 500.0, "epoch": 0, "metrics": {"x": 1}}
    write(paths, 1, {"event": "started", "time": 1.0, "epoch": 0}, epoch(1, seconds=5.0), remark)
    ledger = Ledger((1,))
    for report in ReportReader(paths.reports(1)).new():
        ledger.add(report)
    assert (ledger.epochs_done, ledger.last_event, ledger.productive_seconds) == (1, "epoch", 5.0)
    assert ledger.heard == 500.0


def test_what_a_restart_undid_is_left_out(tmp_path: Path) -> None:
    paths = JobPaths(tmp_path)
    write(paths, 1, *(epoch(number, loss=float(number)) for number in (1, 2, 3)))
    write(paths, 2, {"event": "started", "time": 200.0, "epoch": 1}, epoch(2, loss=20.0))
    points = reported("a", paths).metrics["loss"]
    assert [(point.epoch, point.value) for point in points] == [(1, 1.0), (2, 20.0)]


def test_nonsense_is_passed_over_and_much_is_thinned_out(tmp_path: Path) -> None:
    paths = JobPaths(tmp_path)
    write(
        paths,
        1,
        "not json",
        "[1, 2]",
        epoch(1, loss="low", metrics=[1]),
        epoch(1, loss=True, metrics={"": 1, "x" * 500: 1, "ok": 10**400}),
        {"event": "link", "time": 1.0, "epoch": 0, "name": "x", "url": "file:///etc/passwd"},
        {"event": "link", "time": 1.0, "epoch": 0, "name": 3, "url": "http://x"},
        *(epoch(number, loss=float(number)) for number in range(1, 3 * MOST_POINTS)),
    )
    found = reported("a", paths)
    assert found.metrics.keys() == {"loss"}
    assert found.links == {}
    values = [point.value for point in found.metrics["loss"]]
    assert len(values) <= MOST_POINTS
    assert (values[0], values[-1]) == (1.0, 3.0 * MOST_POINTS - 1)
    assert values == sorted(values)

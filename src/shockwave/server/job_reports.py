"""What a job reported beside its progress: figures and links, read from its report files.

The files are the job's own, so nothing in them is trusted: what is no number is passed over,
and there is a bound on everything.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from shockwave.protocol.files import open_plain
from shockwave.protocol.paths import JobPaths
from shockwave.server.records import MetricsRecord, Point
from shockwave.server.view_records import SpeedSeen

MOST_POINTS = 2_000  # of one figure; of more every second one is left out, again and again
MOST_SPEEDS = 1_000  # epochs, likewise
_MOST_NAMES = 64
_MOST_LINKS = 16
_LONGEST_NAME = 128
_LONGEST_URL = 2_000
_MOST_BYTES = 64 << 20  # of one report file
_LONGEST_LINE = 1 << 16


def reported(job: str, paths: JobPaths) -> MetricsRecord:
    """All launches together; what an earlier one did and a later one undid is left out."""
    figures: dict[str, list[Point]] = {}
    links: dict[str, str] = {}
    for generation in paths.reported_generations():
        for record in _records(paths, generation):
            if record.get("event") == "started":
                _undo(figures, record.get("epoch"))
            elif record.get("event") == "link":
                _link(links, record.get("name"), record.get("url"))
            else:
                _figures(figures, record)
    return MetricsRecord(id=job, metrics=figures, links=links)


def speeds_seen(paths: JobPaths) -> list[SpeedSeen]:
    """The epochs of all launches and how long they took; what was undone is left out."""
    seen: list[SpeedSeen] = []
    for generation in paths.reported_generations():
        for record in _records(paths, generation):
            epoch, seconds = _number(record.get("epoch")), _number(record.get("seconds"))
            time, size = _number(record.get("time")), _number(record.get("configuration"))
            if record.get("event") == "started" and epoch is not None:
                while seen and seen[-1].epoch > epoch:
                    seen.pop()
            if record.get("event") != "epoch" or abs(size or 0.0) >= 2**53:
                continue
            if epoch is not None and seconds is not None and time is not None:
                configuration = None if size is None else int(size)
                seen.append(
                    SpeedSeen(time=time, epoch=epoch, seconds=seconds, configuration=configuration)
                )
                if len(seen) > MOST_SPEEDS:
                    del seen[1:-1:2]
    return seen


def links_of(paths: JobPaths) -> dict[str, str]:
    return reported("", paths).links


def exit_code_of(paths: JobPaths, generation: int) -> int | None:
    """The code of the first rank that failed, 0 if all went well; None if nobody knows."""
    record = paths.exit_record(generation)
    if record is None:
        return None
    failed = [*record.failed.values(), *(code for code in record.codes if code)]
    return failed[0] if failed else 0 if record.codes else None


def _records(paths: JobPaths, generation: int) -> Iterator[dict[str, Any]]:
    try:
        with open_plain(paths.reports(generation)) as file:
            left = _MOST_BYTES
            while left > 0 and (line := file.readline(_LONGEST_LINE)):
                left -= len(line)
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(record, dict):
                    yield record
    except OSError:
        return


def _figures(figures: dict[str, list[Point]], record: dict[str, Any]) -> None:
    given = record.get("metrics")
    values = dict(given) if isinstance(given, dict) else {}
    if "loss" in record:
        values.setdefault("loss", record["loss"])
    time, epoch = _number(record.get("time")), _number(record.get("epoch"))
    if time is None or epoch is None or not 0 <= epoch < 2**53:
        return
    for name, value in values.items():
        number = _number(value)
        if number is None or not (0 < len(name) <= _LONGEST_NAME):
            continue
        if name not in figures and len(figures) == _MOST_NAMES:
            continue
        points = figures.setdefault(name, [])
        points.append(Point(time=time, epoch=int(epoch), value=number))
        if len(points) > MOST_POINTS:
            del points[1:-1:2]


def _undo(figures: dict[str, list[Point]], epoch: Any) -> None:
    kept = _number(epoch)
    if kept is not None:
        for points in figures.values():
            while points and points[-1].epoch > kept:
                points.pop()


def _link(links: dict[str, str], name: Any, url: Any) -> None:
    is_text = isinstance(name, str) and isinstance(url, str) and url.isprintable()
    if not is_text or not 0 < len(name) <= _LONGEST_NAME or len(url) > _LONGEST_URL:
        return
    if url.startswith(("http://", "https://", "unix:")) and (
        name in links or len(links) < _MOST_LINKS
    ):
        links[name] = url


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None

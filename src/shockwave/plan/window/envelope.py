"""Concave envelopes of the jobs' values over usage, as segments sorted by slope.

A segment is one step that a job may buy: ``usage`` more GPU-rounds at ``slope`` welfare
each. Along a job's envelope slopes fall, so taking all segments above a price, in order of
slope, is what all jobs would choose at that price. Sorted once, a price is a lookup.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.model.view import Floats, Ints


@dataclass(frozen=True)
class Segments:
    """Segments of all jobs, steepest first (equal slopes: smaller rows first)."""

    slope: Floats  # welfare per GPU-round, positive
    usage: Floats  # GPU-rounds of the segment
    end_usage: Floats  # GPU-rounds of the job at its end
    job: Ints
    row: Ints  # the option at its end


def concave_segments(value: Floats, usage: Floats) -> Segments:
    """The rising part of every column's upper concave envelope.

    Args:
        value: ``[row, job]``, ``-inf`` where a job has no such option.
        usage: ``[row, job]``, growing along rows, zero in the first.
    """
    rows, jobs = value.shape
    if not jobs or rows < 2:
        none = np.zeros(0)
        return Segments(none, none, none, none.astype(np.int64), none.astype(np.int64))
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.diff(usage, axis=0)
        slope = np.diff(value, axis=0) / step
        smooth = (step > 0).all(axis=0) & np.isfinite(slope).all(axis=0)
        smooth &= (slope[1:] <= slope[:-1]).all(axis=0) if rows > 2 else True
    bent = np.flatnonzero(~smooth)
    if len(bent):
        slope[:, bent], step[:, bent] = _wrap(value[:, bent], usage[:, bent])
    flat = np.flatnonzero(slope > 0)
    flat = flat[np.argsort(-slope.ravel()[flat], kind="stable")]
    row, job = flat // jobs + 1, flat % jobs
    return Segments(
        slope=slope.ravel()[flat],
        usage=step.ravel()[flat],
        end_usage=usage.ravel()[flat + jobs],
        job=job,
        row=row,
    )


def _wrap(value: Floats, usage: Floats) -> tuple[Floats, Floats]:
    """Slope and length of the segment that ends in each row (from the second on), else zero.

    Gift wrapping for all columns at once: from a vertex the steepest way up leads to the
    next; of equally steep ones the farthest, so that slopes fall strictly.
    """
    rows, columns = value.shape
    slope, step = np.zeros((rows - 1, columns)), np.zeros((rows - 1, columns))
    column = np.arange(columns)
    here = np.zeros(columns, dtype=np.int64)
    first = 1  # every vertex from here on lies in this row or a later one
    while len(column) and first < rows:
        rise = value[first:, column] - value[here, column]
        run = usage[first:, column] - usage[here, column]
        way = np.divide(rise, run, out=np.full(rise.shape, -np.inf), where=run > 0)
        row = rows - 1 - way[::-1].argmax(axis=0)
        steepest = way[row - first, np.arange(len(column))]
        up = steepest > 0
        column, row, steepest = column[up], row[up], steepest[up]
        slope[row - 1, column] = steepest
        step[row - 1, column] = usage[row, column] - usage[here[up], column]
        here = row
        first += 1
    return slope, step

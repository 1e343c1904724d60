"""Seconds per epoch of every configuration: measured, corrected, estimated; never unknown.

Where a configuration was measured, the measurement counts. Where it has only a profile,
the profile is corrected by how far off it was in the configurations that were measured:

    d(c) = profile(c) * exp( n / (n + 1) * mean log(measured / profile) )

with ``n`` epochs behind the measurements, so that a few of them move it only a little.
Where it has neither, it takes after the job's own configurations, else after jobs of the
same kind, else after all jobs.
"""

from __future__ import annotations

import numpy as np

from shockwave.model.view import Bools, Floats, Ints, View
from shockwave.predict.transitions import current, declared

_EPOCHS_TO_TRUST = 1.0
_FALLBACK_SECONDS = 60.0  # when nothing at all is known about any job


def epoch_seconds(view: View) -> Floats:
    """[job, configuration] best estimate of seconds per epoch, finite and positive."""
    profile = _known(view.profile)
    measured = _known(view.measured_seconds)
    seconds = np.where(np.isnan(measured), _corrected(view, profile, measured), measured)
    missing = np.isnan(seconds) & declared(view)
    if missing.any():
        seconds = _estimated(view.kind, seconds, missing)
    return np.where(np.isnan(seconds), _FALLBACK_SECONDS, seconds)


def current_epoch_seconds(view: View) -> Floats:
    """[job] seconds per epoch in the configuration that the job is in."""
    return np.asarray(epoch_seconds(view)[np.arange(len(view)), current(view)])


def _known(seconds: Floats) -> Floats:
    """Numbers that can be a time; everything else counts as unknown."""
    return np.where(np.isfinite(seconds) & (seconds > 0), seconds, np.nan)


def _corrected(view: View, profile: Floats, measured: Floats) -> Floats:
    both = ~np.isnan(profile) & ~np.isnan(measured)
    ratio = np.divide(measured, profile, out=np.ones_like(profile), where=both)
    if (ratio == 1.0).all():
        return profile
    epochs = np.where(both, np.maximum(view.configuration_epochs, 0.0), 0.0)
    total = epochs.sum(axis=1)
    mean_log = (epochs * np.log(ratio)).sum(axis=1) / np.maximum(total, 1e-9)
    tempered = mean_log * total / (total + _EPOCHS_TO_TRUST)
    return np.asarray(profile * np.exp(tempered)[:, None])


def _estimated(kind: Ints, seconds: Floats, missing: Bools) -> Floats:
    """Fill what is missing from the job itself, its kind, and everybody, in that order.

    Ratios between configurations are shared by kind: an unknown configuration takes the
    job's own level times what its kind shows from one configuration to the other.
    """
    known = ~np.isnan(seconds)
    logs = np.where(known, np.log(np.where(known, seconds, 1.0)), 0.0)
    if not known.any():
        return np.where(missing, _FALLBACK_SECONDS, seconds)
    overall = logs.sum() / known.sum()
    _, group = np.unique(kind, return_inverse=True)
    groups = int(group.max()) + 1
    kind_level = _group_mean(group, groups, logs.sum(axis=1), known.sum(axis=1), overall)
    job_count = known.sum(axis=1)
    level = np.where(job_count > 0, logs.sum(axis=1) / np.maximum(job_count, 1), kind_level[group])
    # Offsets of a configuration from its job's level, averaged over the kind. Jobs that
    # know a single configuration say nothing about offsets.
    offsets = np.zeros((groups, seconds.shape[1]))
    comparable = known & (job_count > 1)[:, None]
    for column in range(seconds.shape[1]):
        rows = comparable[:, column]
        offsets[:, column] = _group_mean(
            group, groups, np.where(rows, logs[:, column] - level, 0.0), rows.astype(float), 0.0
        )
    # The level of a job that knows only some configurations is corrected for which.
    bias = np.where(known, offsets[group], 0.0).sum(axis=1) / np.maximum(job_count, 1)
    estimate = np.exp((level - bias)[:, None] + offsets[group])
    return np.where(missing, estimate, seconds)


def _group_mean(group: Ints, groups: int, total: Floats, count: Floats, default: float) -> Floats:
    totals = np.bincount(group, weights=total, minlength=groups)
    counts = np.bincount(group, weights=count, minlength=groups)
    return np.where(counts > 0, totals / np.maximum(counts, 1e-9), default)

"""What it costs to start a job and to stop one: as measured, as far as it was."""

from __future__ import annotations

import numpy as np

from shockwave.model.view import Floats, View


def start_seconds(view: View) -> Floats:
    """[job] until a job makes progress once it has GPUs.

    Its own last start where that was measured; else what starts of the others took, by their
    median; else what the settings say.
    """
    measured = view.measured_restart_seconds
    known = ~np.isnan(measured)
    if not known.any():
        return np.full(len(view), view.restart_seconds)
    return np.where(known, measured, np.median(measured[known]))


def stop_seconds(view: View) -> Floats:
    """[job] what is lost if it is stopped now: its next start, and work since its checkpoint.

    Of a job that has told of no checkpoint yet nothing is known: it is taken to save when it is
    asked to stop. One that cannot says so (``preemptible``), and stays.
    """
    return start_seconds(view) + np.nan_to_num(view.unsaved_seconds)

"""A cluster without choices, for policies that think in options."""

from __future__ import annotations

import numpy as np

from shockwave.model.options import Options
from shockwave.model.view import View


def one_option_each(view: View) -> Options:
    """The view of a cluster of one type without choices, as options: one for every gang size."""
    sizes, number = np.unique(view.gpus, return_inverse=True)
    mine = number[:, None] == np.arange(len(sizes))
    unknown = np.full(mine.shape, np.nan)
    held = np.where(view.running, number, -1)
    return Options(
        types=("gpu",),
        type_gpus=np.array([view.gpus_total]),
        node_gpus=np.array([view.gpus_total]),
        type=np.zeros(len(sizes), dtype=np.int64),
        gpus=sizes,
        spans=np.zeros(len(sizes), dtype=np.bool_),
        allowed=mine,
        requested=mine,
        held=held,
        last=held,
        measured=np.where(mine & view.running[:, None], 1.0, unknown),
        measured_epochs=np.zeros(mine.shape),
        declared=unknown,
        profiled=unknown,
    )

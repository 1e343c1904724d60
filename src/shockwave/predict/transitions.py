"""Which configurations a job can still move to, by its kind of adaptation.

========== =====================================================================
static     never changes
gns        only grows: later in the declared order, and never one it has passed
accordion  alternates: every declared configuration remains possible
pruning    only shrinks: onwards in the direction it moves through its list
custom     every declared configuration remains possible
========== =====================================================================

A job may break its own rule; whatever it did, the configuration it is in now counts as
possible and the answer stays well-formed.
"""

from __future__ import annotations

import numpy as np

from shockwave.model.job import Adaptation
from shockwave.model.view import Bools, Ints, View


def declared(view: View) -> Bools:
    """[job, configuration] whether the column is a configuration that the job declared."""
    columns = np.arange(view.profile.shape[1])
    return columns[None, :] < np.maximum(view.configurations, 1)[:, None]


def current(view: View) -> Ints:
    """[job] index of the configuration a job is in, within the columns of the view."""
    return np.clip(view.configuration, 0, view.profile.shape[1] - 1)


def reachable(view: View) -> Bools:
    """[job, configuration] configurations that may come after the current one.

    The current configuration itself is never among them.
    """
    columns = np.arange(view.profile.shape[1])[None, :]
    now = current(view)[:, None]
    kind = view.adaptation[:, None]
    seen = view.configuration_epochs > 0
    later, earlier = columns > now, columns < now
    # A pruning job may list its sizes either way round: it moves down its list if it has
    # been further up, or if it sits at the far end without having been anywhere else.
    at_end = now == np.maximum(view.configurations, 1)[:, None] - 1
    upwards = (seen & later).any(axis=1, keepdims=True) & ~(seen & earlier).any(
        axis=1, keepdims=True
    )
    alone = at_end & ~(seen & ~(columns == now)).any(axis=1, keepdims=True)
    onwards = np.where(upwards | alone, earlier, later)
    possible = np.select(
        [
            kind == Adaptation.GNS.code,
            kind == Adaptation.PRUNING.code,
            kind == Adaptation.STATIC.code,
        ],
        [later & ~seen, onwards & ~seen, np.zeros_like(later)],
        default=columns != now,
    )
    return np.asarray(possible & declared(view))

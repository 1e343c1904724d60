"""A choice as far as the jobs' tenants may have it, whatever policy made it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shockwave.engine.accounts import Endowed
from shockwave.engine.chosen import Chosen, not_chosen
from shockwave.model.view import Ints, View
from shockwave.policies.base import Decision


def handed_out(
    view: View, decision: Decision, choice: Chosen, staying: Ints, endowed: Endowed
) -> tuple[Decision, Chosen]:
    """The decision and its jobs, each tenant's as far as that may have them.

    Between rounds whoever runs goes on. What a tenant may not have goes to the next in the
    policy's order; where the policy chose among options, to nobody that it did not choose.
    """
    run = np.searchsorted(view.handle, choice.handles)  # handles are in order of submission
    gpus = view.gpus
    if choice.options is None:
        order = np.concatenate([run, not_chosen(run, view, decision)])
    else:
        gpus, order = view.gpus.copy(), run
        for position, option in zip(run.tolist(), choice.options, strict=True):
            gpus[position] = view.gpus[position] if option is None else option.gpus
    first = np.flatnonzero(view.running) if view.between_rounds else staying
    handed = endowed.hand_out(order, first, gpus)
    handles = view.handle[handed.run]
    changed = replace(
        decision,
        run=handed.run,
        options=None if decision.options is None else _options(decision, handed.run),
        stable=False,
        backfill=endowed.may_fill_up(decision.backfill, handed.run),
        kept_back=lambda position: endowed.reason(handed, position),
    )
    if choice.options is None:
        return changed, Chosen(handles)
    return changed, Chosen(handles, tuple(choice.wanted.get(h) for h in handles.tolist()))


def _options(decision: Decision, run: Ints) -> Ints:
    """The options of those that are left; of those that were not chosen, 0, as nobody asks."""
    assert decision.options is not None  # the caller saw to it
    given = dict(zip(decision.run.tolist(), decision.options.tolist(), strict=True))
    return np.array([given.get(position, 0) for position in run.tolist()], dtype=np.int64)

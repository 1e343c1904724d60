"""What a policy chose, checked, and completed by the jobs that stay whatever is decided."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shockwave.model.errors import PolicyError
from shockwave.model.options import Option, Options
from shockwave.model.view import Ints, View
from shockwave.policies.base import Decision
from shockwave.policies.fill import largest_first


@dataclass(frozen=True)
class Chosen:
    """Handles of the jobs that are to run, most preferred first, and what each is to hold.

    Without ``options`` each gets its request. A job that may not be stopped keeps what it has.
    """

    handles: Ints
    options: tuple[Option | None, ...] | None = None

    @cached_property
    def wanted(self) -> dict[int, Option | None]:
        """By handle, in the same order."""
        options = (None,) * len(self.handles) if self.options is None else self.options
        return dict(zip(self.handles.tolist(), options, strict=True))


def chosen(name: str, view: View, decision: Decision, staying: Ints) -> Chosen:
    """The decision of the policy of that name, as it can be carried out.

    ``staying`` are the positions of jobs that would lose their work. Raises
    :class:`PolicyError` for a decision that cannot be carried out; a policy may come from
    anywhere.
    """
    run = _positions(name, view, decision.run)
    if decision.options is None:
        _check_total(name, view, run)
        return Chosen(view.handle[_with_those_that_must_stay(view, decision, run, staying)])
    if view.options is None:
        raise PolicyError(f"{name} chose options, but in this run nobody has a choice")
    picked = _options(name, view, view.options, run, decision.options)
    run, picked = _with_those_that_keep_theirs(view.options, run, picked, staying)
    return Chosen(view.handle[run], tuple(view.options.keys[number] for number in picked.tolist()))


def _positions(name: str, view: View, positions: Ints) -> Ints:
    run = np.asarray(positions)
    if run.ndim != 1 or (len(run) and not np.issubdtype(run.dtype, np.integer)):
        raise PolicyError(f"{name} must choose positions in the view, not {run!r}")
    run = run.astype(np.int64, copy=False)
    in_range = len(run) == 0 or (run.min() >= 0 and run.max() < len(view))
    if not in_range or len(np.unique(run)) != len(run):
        raise PolicyError(f"{name} chose jobs twice or jobs that do not exist: {run.tolist()}")
    return run


def _check_total(name: str, view: View, run: Ints) -> None:
    wanted = int(view.gpus[run].sum())
    if wanted > view.gpus_total:
        raise PolicyError(
            f"{name} chose gangs of {wanted} GPUs in round "
            f"{view.round}, but {view.gpus_total} are up"
        )


def _options(name: str, view: View, options: Options, run: Ints, given: Ints) -> Ints:
    picked = np.asarray(given)
    if picked.shape != run.shape or (len(picked) and not np.issubdtype(picked.dtype, np.integer)):
        raise PolicyError(f"{name} must choose one option for every job, not {picked!r}")
    picked = picked.astype(np.int64, copy=False)
    if len(picked) and (picked.min() < 0 or picked.max() >= len(options)):
        raise PolicyError(f"{name} chose options that do not exist: {picked.tolist()}")
    may = options.allowed[run, picked] | options.requested[run, picked]
    wrong = np.flatnonzero(~may & (options.held[run] != picked))
    if len(wrong):
        job, option = int(view.handle[run[wrong[0]]]), options.keys[int(picked[wrong[0]])]
        raise PolicyError(f"{name} gave job number {job} {option}, which it cannot use")
    used = np.bincount(options.type[picked], options.gpus[picked], len(options.types))
    over = np.flatnonzero(used > options.type_gpus)
    if len(over):
        kind = int(over[0])
        raise PolicyError(
            f"{name} chose gangs of {int(used[kind])} GPUs of type {options.types[kind]} in round "
            f"{view.round}, but {int(options.type_gpus[kind])} are up"
        )
    return picked


def _with_those_that_must_stay(view: View, decision: Decision, run: Ints, staying: Ints) -> Ints:
    """Jobs that would lose their work stay first; then whoever was chosen and still fits.

    Positions in the view. What is left over goes to others, in the policy's order.
    """
    if np.isin(staying, run).all():
        return run
    room = view.gpus_total - int(view.gpus[staying].sum())
    after = np.concatenate([run, not_chosen(run, view, decision)])
    kept = []
    for position in after[~np.isin(after, staying)].tolist():
        if view.gpus[position] <= room:
            kept.append(position)
            room -= int(view.gpus[position])
    return np.concatenate([staying, np.array(kept, dtype=np.int64)])


def _with_those_that_keep_theirs(
    options: Options, run: Ints, picked: Ints, staying: Ints
) -> tuple[Ints, Ints]:
    """Jobs that would lose their work keep what they hold; then whoever was chosen and fits."""
    held = options.held[staying]
    given = dict(zip(run.tolist(), picked.tolist(), strict=True))
    if all(given.get(job) == own for job, own in zip(staying.tolist(), held.tolist(), strict=True)):
        return run, picked
    room = options.type_gpus - np.bincount(
        options.type[held], options.gpus[held], len(options.types)
    ).astype(np.int64)
    kept = []
    for place in np.flatnonzero(~np.isin(run, staying)).tolist():
        kind, gpus = options.type[picked[place]], options.gpus[picked[place]]
        if gpus <= room[kind]:
            kept.append(place)
            room[kind] -= gpus
    return np.concatenate([staying, run[kept]]), np.concatenate([held, picked[kept]])


def not_chosen(run: Ints, view: View, decision: Decision) -> Ints:
    """Who was not chosen but may be used to fill up, in the policy's order of preference."""
    positions = (
        np.arange(len(view)) if decision.priority is None else largest_first(decision.priority)
    )
    if decision.backfill is not None:
        positions = positions[decision.backfill[positions]]
    return np.asarray(positions[~np.isin(positions, run)])

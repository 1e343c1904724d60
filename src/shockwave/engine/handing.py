"""A choice as far as the jobs' tenants may have it, whatever policy made it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from shockwave.engine.accounts import Endowed
from shockwave.engine.chosen import Chosen, not_chosen
from shockwave.model.options import Option, Options
from shockwave.model.view import Ints, View
from shockwave.plan.counter import Counter, Handed, Offer
from shockwave.policies.base import Decision

# Of a handle, the types of the nodes that it is bound to; None if it may use all.
TypesFor = Callable[[int], frozenset[str] | None]


def handed_out(
    view: View,
    decision: Decision,
    choice: Chosen,
    staying: Ints,
    endowed: Endowed,
    types_for: TypesFor,
) -> tuple[Decision, Chosen]:
    """The decision and its jobs, each tenant's as far as that may have them.

    Between rounds whoever runs goes on. What a tenant may not have goes to the next in the
    policy's order. Where there are options, a job that cannot have the first of its own is given
    another.
    """
    run = np.searchsorted(view.handle, choice.handles)  # handles are in order of submission
    order = np.concatenate([run, not_chosen(run, view, decision)])
    first = np.flatnonzero(view.running) if view.between_rounds else staying
    asked = frozenset(run.tolist())
    if view.options is None:
        handed, given = _of_requests(view, order, first, endowed), None
    else:
        menu = _Menu(view, view.options, choice, endowed, types_for)
        handed = _of_options(view, view.options, menu, order, first, endowed)
        given = tuple(view.options.keys[offer.option] for offer in handed.offers)
    changed = replace(
        decision,
        run=handed.run,
        options=None if given is None else _numbers(handed),
        stable=False,
        backfill=endowed.may_fill_up(decision.backfill, handed.run),
        kept_back=lambda position: endowed.reason(handed, position, liked=position in asked),
    )
    return changed, Chosen(view.handle[handed.run], given)


def _numbers(handed: Handed) -> Ints:
    return np.array([offer.option for offer in handed.offers], dtype=np.int64)


def _of_requests(view: View, order: Ints, first: Ints, endowed: Endowed) -> Handed:
    """Every job gets its request, on whatever GPUs."""
    size, running = view.gpus.tolist(), view.running.tolist()

    def offer(position: int) -> Offer:
        return Offer(size[position], holds=running[position])

    counter = Counter(
        tenant=view.tenant,
        person=endowed.person,
        purses=endowed.purses,
        together=endowed.together,
        room=[view.gpus_total],
    )
    held = {position: offer(position) for position in first.tolist()}
    return counter.hand_out(order, held, lambda position: (offer(position),))


def _of_options(
    view: View, options: Options, menu: _Menu, order: Ints, first: Ints, endowed: Endowed
) -> Handed:
    counter = Counter(
        tenant=view.tenant,
        person=endowed.person,
        purses=endowed.purses,
        together=endowed.together,
        room=options.type_gpus.tolist(),
        reserve=menu.left_free(),
    )
    held = {position: menu.held(position) for position in first.tolist()}
    return counter.hand_out(order, held, menu.offers)


class _Menu:
    """What each job could be given, what the policy asks for first."""

    def __init__(
        self,
        view: View,
        options: Options,
        choice: Chosen,
        endowed: Endowed,
        types_for: TypesFor,
    ) -> None:
        self._types_for = types_for
        self._view, self._options = view, options
        self._preferred_type = endowed.preferred_type
        pools = endowed.layout.of_type
        self._pool = [pools.get(options.types[kind], 0) for kind in options.type.tolist()]
        self._number = {option: number for number, option in enumerate(options.keys)}
        handles = dict(zip(view.handle.tolist(), range(len(view)), strict=True))
        self._asked: dict[int, Option | None] = {
            handles[handle]: option for handle, option in choice.wanted.items()
        }
        self._chooses = choice.options is not None

    def left_free(self) -> list[int]:
        """[type] GPUs that a policy that chooses options gave to nobody."""
        left: list[int] = self._options.type_gpus.tolist()
        if not self._chooses:
            return [0] * len(left)
        for option in self._asked.values():
            if option is not None:
                left[self._options.type[self._number[option]]] -= option.gpus
        return left

    def held(self, position: int) -> Offer:
        return self._offer(position, int(self._options.held[position]), asked=True)

    def offers(self, position: int) -> Iterator[Offer]:
        """What the policy chose; what it holds; its request; fewer GPUs than that.

        Only on nodes that it may use; the policy knows nothing of these.
        """
        asked, chosen = position in self._asked, self._asked.get(position)
        if chosen is not None:
            yield self._offer(position, self._number[chosen], asked=True)
        bound = self._types_for(int(self._view.handle[position]))
        told: set[int] = set()
        for number in self._numbers(position):
            option = self._options.keys[number]
            fits = bound is None or option.gpu_type in bound
            if fits and option != chosen and number not in told:
                told.add(number)
                yield self._offer(position, number, asked=asked)

    def _numbers(self, position: int) -> Iterator[int]:
        options = self._options
        if options.held[position] >= 0:
            yield int(options.held[position])
        requested = np.flatnonzero(options.requested[position])
        preferred = self._preferred_type(position)
        yield from sorted(requested.tolist(), key=lambda n: options.keys[n].gpu_type != preferred)
        fewer = options.allowed[position] & (options.gpus < self._view.gpus[position])
        yield from sorted(np.flatnonzero(fewer).tolist(), key=lambda n: -options.gpus[n])

    def _offer(self, position: int, number: int, *, asked: bool) -> Offer:
        options = self._options
        return Offer(
            int(options.gpus[number]),
            self._pool[number],
            int(options.type[number]),
            number,
            holds=number == options.held[position],
            asked=asked,
        )

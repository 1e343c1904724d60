"""How GPUs are handed to the jobs of several tenants, in an order that any policy may have made.

GPUs lie in pools: those of a type that some tenant was promised something of are a pool of their
own, all others are one together. In each pool the next GPUs go to the tenant with most left of
what is in its favour there. docs/tenants.md has the rules.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from shockwave.model.view import Bools, Ints

ALL_TOGETHER = -1  # in place of a pool: a limit on the GPUs of all


@dataclass(frozen=True)
class Purse:
    """What one tenant may take in a round: ``gpus`` in its favour, ``guaranteed`` before all."""

    gpus: float
    guaranteed: int = 0
    most: float = math.inf
    people: Mapping[int, float] | None = None  # GPUs in favour of each of them, where they share


@dataclass(frozen=True, slots=True)
class Offer:
    """One way in which a job could run: so many GPUs of a type, which lie in a pool."""

    gpus: int
    pool: int = 0
    kind: int = 0  # type of GPU
    option: int = -1  # its number, where the view has options
    holds: bool = False  # this is what the job holds
    asked: bool = True  # the policy asks for it


@dataclass(frozen=True, eq=False)
class Handed:
    """Who runs with what, and of those that wait who was kept back by a limit or by the share."""

    run: Ints
    offers: tuple[Offer, ...]  # parallel to ``run``
    at_most: Mapping[int, int]  # by position, the pool whose limit it is
    at_share: Bools


@dataclass
class _Taker:
    """A tenant at the counter of a pool: who of its people is next, and what was taken."""

    purse: Purse
    took: int = 0
    queues: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # by person
    taken: dict[int, int] = field(default_factory=dict)

    def waits(self, person: int, rank: int, position: int) -> None:
        who = 0 if self.purse.people is None else person
        heapq.heappush(self.queues.setdefault(who, []), (rank, position))

    def gave(self, person: int, gpus: int) -> None:
        self.took += gpus
        self.taken[person] = self.taken.get(person, 0) + gpus

    def next(self) -> int | None:
        """The position whose turn it is; None if nobody waits."""
        return self.queues[self._who()][0][1] if self.queues else None

    def pop(self) -> int:
        who = self._who()
        _, position = heapq.heappop(self.queues[who])
        if not self.queues[who]:
            del self.queues[who]
        return position

    def _who(self) -> int:
        people = self.purse.people
        if people is None:
            return 0
        left = {who: people.get(who, 0.0) - self.taken.get(who, 0) for who in self.queues}
        return max(left, key=lambda who: (left[who], -who))


class Counter:
    """Hands out the GPUs of one round.

    ``purses`` are by pool and tenant, ``together`` what holds for a tenant in all pools, ``room``
    the free GPUs of each type. Of these the policy wants ``reserve`` to stay free: only who has a
    claim to more may have them without being asked for.
    """

    def __init__(
        self,
        *,
        tenant: Ints,
        person: Ints,
        purses: Sequence[Mapping[int, Purse]],
        together: Mapping[int, Purse],
        room: Iterable[int],
        reserve: Iterable[int] = (),
    ) -> None:
        self._tenant, self._person = tenant.tolist(), person.tolist()
        self._takers = {
            (pool, number): _Taker(purse)
            for pool, of_pool in enumerate(purses)
            for number, purse in of_pool.items()
        }
        self._together = together
        self._took = dict.fromkeys(together, 0)
        self._room = list(room)
        self._reserve = list(reserve) or [0] * len(self._room)
        self._now: dict[int, Offer] = {}  # of those that wait, what is tried next
        self._later: dict[int, Iterator[Offer]] = {}
        self._rank: dict[int, int] = {}
        self._heap: list[tuple[float, int, int]] = []
        self._at_most: dict[int, int] = {}
        self._given: dict[int, Offer] = {}

    def hand_out(
        self, order: Ints, first: Mapping[int, Offer], offers: Callable[[int], Iterable[Offer]]
    ) -> Handed:
        """To ``first`` before all, then each tenant's jobs in this order.

        A job takes the first of its offers that it can have. A tenant may overdraw what is in its
        favour by one gang: the balance remembers it. A job that runs is let go only when all of it
        is overdrawn. What nobody can claim is lent to whoever comes next.
        """
        for position, offer in first.items():
            self._give(position, offer)
        for rank, position in enumerate(order.tolist()):
            if position not in first:
                self._rank[position], self._later[position] = rank, iter(offers(position))
                self._stand(position)
        for pool, number in self._takers:
            self._call(pool, number)
        while self._heap and any(room > 0 for room in self._room):
            key, pool, number = heapq.heappop(self._heap)
            now = self._key(pool, number)
            if now is None:
                continue
            if -now > key:  # something else was given to the tenant meanwhile
                heapq.heappush(self._heap, (-now, pool, number))
                continue
            position = self._takers[pool, number].pop()
            if not self._serve(position, claims=now > 0) and self._stand(position):
                self._call(self._now[position].pool, number)
            self._call(pool, number)
        return self._handed()

    def _stand(self, position: int) -> bool:
        """Goes where its next offer is; returns whether there is one."""
        offer = next(self._later[position], None)
        if offer is None:
            return False
        self._now[position] = offer
        taker = self._takers[offer.pool, self._tenant[position]]
        taker.waits(self._person[position], self._rank[position], position)
        return True

    def _call(self, pool: int, number: int) -> None:
        key = self._key(pool, number)
        if key is not None:
            heapq.heappush(self._heap, (-key, pool, number))

    def _key(self, pool: int, number: int) -> float | None:
        """How much in its favour is left for its next job; None if it has none there."""
        taker = self._takers[pool, number]
        position = taker.next()
        if position is None:
            return None
        offer, took = self._now[position], self._took[number]
        if (
            taker.took + offer.gpus <= taker.purse.guaranteed
            or took + offer.gpus <= self._together[number].guaranteed
        ):
            return math.inf
        return taker.purse.gpus - taker.took + (offer.gpus if offer.holds else 0)

    def _serve(self, position: int, *, claims: bool) -> bool:
        offer, number = self._now[position], self._tenant[position]
        taker = self._takers[offer.pool, number]
        if self._took[number] + offer.gpus > self._together[number].most:
            self._at_most[position] = ALL_TOGETHER
        elif taker.took + offer.gpus > taker.purse.most:
            self._at_most[position] = offer.pool
        else:
            kept = 0 if offer.asked or claims else self._reserve[offer.kind]
            if offer.gpus <= self._room[offer.kind] - kept:
                self._give(position, offer)
                return True
        return False

    def _give(self, position: int, offer: Offer) -> None:
        number = self._tenant[position]
        self._takers[offer.pool, number].gave(self._person[position], offer.gpus)
        self._took[number] += offer.gpus
        self._room[offer.kind] -= offer.gpus
        self._given[position] = offer

    def _handed(self) -> Handed:
        waits = [position for position in range(len(self._tenant)) if position not in self._given]
        at_most, at_share = {}, np.zeros(len(self._tenant), dtype=np.bool_)
        favour = dict.fromkeys(self._took, 0.0)
        for (_, number), taker in self._takers.items():
            favour[number] += taker.purse.gpus
        for position in waits:
            number = self._tenant[position]
            limit = self._limit(position, number)
            if limit is not None:
                at_most[position] = limit
            else:
                at_share[position] = self._took[number] >= favour[number]
        run = np.fromiter(self._given, np.int64, len(self._given))
        return Handed(run, tuple(self._given.values()), at_most, at_share)

    def _limit(self, position: int, number: int) -> int | None:
        """The pool whose limit keeps a job of the tenant waiting."""
        if self._took[number] >= self._together[number].most:
            return ALL_TOGETHER
        met, offer = self._at_most.get(position), self._now.get(position)
        if met is None and offer is not None:
            taker = self._takers[offer.pool, number]
            return offer.pool if taker.took >= taker.purse.most else None
        return met

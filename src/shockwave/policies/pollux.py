"""Pollux (OSDI '21): elastic gangs by goodput, found by a genetic search every round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from shockwave.model.options import Options
from shockwave.model.view import Bools, Floats, Ints, View
from shockwave.policies.base import Decision, Policy, PolicyOptions
from shockwave.policies.one_option import one_option_each
from shockwave.predict.base import Forecast


@dataclass(frozen=True)
class SearchSettings:
    """Of the genetic search. As published: 100 allocations, 100 generations, rounds of 60 s.

    Published is no end before the last generation; patience saves most of the time.
    """

    population: int = 100
    generations: int = 100
    patience: int = 20  # generations without a better allocation after which the search ends
    reset: float = 0.1  # probability that a job of an allocation goes back to what it holds
    drop: float = 0.01  # that it is left without GPUs
    power: float = -1.0  # of the mean of speedups: the more negative, the fairer
    least: float = 1e-3  # what is added to speedups, so that none is zero


class Pollux(Policy):
    """Maximises the power mean (p = -1) of the jobs' speedups.

    A speedup is the goodput of an option over that of an equal share, ``ceil(GPUs / jobs)``.
    A job whose option changes counts with ``(age - restarts * delay) / (age + delay)`` of it, the
    delay being that of the cluster. As published:

    * a job starts on one GPU and may at most double the largest number that it was measured on;
      what was not measured is taken to scale perfectly from the next smaller number;
    * jobs neither declare speeds nor lengths, and learn nothing from one another;
    * Pollux knows no types: a GPU is a GPU, and a measurement on one type is believed of all;
    * two jobs that span nodes never share one (their exchange of gradients would interfere): here
      every option beyond a node is of whole nodes;
    * the population of one round is where the next one begins.

    The search: single-point crossover over the jobs of two parents from binary tournaments, random
    changes, a repair that cuts gangs to what is left (jobs with the least service come first), and
    the best of parents and children survive. Published is any number of GPUs on any node; here, the
    options of the job. GPUs that the best allocation leaves idle go to waiting jobs.
    """

    name = "pollux"

    def __init__(self, rng: np.random.Generator, search: SearchSettings | None = None) -> None:
        self._rng = rng
        self._search = search or SearchSettings()
        self._handle: Ints = np.empty(0, dtype=np.int64)
        self._population: Ints = np.empty((0, 0), dtype=np.int64)  # [allocation, job]

    @classmethod
    def configured(cls, options: PolicyOptions) -> Self:
        return cls(np.random.default_rng(options.seed))

    def decide(self, view: View, forecast: Forecast) -> Decision:
        options = one_option_each(view) if view.options is None else view.options
        served = np.lexsort((view.arrival, view.received_seconds, ~view.must_stay))
        goodput = np.stack([believed_goodput(options, job) for job in served.tolist()])
        value = self._values(view, options, goodput, served)
        room = Room(options.type, options.gpus, options.type_gpus, np.isfinite(value))
        best = self.search(view.handle[served], value, room, options.held[served])
        for job in np.flatnonzero(best < 0).tolist():  # nothing is left idle
            usable = np.flatnonzero(np.isfinite(value[job]))
            best[job] = room.smallest(best, usable)
        run = served[best >= 0]
        chosen = None if view.options is None else best[best >= 0]
        return Decision(run, options=chosen)

    def _values(self, view: View, options: Options, goodput: Floats, served: Ints) -> Floats:
        """[job, option] what it adds to the fitness, at most 0; -inf where the job may not go."""
        fair = np.ceil(options.type_gpus.sum() / len(view))
        base = np.array([_at_most(options.gpus, row, fair) for row in goodput])
        speedup = goodput / base[:, None]
        held, delay = options.held[served], view.restart_seconds
        age, restarts = view.elapsed[served], np.maximum(view.restarts[served], 0)
        factor = np.maximum(age - restarts * delay, 0.0) / np.maximum(age + delay, 1e-9)
        factor = np.where(options.last[served] >= 0, factor, 1.0)  # a first start is no change
        changed = np.arange(len(options)) != held[:, None]
        speedup = speedup * np.where(changed, factor[:, None], 1.0)
        s = self._search
        value = s.least**s.power - (np.maximum(speedup, 0.0) + s.least) ** s.power
        value[np.isnan(goodput)] = -np.inf
        stays = view.must_stay[served]
        value[stays] = -np.inf
        value[stays, held[stays]] = 2 * s.least**s.power
        return np.asarray(value)

    def search(self, handle: Ints, value: Floats, room: Room, held: Ints) -> Ints:
        """[job] the best allocation found: its option, -1 for none."""
        s, rng = self._search, self._rng
        carried = self._carried_over(handle, np.isfinite(value))
        population = np.vstack([held, carried])[: s.population]
        fill = rng.integers(0, len(population), s.population - len(population))
        population = np.vstack([population, self._changed(population[fill], value, held)])
        population = room.cut(population)
        fitness = _fitness(population, value)
        order = np.argsort(-fitness, kind="stable")
        population, fitness = population[order], fitness[order]
        unsurpassed = float(value.max(axis=1, initial=0.0).sum())  # everybody has what is best
        stale = 0
        for _ in range(s.generations):
            if stale == s.patience or fitness[0] >= unsurpassed * (1 - 1e-12):
                break
            best = fitness[0]
            children = self._changed(self._crossed(population, fitness), value, held)
            children = room.cut(children)
            everybody = np.vstack([population, children])
            both = np.concatenate([fitness, _fitness(children, value)])
            survivors = np.argsort(-both, kind="stable")[: s.population]
            population, fitness = everybody[survivors], both[survivors]
            stale = 0 if fitness[0] > best else stale + 1
        self._handle, self._population = handle, population
        return np.asarray(population[0])

    def _carried_over(self, handle: Ints, usable: Bools) -> Ints:
        """The population of the last round; newcomers hold nothing in it."""
        found = np.full((len(self._population), len(handle)), -1, dtype=np.int64)
        order = np.argsort(self._handle)
        place = np.searchsorted(self._handle, handle, sorter=order)
        known = np.isin(handle, self._handle, assume_unique=True)
        found[:, known] = self._population[:, order[place[known]]]
        # Without a choice of its own a job's only option may have another number by now.
        return np.where((found >= 0) & (usable.sum(axis=1) == 1), usable.argmax(axis=1), found)

    def _crossed(self, population: Ints, fitness: Floats) -> Ints:
        """Children of parents that each won against a random other."""
        count, jobs = population.shape
        pairs = self._rng.integers(0, count, (2, 2, count // 2))
        first, second = np.where(fitness[pairs[0]] >= fitness[pairs[1]], pairs[0], pairs[1])
        point = self._rng.integers(0, jobs, (count // 2, 1))
        before = np.arange(jobs) < point
        one = np.where(before, population[first], population[second])
        other = np.where(before, population[second], population[first])
        return np.vstack([one, other])

    def _changed(self, allocations: Ints, value: Floats, held: Ints) -> Ints:
        """Some jobs go back to what they hold, some lose it, and about two draw another option."""
        s, rng, shape = self._search, self._rng, allocations.shape
        changed = np.where(rng.random(shape) < s.reset, held, allocations)
        changed = np.where(rng.random(shape) < s.drop, -1, changed)
        usable = np.isfinite(value)
        numbers = np.argsort(~usable, axis=1, kind="stable")  # [job] its options come first
        drawn = (rng.random(shape) * usable.sum(axis=1)).astype(np.int64)
        drawn = numbers[np.arange(shape[1]), np.minimum(drawn, numbers.shape[1] - 1)]
        moves = rng.random(shape) < 2.0 / shape[1]
        return np.where(moves & usable.any(axis=1), drawn, changed)


class Room:
    """Which gangs fit, the first jobs of an allocation first."""

    def __init__(self, kind: Ints, gpus: Ints, capacity: Ints, usable: Bools) -> None:
        self._kind, self._gpus, self._capacity = kind, gpus, capacity
        most = int(gpus.max(initial=0))
        # [job, type, GPUs left] the largest option of the type within that, -1 for none.
        self._within = np.full((len(usable), len(capacity), most + 1), -1, dtype=np.int64)
        for option in np.argsort(gpus, kind="stable").tolist():
            rows = np.flatnonzero(usable[:, option])
            self._within[rows, kind[option], gpus[option] :] = option

    def cut(self, allocations: Ints) -> Ints:
        """[allocation, job] the same, with gangs cut to what those before them leave."""
        asks = allocations >= 0
        kind = np.where(asks, self._kind[allocations], 0)
        gpus = np.where(asks, self._gpus[allocations], 0)
        cut = np.full(allocations.shape, -1, dtype=np.int64)
        for number, capacity in enumerate(self._capacity.tolist()):
            wants = np.where(asks & (kind == number), gpus, 0)
            before = np.cumsum(wants, axis=1) - wants
            has = np.minimum(wants, np.maximum(capacity - before, 0))
            own = self._within[np.arange(allocations.shape[1]), number, has]
            cut = np.where(wants > 0, own, cut)
        return cut

    def smallest(self, allocation: Ints, usable: Ints) -> int:
        """The smallest of these options that still fits, -1 for none."""
        taken = allocation[allocation >= 0]
        used = np.bincount(self._kind[taken], self._gpus[taken], len(self._capacity))
        fits = usable[self._gpus[usable] <= (self._capacity - used)[self._kind[usable]]]
        return int(fits[np.argmin(self._gpus[fits])]) if len(fits) else -1


def _fitness(allocations: Ints, value: Floats) -> Floats:
    """[allocation] a power mean of the speedups, up to a constant and a rising function."""
    found = value[np.arange(allocations.shape[1]), allocations]
    return np.asarray(np.where(allocations >= 0, found, 0.0).sum(axis=1))


def believed_goodput(options: Options, job: int) -> Floats:
    """[option] epochs per second as far as the job itself knows; nan where it may not go yet."""
    allowed, gpus = options.allowed[job], options.gpus
    known = np.flatnonzero(~np.isnan(options.measured[job]))
    goodput = np.full(len(options), np.nan)
    if len(np.unique(gpus[allowed])) < 2:
        goodput[allowed] = gpus[allowed]
        return goodput
    if not len(known):
        first = allowed & (gpus == gpus[allowed].min())
        goodput[first] = gpus[first]
        return goodput
    counts = np.unique(gpus[known])
    speed = np.array([1.0 / options.measured[job, known[gpus[known] == n]].mean() for n in counts])
    reach = allowed & (gpus <= 2 * counts[-1])
    below = np.maximum(np.searchsorted(counts, gpus[reach], side="right") - 1, 0)
    goodput[reach] = speed[below] * gpus[reach] / counts[below]
    return goodput


def _at_most(gpus: Ints, goodput: Floats, most: float) -> float:
    """The goodput of ``most`` GPUs, in proportion to the largest number up to it that is known."""
    known = np.flatnonzero(~np.isnan(goodput))
    within = known[gpus[known] <= most]
    at = within[np.argmax(gpus[within])] if len(within) else known[np.argmin(gpus[known])]
    return float(goodput[at] * most / gpus[at])

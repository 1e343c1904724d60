"""Finished jobs as examples of what a job of the same kind may do next.

An *example* is the list of regimes of a finished job. To speak about another job it is
laid over that job's future from where its ongoing regime began, by one of two clocks:

* ``relative``: regimes take the same fraction of the job's epochs;
* ``absolute``: regimes take the same number of epochs, however many there are in all.

A short last regime (an epilogue of at most one epoch) stays at the end under both. An
example counts for a job only as far as it agrees with the facts: its regime must be in
the same configuration and last longer than the ongoing one has lasted already, and the
closer it began to where the job's began, the more it counts. So examples whose regime
would have ended by now drop out, as in a Kaplan-Meier estimate of survival.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from shockwave.model.job import Adaptation
from shockwave.model.view import Bools, Floats, Ints, View
from shockwave.predict.base import FinishedJob

_EPILOGUE_EPOCHS = 1.0
_KEPT = 24  # examples of one kind and number of configurations
_ROWS = 24  # examples that a job is compared with, the closest ones
_CLOSENESS = (1.0, 0.5, 0.2)  # same kind and count, same kind, same adaptation
_OTHER_GPUS = 0.5  # times this where the gang has another size
_MAX_REGIMES = 8
_BANDWIDTH = 0.2  # share of a job's epochs within which beginnings count as the same
_REFRESH = 1.05  # look for new examples once a kind has this many times as many


@dataclass(frozen=True)
class Example:
    """A finished job from the beginning of each of its regimes on, one row per regime."""

    kind: int
    gpus: int
    epochs: float
    configurations: int
    began: Floats  # [row] epochs before the regime
    epilogue: Floats  # [row] epochs of the short last regime, 0 without one
    path: Ints  # [row, regime] configuration index
    ends: Floats  # [row, regime] epochs since it began; last before the epilogue: infinity
    tail: Bools  # [row, regime] the epilogue and padding: ends with the job

    @staticmethod
    def of(job: FinishedJob) -> Example | None:
        """The example that a finished job sets; none if it says nothing."""
        regimes = [(index, epochs) for index, epochs in job.regimes if epochs > 0]
        if not regimes:
            return None
        bounds = np.concatenate([[0.0], np.cumsum([epochs for _, epochs in regimes])])
        if len(regimes) > _MAX_REGIMES:  # the tail goes on as its last regime
            bounds = np.append(bounds[:_MAX_REGIMES], bounds[-1])
            regimes = regimes[:_MAX_REGIMES]
        count = len(regimes)
        indices = np.array([index for index, _ in regimes])
        final = bounds[-1] - bounds[-2]
        path = np.full((count, _MAX_REGIMES), indices[-1])
        ends = np.full((count, _MAX_REGIMES), np.inf)
        tail = np.zeros((count, _MAX_REGIMES), dtype=np.bool_)
        epilogue = np.zeros(count)
        for row in range(count):
            length = count - row
            path[row, :length] = indices[row:]
            ends[row, :length] = bounds[row + 1 :] - bounds[row]
            last = length - 1
            if last and final <= _EPILOGUE_EPOCHS:
                epilogue[row] = final
                last -= 1
            ends[row, last] = np.inf
            tail[row, last + 1 :] = True
        return Example(
            kind=job.kind,
            gpus=job.spec.gpus,
            epochs=float(bounds[-1]),
            configurations=max(len(job.spec.configurations), 1),
            began=bounds[:-1],
            epilogue=epilogue,
            path=path,
            ends=ends,
            tail=tail,
        )


@dataclass(frozen=True)
class Situation:
    """What decides which examples a job is compared with."""

    kind: int
    adaptation: int
    configurations: int
    configuration: int
    changed: bool  # whether the job has left its first configuration


@dataclass(frozen=True)
class Examples:
    """Rows of examples for every one of several situations, padded with weight 0."""

    weight: Floats  # [situation, row]
    gpus: Ints
    epochs: Floats
    began: Floats
    epilogue: Floats
    regimes: Ints  # how many there are from this one on
    path: Ints  # [situation, row, regime]
    ends: Floats
    tail: Bools

    @staticmethod
    def empty(situations: int) -> Examples:
        shape, deep = (situations, _ROWS), (situations, _ROWS, _MAX_REGIMES)
        return Examples(
            weight=np.zeros(shape),
            gpus=np.ones(shape, dtype=np.int64),
            epochs=np.ones(shape),
            began=np.zeros(shape),
            epilogue=np.zeros(shape),
            regimes=np.ones(shape, dtype=np.int64),
            path=np.zeros(deep, dtype=np.int64),
            ends=np.full(deep, np.inf),
            tail=np.zeros(deep, dtype=np.bool_),
        )

    @staticmethod
    def joined(parts: Sequence[Examples]) -> Examples:
        """The situations of all parts in order, no wider than their longest example."""
        width = max(int(part.regimes.max()) for part in parts)
        columns = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in Examples.__dataclass_fields__
        }
        for name in ("path", "ends", "tail"):
            columns[name] = columns[name][:, :, :width]
        return Examples(**columns)

    @staticmethod
    def of(rows: Sequence[tuple[Example, int, float, Ints]]) -> Examples:
        """One situation, to which each regime of an example counts with a weight, as a path."""
        made, count = Examples.empty(1), len(rows)
        if not count:
            return made
        made.weight[0, :count] = [weight for _, _, weight, _ in rows]
        made.gpus[0, :count] = [example.gpus for example, _, _, _ in rows]
        made.epochs[0, :count] = [example.epochs for example, _, _, _ in rows]
        made.began[0, :count] = [example.began[regime] for example, regime, _, _ in rows]
        made.epilogue[0, :count] = [example.epilogue[regime] for example, regime, _, _ in rows]
        made.regimes[0, :count] = [len(example.began) - regime for example, regime, _, _ in rows]
        made.path[0, :count] = [path for _, _, _, path in rows]
        made.ends[0, :count] = [example.ends[regime] for example, regime, _, _ in rows]
        made.tail[0, :count] = [example.tail[regime] for example, regime, _, _ in rows]
        return made


@dataclass
class Experience:
    """The most recent examples by kind of job and number of configurations."""

    _by_kind: dict[tuple[int, int], deque[Example]] = field(default_factory=dict)
    _by_adaptation: dict[int, deque[Example]] = field(default_factory=dict)
    _seen: dict[int, int] = field(default_factory=dict)  # [adaptation] finished jobs
    _tables: dict[Situation, tuple[int, Examples]] = field(default_factory=dict)

    def add(self, adaptation: Adaptation, example: Example) -> None:
        key = example.kind, example.configurations
        self._by_kind.setdefault(key, deque(maxlen=_KEPT)).append(example)
        recent = self._by_adaptation.setdefault(adaptation.code, deque(maxlen=2 * _ROWS))
        recent.append(example)
        self._seen[adaptation.code] = self._seen.get(adaptation.code, 0) + 1

    def examples(self, situation: Situation) -> Examples:
        """Rows for jobs in this situation, closest first; kept until there is more to know."""
        seen = self._seen.get(situation.adaptation, 0)
        built, examples = self._tables.get(situation, (-1, None))
        if examples is None or seen > _REFRESH * built:
            examples = self._collect(situation)
            self._tables[situation] = seen, examples
        return examples

    def _collect(self, situation: Situation) -> Examples:
        rows: list[tuple[Example, int, float, Ints]] = []
        top = situation.configurations - 1
        for weight, example in self._closest_first(situation):
            scale = top / max(example.configurations - 1, 1)
            path = example.path if scale == 1.0 else _scaled(example.path, scale, top)
            first = 1 if situation.changed else 0
            last = len(path) if situation.changed else 1
            for regime in range(first, last):
                if path[regime, 0] == situation.configuration:
                    rows.append((example, regime, weight, path[regime]))
                    if len(rows) == _ROWS:
                        return Examples.of(rows)
        return Examples.of(rows)

    def _closest_first(self, situation: Situation) -> list[tuple[float, Example]]:
        kind, count = situation.kind, situation.configurations
        same = list(self._by_kind.get((kind, count), ()))
        related = [
            example
            for (other, configurations), examples in self._by_kind.items()
            if other == kind and configurations not in (count, 1)
            for example in examples
        ]
        distant = [
            example
            for example in self._by_adaptation.get(situation.adaptation, ())
            if example.kind != kind and example.configurations > 1
        ]
        return [
            (weight, example)
            for weight, examples in zip(_CLOSENESS, (same, related, distant), strict=True)
            for example in reversed(examples)
        ]


def _scaled(path: Ints, scale: float, top: int) -> Ints:
    return np.asarray(np.clip(np.rint(path * scale), 0, top).astype(np.int64))


@dataclass(frozen=True)
class Futures:
    """What examples say about jobs: ``epochs[job, example, regime]`` still to come."""

    weight: Floats  # [job, example] how much the example counts, 0 if it contradicts
    epochs: Floats
    path: Ints  # [job, example, regime] configuration index


def futures(
    examples: Examples, situation: Ints, view: View, rows: Ints, *, relative: bool
) -> Futures:
    """Lay the examples over the jobs at ``rows``, whose situations are numbered."""
    total = view.epochs[rows][:, None]
    lasted = view.regime_epochs[rows][:, None]
    start = view.epochs_done[rows][:, None] - lasted
    length = examples.epochs[situation]
    scale = total / length if relative else np.ones_like(length)
    rest = np.maximum(total - start, 0.0)
    cap = np.maximum(rest - examples.epilogue[situation], 0.0)
    ends = np.minimum(examples.ends[situation] * scale[:, :, None], cap[:, :, None])
    ends = np.where(examples.tail[situation], rest[:, :, None], ends)
    began = examples.began[situation]
    distance = (began * scale - start) / (2.0 + _BANDWIDTH * total)
    weight = examples.weight[situation] * (ends[:, :, 0] > lasted) / (1.0 + distance**2)
    weight *= np.where(examples.gpus[situation] == view.gpus[rows][:, None], 1.0, _OTHER_GPUS)
    if not relative:  # an example says nothing about epochs beyond its own
        weight *= np.clip((length - began - lasted) / np.maximum(rest - lasted, 1e-9), 0.0, 1.0)
    # Epochs to come lie beyond those that the ongoing regime has lasted already.
    epochs = np.diff(np.maximum(ends - lasted[:, :, None], 0.0), axis=2, prepend=0.0)
    return Futures(weight=weight, epochs=epochs, path=examples.path[situation])

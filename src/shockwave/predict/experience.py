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
from dataclasses import dataclass, field

import numpy as np

from shockwave.model.job import Adaptation
from shockwave.model.view import Bools, Floats, Ints, View
from shockwave.predict.base import FinishedJob

_EPILOGUE_EPOCHS = 1.0
_SAME, _OTHER_COUNT, _OTHER_KIND = 12, 6, 6  # how many examples of each closeness
_WEIGHTS = (1.0, 0.5, 0.2)
_OTHER_GPUS = 0.5  # times this where the gang has another size
_MAX_REGIMES = 8
_BANDWIDTH = 0.2  # share of a job's epochs within which beginnings count as the same


@dataclass(frozen=True, slots=True)
class Example:
    """A finished job: regimes as configuration indices and the epochs when each ended."""

    kind: int
    gpus: int
    epochs: float
    configurations: int
    path: tuple[int, ...]
    ends: tuple[float, ...]

    @staticmethod
    def of(job: FinishedJob) -> Example | None:
        """The example that a finished job sets; none if it says nothing."""
        regimes = [(index, epochs) for index, epochs in job.regimes if epochs > 0]
        if not regimes:
            return None
        ends = np.cumsum([epochs for _, epochs in regimes])
        if len(regimes) > _MAX_REGIMES:  # the tail goes on as its last regime
            ends = np.append(ends[: _MAX_REGIMES - 1], ends[-1])
            regimes = regimes[:_MAX_REGIMES]
        return Example(
            kind=job.kind,
            gpus=job.spec.gpus,
            epochs=float(ends[-1]),
            configurations=max(len(job.spec.configurations), 1),
            path=tuple(index for index, _ in regimes),
            ends=tuple(float(end) for end in ends),
        )


@dataclass
class Experience:
    """The most recent examples by kind of adaptation, model and number of configurations."""

    _by_kind: dict[tuple[int, int], deque[Example]] = field(default_factory=dict)
    _by_adaptation: dict[int, deque[Example]] = field(default_factory=dict)

    def add(self, adaptation: Adaptation, example: Example) -> None:
        key = example.kind, example.configurations
        self._by_kind.setdefault(key, deque(maxlen=_SAME)).append(example)
        recent = self._by_adaptation.setdefault(adaptation.code, deque(maxlen=4 * _OTHER_KIND))
        recent.append(example)

    def nearest(
        self, kind: int, adaptation: int, configurations: int, *, changed: bool
    ) -> Examples | None:
        """Examples for jobs of this kind, closest first; None where there are none."""
        same = list(self._by_kind.get((kind, configurations), ()))
        related = [
            example
            for (other, count), examples in self._by_kind.items()
            if other == kind and count != configurations and count > 1
            for example in examples
        ][-_OTHER_COUNT:]
        distant = [
            example
            for example in self._by_adaptation.get(adaptation, ())
            if example.kind != kind and example.configurations > 1
        ][-_OTHER_KIND:]
        weights = [
            weight
            for weight, examples in zip(_WEIGHTS, (same, related, distant), strict=True)
            for _ in examples
        ]
        chosen = same + related + distant
        return Examples.stack(chosen, weights, configurations, changed=changed)


@dataclass(frozen=True)
class Futures:
    """What examples say about jobs: ``epochs[job, example, regime]`` still to come."""

    weight: Floats  # [job, example] how much the example counts, 0 if it contradicts
    epochs: Floats
    path: Ints  # [example, regime] configuration index


@dataclass(frozen=True)
class Examples:
    """Regimes of examples as padded columns, one row for each regime that a job may be in.

    A row begins with that regime and goes on to the example's end; configurations are
    mapped onto the asking job's by their relative position in the list.
    """

    weight: Floats  # [row]
    gpus: Ints
    epochs: Floats  # [row] of the example in all
    began: Floats  # [row] epochs before the regime
    epilogue: Floats  # [row] epochs of the short last regime, 0 without one
    path: Ints  # [row, regime]
    ends: Floats  # [row, regime] epochs since it began; last before the epilogue: infinity
    tail: Bools  # [row, regime] the epilogue and padding: ends with the job

    @staticmethod
    def stack(
        examples: list[Example], weights: list[float], configurations: int, *, changed: bool
    ) -> Examples | None:
        """Rows for jobs that have changed configuration before, or for those that have not."""
        entries = [
            (example, weight, regime)
            for example, weight in zip(examples, weights, strict=True)
            for regime in (range(1, len(example.path)) if changed else (0,))
        ]
        if not entries:
            return None
        width = max(len(example.path) - regime for example, _, regime in entries)
        count = len(entries)
        path = np.zeros((count, width), dtype=np.int64)
        ends = np.full((count, width), np.inf)
        tail = np.zeros((count, width), dtype=np.bool_)
        began, epilogue = np.zeros(count), np.zeros(count)
        for row, (example, _, regime) in enumerate(entries):
            length = len(example.path) - regime
            began[row] = example.ends[regime - 1] if regime else 0.0
            scale = (configurations - 1) / max(example.configurations - 1, 1)
            mapped = np.rint(np.array(example.path[regime:]) * scale)
            mapped = np.clip(mapped, 0, configurations - 1)
            path[row, :length], path[row, length:] = mapped, mapped[-1]
            ends[row, :length] = np.array(example.ends[regime:]) - began[row]
            last = length - 1
            if last and example.ends[-1] - example.ends[-2] <= _EPILOGUE_EPOCHS:
                epilogue[row] = example.ends[-1] - example.ends[-2]
                last -= 1
            ends[row, last] = np.inf
            tail[row, last + 1 :] = True
        return Examples(
            weight=np.array([weight for _, weight, _ in entries]),
            gpus=np.array([example.gpus for example, _, _ in entries]),
            epochs=np.array([example.epochs for example, _, _ in entries]),
            began=began,
            epilogue=epilogue,
            path=path,
            ends=ends,
            tail=tail,
        )

    def futures(self, view: View, rows: Ints, *, relative: bool) -> Futures:
        """Lay the examples over the jobs at ``rows`` of the view."""
        total = view.epochs[rows][:, None]
        lasted = view.regime_epochs[rows][:, None]
        start = view.epochs_done[rows][:, None] - lasted
        scale = total / self.epochs if relative else np.ones((len(rows), len(self.epochs)))
        cap = np.maximum(total - start - self.epilogue, 0.0)[:, :, None]
        ends = np.minimum(self.ends * scale[:, :, None], cap)
        ends = np.where(self.tail, (total - start)[:, :, None], ends)
        starts = np.concatenate([np.zeros_like(ends[:, :, :1]), ends[:, :, :-1]], axis=2)
        agrees = (self.path[:, 0] == view.configuration[rows][:, None]) & (ends[:, :, 0] > lasted)
        distance = (self.began * scale - start) / (2.0 + _BANDWIDTH * total)
        weight = self.weight * agrees / (1.0 + distance**2)
        weight = weight * np.where(self.gpus == view.gpus[rows][:, None], 1.0, _OTHER_GPUS)
        if not relative:  # an example says nothing about epochs beyond its own
            left = np.maximum(total - start - lasted, 1e-9)
            weight = weight * np.clip((self.epochs - self.began - lasted) / left, 0.0, 1.0)
        epochs = np.maximum(ends - np.maximum(starts, lasted[:, :, None]), 0.0)
        return Futures(weight=weight, epochs=epochs, path=self.path)

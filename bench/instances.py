"""Random window programs that look like real ones, for tests and benchmarks.

Exclusive runtimes are log-uniform in 0.2 .. 5 h, gangs 1/2/4/8 with probabilities
0.6/0.3/0.09/0.01, and every job runs through up to three regimes, each faster than the one
before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.model.view import Bools, Floats, Ints
from shockwave.plan.window.market import (
    PiecewiseLog,
    fairness_weights,
    productive_seconds,
    progress_fractions,
    window_values,
)
from shockwave.plan.window.program import Program
from shockwave.predict.base import Trajectories

GANGS = ((1, 2, 4, 8), (0.6, 0.3, 0.09, 0.01))


@dataclass(frozen=True)
class Instance:
    """Jobs in the middle of their lives, and the cluster they share."""

    gpus_total: int
    gpus: Ints
    epochs: Floats
    epochs_done: Floats
    running: Bools
    rho_themis: Floats  # projected finish-time fairness
    future: Trajectories  # [sample, job, regime]
    window: int = 20
    round_seconds: float = 120.0
    restart_seconds: float = 20.0

    @property
    def fractions(self) -> Floats:
        """[sample, job, window + 1] progress after so many rounds."""
        seconds = productive_seconds(
            self.window, self.round_seconds, self.restart_seconds, self.running
        )
        return progress_fractions(self.future, self.epochs_done, self.epochs, seconds)

    @property
    def remaining_seconds(self) -> Floats:
        return np.asarray(self.future.remaining_seconds.mean(axis=0))

    def program(
        self,
        *,
        exponent: float = 4.0,
        makespan_weight: float = 1e-4,
        log: PiecewiseLog | None = None,
        fractions: Floats | None = None,
    ) -> Program:
        """The window program of the market, with the work bound as the floor of ``H``."""
        bid = fairness_weights(self.rho_themis, exponent, lowest=1.0)
        remaining = self.remaining_seconds
        fractions = self.fractions if fractions is None else fractions
        return Program.from_values(
            window_values(fractions, bid, log=log),
            self.gpus,
            self.gpus_total,
            remaining_seconds=remaining,
            round_seconds=self.round_seconds,
            makespan_weight=makespan_weight,
            horizon_floor_seconds=max(
                float(self.gpus @ remaining) / self.gpus_total - self.window * self.round_seconds,
                0.0,
            ),
        )


def random_instance(
    jobs: int,
    gpus_total: int,
    rng: np.random.Generator,
    *,
    window: int = 20,
    samples: int = 1,
    gangs: tuple[tuple[int, ...], tuple[float, ...]] = GANGS,
) -> Instance:
    """Jobs drawn at random; as many of them run already as fit the cluster."""
    sizes, chances = gangs
    gpus = np.minimum(rng.choice(sizes, size=jobs, p=chances), gpus_total).astype(np.int64)
    exclusive = 3600.0 * np.exp(rng.uniform(np.log(0.2), np.log(5.0), jobs))
    epochs = rng.integers(10, 200, jobs).astype(np.float64)
    done = np.where(rng.random(jobs) < 0.2, 0.0, rng.random(jobs) * 0.95) * epochs
    regimes = 3
    speedup = np.cumprod(rng.uniform(0.5, 1.0, (jobs, regimes)), axis=1)
    shares = rng.dirichlet(np.ones(regimes), (samples, jobs))
    left = shares * (epochs - done)[None, :, None]
    scale = exclusive / epochs / speedup.mean(axis=1)
    seconds = np.broadcast_to((speedup * scale[:, None])[None], left.shape)
    order = rng.permutation(jobs)
    running = np.zeros(jobs, dtype=np.bool_)
    running[order] = np.cumsum(gpus[order]) <= gpus_total
    return Instance(
        gpus_total=gpus_total,
        gpus=gpus,
        epochs=epochs,
        epochs_done=done,
        running=running,
        rho_themis=np.exp(rng.normal(0.0, 0.25, jobs)),
        future=Trajectories(left, np.ascontiguousarray(seconds)),
        window=window,
    )

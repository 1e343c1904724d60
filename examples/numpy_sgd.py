"""A job without any framework: a small network in NumPy whose batch grows while it trains.

Each epoch is stretched to about ``--epoch-seconds`` at the first batch size (larger batches are
faster, as on a GPU), so that a few of these make a cluster busy without using its processors.

    python examples/numpy_sgd.py --epochs 10 --epoch-seconds 2
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shockwave.train import Session, session
from shockwave.train.adapt import GradientNoiseScale

FEATURES, HIDDEN, CLASSES, SAMPLES = 16, 32, 6, 4096
FIRST_BATCH, LARGEST_BATCH = 32, 256
LEARNING_RATE = 0.2
NAP_SECONDS = 0.05

Floats = NDArray[np.float64]


def make_data(seed: int) -> tuple[Floats, NDArray[np.int64]]:
    rng = np.random.default_rng([seed, 1])
    centres = 0.9 * rng.normal(size=(3 * CLASSES, FEATURES))
    cluster = rng.integers(3 * CLASSES, size=SAMPLES)
    return centres[cluster] + rng.normal(size=(SAMPLES, FEATURES)), cluster % CLASSES


def make_weights(seed: int) -> dict[str, Floats]:
    rng = np.random.default_rng([seed, 2])
    return {
        "first": rng.normal(size=(FEATURES + 1, HIDDEN)) / np.sqrt(FEATURES),
        "second": rng.normal(size=(HIDDEN + 1, CLASSES)) / np.sqrt(HIDDEN),
    }


def with_ones(values: Floats) -> Floats:
    return np.hstack([values, np.ones((len(values), 1))])


def forward(weights: dict[str, Floats], inputs: Floats) -> tuple[Floats, Floats]:
    """The hidden activations and the probabilities of the classes."""
    hidden = np.maximum(with_ones(inputs) @ weights["first"], 0.0)
    scores = with_ones(hidden) @ weights["second"]
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, powers / powers.sum(axis=1, keepdims=True)


def gradient(
    weights: dict[str, Floats], inputs: Floats, labels: NDArray[np.int64]
) -> tuple[float, dict[str, Floats]]:
    """The mean cross-entropy and its gradient."""
    hidden, probabilities = forward(weights, inputs)
    count = len(labels)
    loss = -float(np.log(probabilities[np.arange(count), labels] + 1e-12).mean())
    error = probabilities
    error[np.arange(count), labels] -= 1.0
    error /= count
    back = (error @ weights["second"][:-1].T) * (hidden > 0.0)
    return loss, {"first": with_ones(inputs).T @ back, "second": with_ones(hidden).T @ error}


def nap(job: Session, seconds: float) -> None:
    """Sleeps in small pieces, so that a stop is noticed."""
    end = time.monotonic() + seconds
    while not job.should_stop() and (left := end - time.monotonic()) > 0.0:
        time.sleep(min(left, NAP_SECONDS))


def train(job: Session, epochs: int, seed: int, epoch_seconds: float) -> dict[str, Any]:
    inputs, labels = make_data(seed)
    weights = make_weights(seed)
    noise = GradientNoiseScale(FIRST_BATCH, LARGEST_BATCH, memory_steps=100)
    position, loss = 0, float("nan")
    state = job.load()
    if state is not None:
        weights, position = state["weights"], state["position"]
        noise.load_state_dict(state["noise"])

    def save() -> None:
        job.save({"weights": weights, "position": position, "noise": noise.state_dict()})

    while job.epochs_done < epochs:
        order = np.random.default_rng([seed, 3, job.epochs_done]).permutation(SAMPLES)
        batch = noise.batch_size
        while position < SAMPLES:
            began = time.monotonic()
            chosen = order[position : position + batch]
            halves = [gradient(weights, inputs[h], labels[h]) for h in np.array_split(chosen, 2)]
            loss = float(np.mean([half[0] for half in halves]))
            flat = np.array([np.concatenate([g.ravel() for g in h[1].values()]) for h in halves])
            noise.estimator.observe_micro_batches(flat, batch // 2)
            rate = LEARNING_RATE * noise.learning_rate_scale**0.5
            for name in weights:
                weights[name] -= rate * (halves[0][1][name] + halves[1][1][name]) / 2.0
            position += batch
            # Half of the time is per sample, half per step: a larger batch saves the latter.
            share = len(chosen) / SAMPLES * (0.5 + 0.5 * FIRST_BATCH / batch)
            nap(job, epoch_seconds * share - (time.monotonic() - began))
            if job.should_stop() and position < SAMPLES:
                save()
                return {"stopped": True, "epoch": job.epochs_done}
        position = 0
        job.report(job.epochs_done + 1, batch, SAMPLES, loss)
        job.configure(noise.at_epoch_end())
        save()
        if job.should_stop() and job.epochs_done < epochs:
            return {"stopped": True, "epoch": job.epochs_done}
    _, probabilities = forward(weights, inputs)
    accuracy = float((probabilities.argmax(axis=1) == labels).mean())
    return {"epoch": job.epochs_done, "accuracy": accuracy, "batch_size": noise.batch_size}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--epoch-seconds", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with session(epochs=given.epochs, batch_size=FIRST_BATCH) as job:
        print(json.dumps(train(job, given.epochs, given.seed, given.epoch_seconds)), flush=True)


if __name__ == "__main__":
    main()

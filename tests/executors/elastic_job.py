"""Trains with NumPy on any number of ranks; every launch but the last waits to be given others.

The ranks meet at ``MASTER_ADDR`` and average their gradients there, as those of PyTorch would: its
import alone would take longer than all of this.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from typing import Any

import numpy as np

from shockwave.train import Session, session
from shockwave.train.sampler import ResumableSampler

SAMPLES, FEATURES = 47, 3
BATCH_SIZE = 10  # four ranks have 3, 3, 2 and 2 samples of it
MOST_AT_ONCE = 4
EPOCHS_A_LAUNCH = 2
PATIENCE_SECONDS = 300.0


class Meeting:
    """All ranks connect to the first, which averages what they send."""

    def __init__(self, rank: int, ranks: int) -> None:
        self._peers: list[socket.socket] = []
        self._ranks = ranks
        self._is_first = rank == 0
        address = os.environ.get("MASTER_ADDR", ""), int(os.environ.get("MASTER_PORT", "0"))
        if ranks > 1 and rank == 0:
            with socket.create_server(address) as server:
                server.settimeout(PATIENCE_SECONDS)
                self._peers = [server.accept()[0] for _ in range(ranks - 1)]
        elif ranks > 1:
            self._peers = [_connect(address)]

    def mean(self, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if self._is_first:
            total = values + sum(_receive(peer, values) for peer in self._peers)
            for peer in self._peers:
                peer.sendall(total.tobytes())
        else:
            self._peers[0].sendall(values.tobytes())
            total = _receive(self._peers[0], values)
        return total / self._ranks


def _connect(address: tuple[str, int]) -> socket.socket:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return socket.create_connection(address, PATIENCE_SECONDS)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _receive(peer: socket.socket, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    received = b""
    while len(received) < like.nbytes:
        chunk = peer.recv(like.nbytes - len(received))
        if not chunk:
            raise ConnectionError("a rank is gone")
        received += chunk
    return np.frombuffer(received)


def train(job: Session, epochs: int, launches: int) -> None:
    """``launches`` in all; each but the last goes on for two epochs and a bit, and waits."""
    inputs = np.random.default_rng(1).normal(size=(SAMPLES, FEATURES))
    targets = inputs @ np.arange(1.0, FEATURES + 1.0) + np.random.default_rng(2).normal(
        size=SAMPLES
    )
    meeting = Meeting(job.rank, job.world_size)
    sampler = ResumableSampler(
        SAMPLES,
        BATCH_SIZE,
        rank=job.rank,
        world_size=job.world_size,
        most_at_once=MOST_AT_ONCE,
    )
    state = job.load() or {"weights": np.zeros(FEATURES), "summed": 0.0, "order": None}
    weights, summed = np.array(state["weights"]), float(state["summed"])
    if state["order"] is not None:
        sampler.load_state_dict(state["order"])
    waits_in = EPOCHS_A_LAUNCH * job.generation if job.generation < launches else None
    while sampler.epoch < epochs:
        step = np.zeros(FEATURES + 1)  # the gradient, and the loss
        for batch in sampler:
            x, y = inputs[batch.samples], targets[batch.samples]
            error = x @ weights - y
            step += batch.weight * np.append(2 * x.T @ error, error @ error) / len(y)
            if not batch.completes:
                continue
            averaged, step = meeting.mean(step), np.zeros(FEATURES + 1)
            weights = weights - 0.05 * averaged[:-1]
            summed += float(averaged[-1])
            if sampler.epoch == waits_in and sampler.samples_done == 2 * BATCH_SIZE:
                while not job.should_stop():
                    time.sleep(0.05)
            if job.should_stop():
                job.save({"weights": weights, "summed": summed, "order": sampler.state_dict()})
                return
        job.report(sampler.epoch, BATCH_SIZE, SAMPLES, summed)
        summed = 0.0


def main() -> None:
    epochs, launches = map(int, sys.argv[1:])
    with session(epochs=epochs, batch_size=BATCH_SIZE) as job:
        train(job, epochs, launches)


if __name__ == "__main__":
    main()

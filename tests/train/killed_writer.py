"""Saves without end in a child that is killed at random moments, and looks after each kill.

Run by test_checkpoints.py in a process of its own, because it forks.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

from shockwave.train.checkpoints import CheckpointStore


def save_for_ever(folder: Path, confirmed: int) -> None:
    store = CheckpointStore(folder)
    latest = store.latest()
    number = 0 if latest is None else int(latest.state["number"])
    while True:
        number += 1
        array = np.full(20_000, number)
        store.save({"number": number, "array": array}, epoch=number)
        os.write(confirmed, number.to_bytes(8, "big"))


def kill_and_look(folder: Path, wait_seconds: float) -> tuple[int, int]:
    """The last save that was confirmed before the kill, and the one that is found after it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            save_for_ever(folder, writing)
        finally:
            os._exit(1)
    os.close(writing)
    confirmed = os.read(reading, 8)
    time.sleep(wait_seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the writer failed by itself"
    while more := os.read(reading, 8):
        confirmed = more
    os.close(reading)
    latest = CheckpointStore(folder).latest()
    assert latest is not None
    number = int(latest.state["number"])
    assert np.array_equal(latest.state["array"], np.full(20_000, number))
    assert latest.epoch == number
    return int.from_bytes(confirmed, "big"), number


def main() -> None:
    folder, kills = Path(sys.argv[1]), int(sys.argv[2])
    moments = random.Random(1)
    torn = 0
    for _ in range(kills):
        confirmed, found = kill_and_look(folder, moments.uniform(0.0, 0.02))
        assert confirmed <= found <= confirmed + 1, (confirmed, found)
        torn += any(name.endswith(".tmp") for name in os.listdir(folder))
    print(f"{kills} kills, {torn} in the middle of a write")


if __name__ == "__main__":
    main()

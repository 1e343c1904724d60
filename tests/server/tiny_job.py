"""A job that speaks the protocol with nothing but the standard library, so it starts fast.

``tiny_job.py EPOCHS EPOCH_SECONDS [CRASH_AT_EPOCH]``: saves after every epoch. Of a gang, only
rank 0 speaks and saves. A second process of the same rank of the same job that runs at the same
time leaves the file ``ran-twice`` behind.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path

EPOCHS, EPOCH_SECONDS = int(sys.argv[1]), float(sys.argv[2])
CRASH_AT = int(sys.argv[3]) if len(sys.argv) > 3 else -1
FOLDER = Path(os.environ["SHOCKWAVE_DIR"])
GENERATION = int(os.environ["SHOCKWAVE_GENERATION"])
RANK = int(os.environ["RANK"])
stop = False


def ask_to_stop(*_: object) -> None:
    global stop
    stop = True


def report(event: str, epoch: int, **more: float) -> None:
    if RANK != 0:
        return
    line = {"event": event, "epoch": epoch, "time": time.time(), "configuration": 1, **more}
    with (FOLDER / f"reports-{GENERATION}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def saved() -> int:
    found = [(0, 0)]
    for path in (FOLDER / "checkpoints").iterdir():
        if path.suffix == ".json":
            generation, epoch = path.stem.split("-")[1:3]
            found.append((int(generation[1:]), int(epoch[1:])))
    return max(found)[1]


def save(epoch: int) -> None:
    if RANK != 0:
        return
    path = FOLDER / "checkpoints" / f"ckpt-g{GENERATION}-e{epoch}-{epoch}.json"
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps({"epoch": epoch}))
    os.replace(temporary, path)
    with (FOLDER / "epochs.log").open("a") as file:
        file.write(f"{GENERATION} {epoch}\n")


def main() -> int:
    signal.signal(signal.SIGTERM, ask_to_stop)
    only_one = (FOLDER / f"only-one-{RANK}.lock").open("w")
    try:
        fcntl.flock(only_one, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        (FOLDER / "ran-twice").touch()
        return 9
    (FOLDER / "checkpoints").mkdir(exist_ok=True)
    epoch = saved()
    report("started", epoch)
    print(f"starts at epoch {epoch}", flush=True)
    while epoch < EPOCHS:
        if epoch == CRASH_AT:
            print("something is wrong", flush=True)
            return 3
        begin = time.time()
        time.sleep(EPOCH_SECONDS)
        epoch += 1
        save(epoch)
        report("epoch", epoch, seconds=time.time() - begin)
        if stop and epoch < EPOCHS:
            report("stopped", epoch)
            return 0
    report("done", epoch)
    return 0


if __name__ == "__main__":
    sys.exit(main())

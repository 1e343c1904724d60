"""A training job in small: sleeps for epochs, and speaks the file protocol by itself.

Everything it needs comes from the environment, so one script plays every part:
``TINY_EPOCHS``, ``TINY_SECONDS`` (per epoch), ``TINY_CONFIGURATIONS`` (one per epoch),
``TINY_SAVE_EVERY`` epochs, ``TINY_CRASH`` ("epoch:rank", in the first launch only),
``TINY_STUBBORN`` (ignores SIGTERM and its lease), ``TINY_HURRY`` (a file: while it exists, epochs
take no time).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any


class TinyJob:
    def __init__(self, env: dict[str, str]) -> None:
        self.folder = Path(env["SHOCKWAVE_DIR"])
        self.generation = int(env["SHOCKWAVE_GENERATION"])
        self.rank = int(env["RANK"])
        self.epochs = int(env.get("TINY_EPOCHS", "4"))
        self.seconds = float(env.get("TINY_SECONDS", "0.1"))
        self.configurations = [int(c) for c in env.get("TINY_CONFIGURATIONS", "32").split(",")]
        self.save_every = int(env.get("TINY_SAVE_EVERY", "1"))
        self.stubborn = "TINY_STUBBORN" in env
        self.crash_at = env.get("TINY_CRASH", "")
        self.hurry = env.get("TINY_HURRY", "")
        self.asked = False

    def run(self) -> None:
        signal.signal(signal.SIGTERM, self.on_term)
        done = self.restore()
        self.report("started", done, configuration=self.configuration(done))
        while done < self.epochs:
            if done and self.configuration(done) != self.configuration(done - 1):
                self.report("regime", done, configuration=self.configuration(done))
            begin = time.monotonic()
            while time.monotonic() - begin < self.seconds and not self.hurries():
                time.sleep(0.01)
                if not self.stubborn and (self.asked or self.lease()["stop"]):
                    self.save(done)
                    self.report("stopped", done)
                    return
            done += 1
            if self.generation == 1 and self.crash_at == f"{done}:{self.rank}":
                print(f"rank {self.rank} runs into a wall", flush=True)
                sys.exit(3)
            seconds = time.monotonic() - begin
            self.report("epoch", done, configuration=self.configuration(done - 1), seconds=seconds)
            print("epoch", done, flush=True)
            if done % self.save_every == 0:
                self.save(done)
        self.report("done", done)

    def on_term(self, *_: object) -> None:
        self.asked = True

    def hurries(self) -> bool:
        return bool(self.hurry) and os.path.exists(self.hurry)

    def configuration(self, epoch: int) -> int:
        return self.configurations[min(epoch, len(self.configurations) - 1)]

    def report(self, event: str, epoch: int, **more: object) -> None:
        if self.rank == 0:
            line = json.dumps({"time": time.time(), "event": event, "epoch": epoch, **more})
            with (self.folder / f"reports-{self.generation}.jsonl").open("a") as file:
                file.write(line + "\n")

    def lease(self) -> dict[str, Any]:
        lease: dict[str, Any] = json.loads((self.folder / "lease.json").read_text())
        return lease

    def save(self, epoch: int) -> None:
        if self.rank != 0:
            return
        if self.lease()["generation"] > self.generation:
            sys.exit("fenced")
        folder = self.folder / "checkpoints"
        folder.mkdir(exist_ok=True)
        temporary = folder / ".tmp"
        temporary.write_text(str(epoch))
        temporary.replace(folder / f"ckpt-g{self.generation}-e{epoch}-{epoch}.txt")

    def restore(self) -> int:
        names = (self.folder / "checkpoints").glob("ckpt-*.txt")
        return max((int(path.read_text()) for path in names), default=0)


if __name__ == "__main__":
    TinyJob(dict(os.environ)).run()

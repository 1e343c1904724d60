"""A scheduler in small that somebody will kill: starts jobs and looks after them."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.executors.local import harness


def main(root: Path, workdir: Path, origin: float) -> None:
    commands = {
        "long": harness.tiny(workdir, epochs=8, seconds=0.2, configurations="32,64"),
        "gang": harness.tiny(workdir, epochs=8, seconds=0.2),
        "short": harness.tiny(workdir, epochs=2, seconds=0.1),
    }
    with harness.executor(root, commands, origin=origin) as executor:
        executor.launch(
            [
                harness.order("long", handle=0, slots=(0,), epochs=8),
                harness.order("gang", handle=1, slots=(1, 2), epochs=8),
                harness.order("short", handle=2, slots=(3,), epochs=2),
            ]
        )
        while True:
            executor.poll(time.time() - origin + 0.05)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))

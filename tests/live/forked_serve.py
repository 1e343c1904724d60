"""``shockwave serve``, again and again, from a process that has imported everything once.

A line on standard input forks a process that runs the command with the arguments of this one,
and is to be killed; ``pid`` and ``over`` lines say which it is and that it has ended. Events move
to the archive in small pieces and at every snapshot, so that this is hit as well.
"""

from __future__ import annotations

import functools
import os
import sys

from shockwave.cli.main import app
from shockwave.executors import local  # noqa: F401  (here, not in every fork)
from shockwave.policies import las  # noqa: F401
from shockwave.predict import reactive  # noqa: F401
from shockwave.server import (
    app as web,  # noqa: F401
)
from shockwave.server import (
    listener,  # noqa: F401
    service,
)


def main() -> None:
    service.Archive = functools.partial(service.Archive, segment_events=25)  # type: ignore
    service._ARCHIVE_EVERY_SECONDS = 0.0
    print("ready", flush=True)
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            sys.stdin.close()
            app(["serve", *sys.argv[1:]])
        print(f"pid {pid}", flush=True)
        os.waitpid(pid, 0)
        print(f"over {pid}", flush=True)


if __name__ == "__main__":
    main()

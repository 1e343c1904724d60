"""A scheduler in a process of its own, to be killed: ``serve_process.py STATE_DIR [POLICY]``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.server.services import config

from shockwave.server.service import Service

if __name__ == "__main__":
    service = Service(config(Path(sys.argv[1]), round_seconds=0.5))
    service.start()
    print("ready", flush=True)
    while True:
        time.sleep(60)

"""Files of jobs that ended long ago are removed; the journal keeps the facts."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from shockwave.protocol.paths import JobPaths
from shockwave.server import facts as facts_module
from shockwave.server.store import Store

logger = logging.getLogger(__name__)
_MOST_AT_ONCE = 50  # rounds do not wait for more
_DAY_SECONDS = 86_400.0


def remove_old_files(state_dir: Path, store: Store, now_unix: float, days: float) -> list[str]:
    """Removes folders of jobs that ended ``days`` days ago or earlier; returns whose.

    What cannot be removed stays and is tried again the next time.
    """
    before = now_unix - days * _DAY_SECONDS
    removed: list[str] = []
    for paths in JobPaths.all(state_dir):
        if len(removed) >= _MOST_AT_ONCE:
            break
        job = paths.path.name
        stored = store.job(job)
        if stored is None or stored.facts is None:
            continue
        ended = facts_module.from_json(stored.facts)
        if ended.ended and ended.finished_unix is not None and ended.finished_unix <= before:
            try:
                shutil.rmtree(paths.path)
            except OSError as error:
                logger.warning("%s cannot be removed: %s", paths.path, error)
                continue
            removed.append(job)
    if removed:
        logger.info("removed the files of %d jobs that ended %g days ago", len(removed), days)
    return removed

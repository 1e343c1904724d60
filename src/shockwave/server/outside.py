"""One line in the log for whatever changes a job or a node from outside."""

from __future__ import annotations

import logging

from shockwave.model.events import (
    Event,
    JobFailed,
    JobNoted,
    JobStopped,
    NodeDown,
    NodeUp,
)

logger = logging.getLogger(__name__)


def log_from_outside(event: Event) -> None:
    """What the scheduler has decided itself is in the journal, and leaves no line here."""
    match event:
        case NodeDown():
            how = "is drained" if event.withheld else "is down"
            logger.warning("node %s %s: %s", event.node, how, event.reason or "no reason is known")
        case NodeUp():
            logger.info("node %s is up with %d GPUs", event.node.id, event.node.gpus)
        case JobNoted() if event.note:
            logger.info("job %s: %s", event.job, event.note)
        case JobStopped() if not event.reason.ordered:
            said = event.detail.splitlines()
            why = said[0] if said else "no reason is known"
            logger.warning("job %s stopped, %s: %s", event.job, event.reason.value, why)
        case JobFailed():
            logger.warning("job %s is given up: %s", event.job, event.reason.splitlines()[0])
        case _:
            pass

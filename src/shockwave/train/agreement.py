"""How the ranks of one job agree to stop at the same step.

A rank that stops alone leaves the others waiting in a collective for ever. So nobody acts on a
signal or a lease by itself: what one rank wants becomes what all ranks do, at the same call.

* :class:`CollectiveAgreement`: with ``torch.distributed`` the wishes are combined by an
  all-reduce (MAX). It runs in a process group of its own, on CPU, so that it neither waits for
  a GPU nor mixes with the training's collectives. All ranks see the same result in the same
  call, therefore none ever enters a collective that another one has left. A rank that dies
  breaks the all-reduce, which raises :class:`RankLost`: never a silent wait.
* :class:`FileAgreement`: without it, rank 0 writes "stop at my next call" to a file before it
  goes on, and every rank looks for that file in each call. Ranks that work in lock step cannot
  be a full step ahead of rank 0, so they all read it in time and stop at the same call. Ranks
  that are not coupled stop at their first call at or after that step. Nobody waits for anybody.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from shockwave.model.files import atomic_writer
from shockwave.train.errors import RankLost

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a rank wants, or what all ranks agreed on."""

    stop: bool = False
    checkpoint: bool = False


class CollectiveAgreement:
    """Combines the wishes of all ranks of an initialised ``torch.distributed``.

    Every rank must call :meth:`agree` at the same steps. ``timeout`` bounds how long a rank
    waits for the slowest one, for example while rank 0 evaluates.
    """

    def __init__(self, timeout: timedelta = timedelta(minutes=30)) -> None:
        self._timeout = timeout
        self._group: Any = None

    @staticmethod
    def available() -> bool:
        """Whether this process has connected to others; never imports torch itself."""
        distributed: Any = sys.modules.get("torch.distributed")
        return bool(
            distributed is not None
            and distributed.is_available()
            and distributed.is_initialized()
            and distributed.get_world_size() > 1
        )

    def agree(self, own: Wishes) -> Wishes:
        """What any rank wants. Raises :class:`RankLost` if a rank is gone."""
        import torch
        import torch.distributed as distributed

        flags = torch.tensor([own.stop, own.checkpoint], dtype=torch.int32)
        try:
            if self._group is None:
                self._group = distributed.new_group(backend="gloo", timeout=self._timeout)
            distributed.all_reduce(flags, op=distributed.ReduceOp.MAX, group=self._group)
        except RuntimeError as error:
            raise RankLost(
                f"the ranks could not agree whether to go on, one is gone or stuck: {error}"
            ) from error
        stop, checkpoint = flags.tolist()
        return Wishes(bool(stop), bool(checkpoint))


class FileAgreement:
    """Rank 0 decides and announces the call at which everybody stops.

    A rank other than 0 that wants to stop asks rank 0 by a file; if nothing is announced within
    ``patience_seconds`` (rank 0 may be gone), it stops alone rather than be killed unsaved.
    """

    def __init__(
        self,
        directory: Path,
        *,
        generation: int,
        rank: int,
        patience_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._announcement = directory / f"stop-{generation}.json"
        self._request = directory / f"stop-{generation}.request"
        self._rank = rank
        self._patience_seconds = patience_seconds
        self._clock = clock
        self._calls = 0
        self._stop_at: int | None = None
        self._asked_at: float | None = None

    def agree(self, own: Wishes) -> Wishes:
        """Whether this call is the one to stop at. Checkpoints need no agreement here."""
        self._calls += 1
        if self._stop_at is None:
            if self._rank == 0:
                self._announce(own.stop)
            else:
                self._look(own.stop)
        stop = self._stop_at is not None and self._calls >= self._stop_at
        return Wishes(stop, own.checkpoint)

    def _announce(self, wanted: bool) -> None:
        if wanted or self._request.exists():
            self._stop_at = self._calls + 1
            try:
                with atomic_writer(self._announcement) as file:
                    json.dump({"call": self._stop_at}, file)
            except OSError as error:  # the others lose patience and stop a little later
                logger.warning("the common stop could not be announced: %s", error)

    def _look(self, wanted: bool) -> None:
        with suppress(FileNotFoundError):
            # Opened rather than stat'ed: network file systems cache attributes for seconds.
            with self._announcement.open(encoding="utf-8") as file:
                self._stop_at = int(json.load(file)["call"])
            return
        if not wanted:
            return
        if self._asked_at is None:
            self._asked_at = self._clock()
            with suppress(OSError):
                os.close(os.open(self._request, os.O_CREAT | os.O_WRONLY, 0o644))
        elif self._clock() - self._asked_at >= self._patience_seconds:
            logger.warning("rank 0 announced no common stop, rank %d stops alone", self._rank)
            self._stop_at = self._calls

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

import logging
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from shockwave.protocol.files import read_json, write_json
from shockwave.protocol.paths import JobPaths
from shockwave.train.errors import RankLost

logger = logging.getLogger(__name__)


class CollectiveAgreement:
    """Asks all ranks of an initialised ``torch.distributed``.

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

    def agree(self, *wishes: bool) -> tuple[bool, ...]:
        """Whether any rank has each of these wishes. Raises :class:`RankLost` if one is gone."""
        import torch
        import torch.distributed as distributed

        flags = torch.tensor(wishes, dtype=torch.int32)
        try:
            if self._group is None:
                self._group = distributed.new_group(backend="gloo", timeout=self._timeout)
            distributed.all_reduce(flags, op=distributed.ReduceOp.MAX, group=self._group)
        except RuntimeError as error:
            raise RankLost(
                f"the ranks could not agree whether to go on, one is gone or stuck: {error}"
            ) from error
        return tuple(bool(flag) for flag in flags.tolist())


class FileAgreement:
    """Rank 0 decides and announces the call at which everybody stops.

    A rank other than 0 that wants to stop asks rank 0 by a file; if nothing is announced within
    ``patience_seconds`` (rank 0 may be gone), it stops alone rather than be killed unsaved.
    """

    def __init__(
        self,
        paths: JobPaths,
        *,
        generation: int,
        rank: int,
        patience_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._announcement = paths.stop_file(generation)
        self._request = paths.stop_request(generation)
        self._rank = rank
        self._patience_seconds = patience_seconds
        self._clock = clock
        self._calls = 0
        self._stop_at: int | None = None
        self._asked_at: float | None = None

    def agree(self, own: bool) -> bool:
        """Whether this call is the one to stop at."""
        self._calls += 1
        if self._stop_at is None:
            if self._rank == 0:
                self._announce(own)
            else:
                self._look(own)
        return self._stop_at is not None and self._calls >= self._stop_at

    def _announce(self, wanted: bool) -> None:
        if wanted or self._request.exists():
            self._stop_at = self._calls + 1
            try:
                write_json(self._announcement, {"call": self._stop_at})
            except OSError as error:  # the others lose patience and stop a little later
                logger.warning("the common stop could not be announced: %s", error)

    def _look(self, wanted: bool) -> None:
        # Opened rather than stat'ed: network file systems cache attributes for seconds.
        announced = read_json(self._announcement)
        if announced is not None:
            self._stop_at = int(announced["call"])
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

"""What-if beside a running scheduler: a process for each question, a few at once, with limits."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from shockwave.model.errors import InputError, ShockwaveError
from shockwave.model.event_records import plain
from shockwave.model.job import JobSpec
from shockwave.model.words import count_of
from shockwave.server.settings import ServeConfig
from shockwave.server.whatif_process import PATIENCE, Outcome, Task
from shockwave.server.whatif_records import WhatIfQuestion, WhatIfRecord, check_question

_STARTING_SECONDS = 60.0  # for Python and the journal, on top of what the futures may take
_OTHERS_WORDS = 2000  # characters of what a process that failed said


class TooManyAtOnce(ShockwaveError):  # noqa: N818  (a state of affairs, not a mistake)
    """As many questions as are allowed are being answered."""


class NoAnswer(ShockwaveError):  # noqa: N818
    """The process ran out of time or memory, or could not read the journal."""


class WhatIfs:
    """Answers questions in processes of their own. The scheduler's own state is never touched."""

    def __init__(
        self, state_dir: Path, database: str, *, seconds: float, memory_mb: int, at_once: int
    ) -> None:
        self._state_dir = state_dir
        self._database = database
        self._seconds = seconds
        self._memory_bytes = memory_mb << 20
        self._at_once = at_once
        self._free = threading.BoundedSemaphore(max(at_once, 1))

    @classmethod
    def of(cls, config: ServeConfig) -> WhatIfs:
        return cls(
            config.state_dir,
            config.database,
            seconds=config.what_if_seconds,
            memory_mb=config.what_if_memory_mb,
            at_once=config.what_if_at_once,
        )

    def ask(self, question: WhatIfQuestion, specs: Sequence[JobSpec]) -> WhatIfRecord:
        """Takes as long as it may. ``specs`` are those of the jobs that would be submitted.

        Raises :class:`InputError`, :class:`TooManyAtOnce` or :class:`NoAnswer`.
        """
        check_question(question)  # what is wrong with any state is said at once
        task = Task(
            state_dir=self._state_dir,
            database=self._database,
            question=question,
            specs=[plain(spec) for spec in specs],
            seconds=self._seconds,
            memory_bytes=self._memory_bytes,
        )
        with self._place():
            found = self._run(task)
        if found.record is not None:
            return found.record
        raise InputError(found.problem) if found.is_input else NoAnswer(found.problem)

    @contextmanager
    def _place(self) -> Iterator[None]:
        if self._at_once < 1 or not self._free.acquire(blocking=False):
            raise TooManyAtOnce(
                f"{count_of(self._at_once, 'what-if')} at a time, and there are as many. "
                "Ask again in a minute"
            )
        try:
            yield
        finally:
            self._free.release()

    def _run(self, task: Task) -> Outcome:
        command = [sys.executable, "-m", "shockwave.server.whatif_process"]
        limit = PATIENCE * (task.seconds + _STARTING_SECONDS)
        try:
            done = subprocess.run(
                command, input=task.model_dump_json().encode(), capture_output=True, timeout=limit
            )
        except subprocess.TimeoutExpired:
            raise NoAnswer(f"there was no answer within {limit:g} s") from None
        try:
            return Outcome.model_validate_json(done.stdout)
        except ValidationError:
            words = done.stderr.decode("utf-8", "replace").strip()[-_OTHERS_WORDS:]
            last = words.splitlines()[-1] if words else f"exit code {done.returncode}"
            raise NoAnswer(f"the process that was to answer ended: {last}") from None

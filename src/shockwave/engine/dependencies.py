"""Which jobs wait for others to end, and which wait in vain.

A job that has ended leaves the scheduler's memory; remembered is only who did not finish. A
dependency that is neither active nor remembered has finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from shockwave.model.job import JobSpec

_REMEMBERED = 10_000  # jobs that did not finish


class Dependencies:
    """The fold of submissions and ends, by the handle of the job that waits."""

    def __init__(self) -> None:
        self._unmet: dict[int, set[str]] = {}
        self._broken: dict[int, str] = {}  # and the job that it needed
        self._needs_success: dict[int, frozenset[str]] = {}
        self._dependents: dict[str, list[int]] = {}
        self._unsuccessful: dict[str, None] = {}  # oldest first

    @property
    def barred(self) -> list[int]:
        """The jobs that may not start yet, or never."""
        return [*self._unmet, *(handle for handle in self._broken if handle not in self._unmet)]

    @property
    def broken(self) -> list[tuple[int, str]]:
        """The jobs that can never start, each with the job that it needed, in order."""
        return sorted(self._broken.items())

    def submitted(self, handle: int, spec: JobSpec, is_active: Callable[[str], bool]) -> None:
        if not (spec.after or spec.after_any):
            return
        unmet = {job for job in (*spec.after, *spec.after_any) if is_active(job)}
        failed = [job for job in spec.after if job in self._unsuccessful]
        if failed:
            self._broken[handle] = failed[0]
        if unmet:
            self._wait(handle, unmet, frozenset(spec.after))

    def ended(self, handle: int, job: str, *, finished: bool) -> None:
        self._unmet.pop(handle, None)
        self._broken.pop(handle, None)
        self._needs_success.pop(handle, None)
        if not finished:
            self._unsuccessful[job] = None
            while len(self._unsuccessful) > _REMEMBERED:
                del self._unsuccessful[next(iter(self._unsuccessful))]
        for dependent in self._dependents.pop(job, ()):
            if dependent not in self._unmet:
                continue  # it has ended itself
            if not finished and job in self._needs_success[dependent]:
                self._broken.setdefault(dependent, job)
            self._unmet[dependent].discard(job)
            if not self._unmet[dependent]:
                del self._unmet[dependent], self._needs_success[dependent]

    def _wait(self, handle: int, unmet: Iterable[str], needs_success: frozenset[str]) -> None:
        self._unmet[handle] = set(unmet)
        self._needs_success[handle] = needs_success
        for job in sorted(self._unmet[handle]):
            self._dependents.setdefault(job, []).append(handle)

    # To a snapshot and back.

    def dump(self) -> dict[str, Any]:
        return {
            "unmet": [
                [handle, sorted(jobs), sorted(self._needs_success[handle])]
                for handle, jobs in sorted(self._unmet.items())
            ],
            "broken": self.broken,
            "unsuccessful": list(self._unsuccessful),
        }

    @classmethod
    def load(cls, record: dict[str, Any]) -> Dependencies:
        made = cls()
        for handle, unmet, needs_success in record["unmet"]:
            made._wait(handle, unmet, frozenset(needs_success))
        made._broken = dict(record["broken"])
        made._unsuccessful = dict.fromkeys(record["unsuccessful"])
        return made

"""The errors that Shockwave raises, all of them.

::

    ShockwaveError
    ├── InputError          what a person or a file gave us is wrong (exit code 2)
    │   └── TraceError      ... in a line and a field of a trace
    ├── PolicyError         a policy broke its contract
    ├── ExecutorError       an executor could not do what it was asked
    ├── JournalError        a journal cannot be read back
    └── StuckError          jobs wait that nothing can ever start
"""

from __future__ import annotations


class ShockwaveError(Exception):
    """Base of every error that Shockwave raises on purpose."""


class InputError(ShockwaveError):
    """Input is wrong. Says where, what the value was, and what to do next."""

    def __init__(
        self,
        problem: str,
        *,
        source: str | None = None,
        place: str | None = None,
        value: object = None,
        hint: str | None = None,
    ) -> None:
        self.problem = problem
        self.source = source
        self.place = place
        self.value = value
        self.hint = hint
        super().__init__(self._message())

    def _message(self) -> str:
        where = ", ".join(part for part in (self.source, self.place) if part)
        message = f"{where}: {self.problem}" if where else self.problem
        if self.value is not None:
            shown = repr(self.value)
            message += f" (got {shown if len(shown) <= 80 else shown[:77] + '...'})"
        if self.hint:
            message += f". {self.hint}"
        return message


class TraceError(InputError):
    """A trace has a bad line. ``place`` names the line and the field."""


class PolicyError(ShockwaveError):
    """A policy returned a decision that cannot be carried out."""


class ExecutorError(ShockwaveError):
    """An executor failed to carry out an order."""


class JournalError(ShockwaveError):
    """A journal is damaged or was written by something else."""


class StuckError(ShockwaveError):
    """Jobs are waiting, nothing is running, and no event is left that could change it."""

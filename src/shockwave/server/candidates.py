"""What to say where a word names no job, or more than one."""

from __future__ import annotations

from collections.abc import Sequence

from shockwave.model.errors import InputError
from shockwave.server.records import JobRecord

_SHOWN = 10


def no_such_job(word: str, candidates: Sequence[JobRecord], now_unix: float) -> InputError:
    """``candidates`` are the jobs of that name: none, or several."""
    if not candidates:
        return InputError("no such job", place="job", value=word)
    listed = "; ".join(_candidate(record, now_unix) for record in candidates[:_SHOWN])
    return InputError(
        f"several jobs have this name: {listed}", place="job", value=word, hint="Use an id"
    )


def _candidate(record: JobRecord, now_unix: float) -> str:
    owner = f", {record.owner}" if record.owner else ""
    return f"{record.id} ({record.state}{owner}, {_age(now_unix - record.submitted)} old)"


def _age(seconds: float) -> str:
    """In the largest unit that fits.

    >>> _age(42), _age(300), _age(7200), _age(400_000)
    ('42 s', '5 min', '2 h', '4 d')
    """
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(int(seconds), 0)} s"

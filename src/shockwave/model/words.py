"""How figures are said."""

from __future__ import annotations


def count_of(number: int, thing: str, things: str | None = None) -> str:
    """A number of things; ``things`` where they are not called by an s more.

    >>> count_of(1, "GPU"), count_of(1200, "job"), count_of(0, "crash", "crashes")
    ('1 GPU', '1,200 jobs', '0 crashes')
    """
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"

"""How figures are said."""

from __future__ import annotations


def count_of(number: int, thing: str) -> str:
    """A number of things.

    >>> count_of(1, "GPU"), count_of(1200, "job")
    ('1 GPU', '1,200 jobs')
    """
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"

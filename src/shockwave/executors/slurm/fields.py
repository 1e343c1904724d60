"""The fields of ``scontrol``'s one-line records."""

from __future__ import annotations

import re


def value_of(line: str, key: str) -> str:
    """The first value by that name, empty if there is none.

    The first, because whatever people wrote about a node comes last.

    >>> value_of("NodeName=n0 CPUAlloc=2 Reason=CPUAlloc=9", "CPUAlloc")
    '2'
    """
    match = re.search(rf"(?:^|\s){key}=(\S*)", line)
    return "" if match is None or match.group(1) in ("(null)", "N/A") else match.group(1)

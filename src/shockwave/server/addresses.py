"""Where people can be told about their jobs, and on which occasions."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

MAILTO = "mailto:"


class Occasion(StrEnum):
    STARTED = "started"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    LATE = "late"  # it will miss the finish that was expected when it started


# What matters to somebody who does not say otherwise.
USUAL = (Occasion.FINISHED, Occasion.FAILED, Occasion.LATE)
OccasionName = Literal["started", "finished", "failed", "cancelled", "preempted", "late"]


def _target(text: str) -> str:
    if text.startswith(MAILTO):
        if re.fullmatch(r"[^@\s,;:<>\"()]+@[A-Za-z0-9.-]+", text.removeprefix(MAILTO)):
            return text
        raise ValueError("expected one address, such as mailto:ann@example.org")
    parts = urlsplit(text)
    if parts.scheme in ("http", "https") and parts.hostname and text.isascii():
        return text
    raise ValueError("expected https://... or mailto:ann@example.org")


Target = Annotated[
    str,
    Field(min_length=1, max_length=1024, pattern=r"^(https?://|mailto:)\S+$"),
    AfterValidator(_target),
]

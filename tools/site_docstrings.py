"""Docstrings as Markdown: roles become code, and examples become blocks of code."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|mod|data|attr):`~?([^`]+)`")


def as_markdown(text: str) -> str:
    """The text with ``:class:`` and the like as code, and doctests fenced."""
    lines: list[str] = []
    inside = False
    for line in _ROLE.sub(r"`\1`", text).splitlines():
        if not inside and line.lstrip().startswith(">>> "):
            lines.append("```python")
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        if line.rstrip().endswith("::") and not inside:
            line = line.rstrip()[:-1].removesuffix(":")  # what follows is indented
        lines.append(line)
    if inside:
        lines.append("```")
    return "\n".join(lines)


class Docstrings(griffe.Extension):
    """Rewrites every docstring when it is collected."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)

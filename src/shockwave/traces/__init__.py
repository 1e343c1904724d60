"""Where jobs come from: trace formats, one a file, and a seeded generator.

:func:`load` takes a path or a recipe; :func:`describe` says what is in a trace. Another
format is a subclass of :class:`TraceFormat` behind an entry point of ``shockwave.traces``.
"""

from shockwave.traces.base import TraceFormat
from shockwave.traces.bounds import makespan_lower_bound
from shockwave.traces.formats import FormatEntry, available, load
from shockwave.traces.generator import generate
from shockwave.traces.inspect import TraceDescription, describe
from shockwave.traces.mix import Mix
from shockwave.traces.native import read, write
from shockwave.traces.recipe import parse_recipe

__all__ = [
    "FormatEntry",
    "Mix",
    "TraceDescription",
    "TraceFormat",
    "available",
    "describe",
    "generate",
    "load",
    "makespan_lower_bound",
    "parse_recipe",
    "read",
    "write",
]

"""A page of HTML that is complete in itself, in the style of the report, without a script."""

from __future__ import annotations

from importlib import resources

from shockwave.measure.charts import stylesheet
from shockwave.measure.charts.svg import escape


def page(title: str, facts: list[tuple[str, str]], sections: list[str]) -> str:
    """``facts`` are (value, what it is) at the top; ``sections`` come from :func:`section`."""
    style = resources.files("shockwave.measure").joinpath("report.css").read_text("utf-8")
    items = "".join(f"<li><b>{escape(value)}</b>{escape(name)}</li>" for value, name in facts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{stylesheet()}\n{style}</style></head>\n"
        f'<body>\n<header><h1>{escape(title)}</h1><ul class="facts">{items}</ul></header><main>'
        f"{''.join(sections)}</main>\n</body></html>\n"
    )


def section(heading: str, caption: str, content: str) -> str:
    return (
        f'<section><h2>{escape(heading)}</h2><p class="caption">{escape(caption)}</p>'
        f"{content}</section>"
    )

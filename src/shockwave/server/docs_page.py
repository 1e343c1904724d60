"""The documentation of the API as one page that needs neither scripts nor a network."""

from __future__ import annotations

from html import escape
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

router = APIRouter()

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#1a1a1a;background:#fff}"
    "h2{margin:2.5rem 0 .3rem;font-size:1.1rem}code,pre{font-family:ui-monospace,monospace;"
    "font-size:.9em}pre{overflow-x:auto;background:#f4f4f4;padding:.8rem}"
    "table{border-collapse:collapse}td,th{text-align:left;vertical-align:top;"
    "padding:.15rem .9rem .15rem 0;font-weight:normal}th{color:#666}"
    ".verb{display:inline-block;min-width:4.5rem;font-weight:600}"
    "@media(prefers-color-scheme:dark){body{background:#161616;color:#e8e8e8}"
    "pre{background:#222}th{color:#999}a{color:#8ab4f8}}"
)


@router.get("/docs", include_in_schema=False)
def docs(request: Request) -> HTMLResponse:
    """What can be asked of the scheduler, made from its OpenAPI document. Needs no token."""
    return HTMLResponse(docs_page(request.app.openapi(), str(request.app.openapi_url)))


def docs_page(document: dict[str, Any], address: str) -> str:
    info = document["info"]
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width,initial-scale=1'>"
        f"<title>{escape(info['title'])} API</title><style>{_STYLE}</style>",
        f"<h1>{escape(info['title'])} API, version {escape(info['version'])}</h1>",
        *(f"<p>{escape(text)}</p>" for text in info["description"].split("\n\n")),
        f"<p>For programs: <a href='{escape(address)}'>{escape(address)}</a> (OpenAPI).</p>",
    ]
    for path, verbs in document["paths"].items():
        parts += [_operation(path, verb, said) for verb, said in verbs.items()]
    parts.append("<h1>Records</h1>")
    for name, schema in sorted(document["components"]["schemas"].items()):
        parts.append(_record(name, schema))
    return "\n".join(parts)


def _operation(path: str, verb: str, said: dict[str, Any]) -> str:
    rows = [
        (f"{item['name']} ({item['in']})", _kind(item["schema"]), item.get("description", ""))
        for item in said.get("parameters", ())
    ]
    bodies = said.get("requestBody", {}).get("content", {}).values()
    rows += [("body", _kind(content.get("schema", {})), "") for content in bodies]
    for status, answer in said["responses"].items():
        kinds = [_kind(content.get("schema", {})) for content in answer.get("content", {}).values()]
        rows.append((status, ", ".join(filter(None, kinds)), answer.get("description", "")))
    return (
        f"<h2><span class='verb'>{verb.upper()}</span> <code>{escape(path)}</code></h2>"
        f"<p>{escape(said.get('summary', ''))}. {escape(said.get('description', ''))}</p>"
        f"{_table(rows)}"
    )


def _record(name: str, schema: dict[str, Any]) -> str:
    rows = [
        (field, _kind(kind), kind.get("description", ""))
        for field, kind in schema.get("properties", {}).items()
    ]
    about = escape(schema.get("description", ""))
    return f"<h2 id='{escape(name)}'><code>{escape(name)}</code></h2><p>{about}</p>{_table(rows)}"


def _table(rows: list[tuple[str, str, str]]) -> str:
    cells = "".join(
        f"<tr><td><code>{escape(first)}</code><th>{kind}<td>{escape(text)}"
        for first, kind, text in rows
    )
    return f"<table>{cells}</table>"


def _kind(schema: dict[str, Any]) -> str:
    """The type of a value as HTML, with links to records."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f"<a href='#{name}'>{name}</a>"
    if "anyOf" in schema:
        return " or ".join(_kind(part) for part in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return " | ".join(escape(str(item)) for item in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return escape(str(schema.get("type", "")))

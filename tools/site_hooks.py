"""What the documentation's pages need beside the files in docs: README and CONTRIBUTING.

They lie at the top of the repository, for readers of it; here they become pages of the site,
and links between them and docs are turned round. Links to files that are no pages, such as
examples, become plain names.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md"}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def page_of(target: str, folder: str) -> str | None:
    """What a link of a file in ``folder`` of the repository is on the site; None if nothing."""
    path = (ROOT / folder / target).resolve().relative_to(ROOT).as_posix()
    if path in PAGES:
        return PAGES[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else None


def with_links_of_pages(markdown: str, folder: str) -> str:
    """The text with links as the site has them."""

    def turned(match: re.Match[str]) -> str:
        image, text, target, anchor = match.groups()
        if not target or "://" in target or target.startswith("mailto:"):
            return match[0]
        page = page_of(target, folder)
        return text if page is None else f"{image}[{text}]({page}{anchor or ''})"

    return _LINK.sub(turned, markdown)


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for source, page in PAGES.items():
        text = with_links_of_pages((ROOT / source).read_text(encoding="utf-8"), ".")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    if page.file.src_path in PAGES.values():
        return markdown
    return with_links_of_pages(markdown, "docs")

"""A Chromium of this machine, for whoever looks at pages: tests, pictures and measurements."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PATH = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
MISSING = "no Chromium on the path"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Runs until the block is left. Playwright must be installed."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=PATH, args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            yield started
        finally:
            started.close()

"""File names for ids that people and programs choose freely."""

from __future__ import annotations

import re

_MOST_CHARACTERS = 120
_PLAIN = re.compile(rb"[A-Za-z0-9_.-]")


def file_name(identifier: str) -> str:
    """A name for one file or folder, different for different ids, that never leaves its folder.

    Letters, digits, ``_``, ``-`` and ``.`` stay, everything else becomes ``%XX``; so does a
    leading dot, which rules out ``..`` and hidden files. What is too long is cut and gets a
    digest.

    >>> file_name("resnet-18"), file_name("../../etc"), file_name("")
    ('resnet-18', '%2E.%2F..%2Fetc', '%')
    """
    raw = identifier.encode("utf-8", errors="surrogatepass")
    name = "".join(
        chr(byte) if _PLAIN.match(bytes([byte])) and (byte != 0x2E or position) else f"%{byte:02X}"
        for position, byte in enumerate(raw)
    )
    if len(name) > _MOST_CHARACTERS:
        import hashlib  # rarely needed, and long to load for a supervisor that is to start

        digest = hashlib.sha256(raw).hexdigest()[:32]
        name = f"{name[: _MOST_CHARACTERS - 40]}~{digest}"
    return name or "%"

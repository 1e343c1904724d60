"""One checkpoint file: the payload, what is known about it, and a checksum over both.

::

    payload bytes | JSON trailer | SHA-256 of both (32) | length of the JSON (8) | magic (8)

The trailer comes last, so that a state of any size is written and hashed in one pass. A file
that was cut short has no magic at its end; a flipped bit anywhere fails the checksum.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

_MAGIC = b"SHKWAVE1"
_TAIL = struct.Struct(">32sQ8s")
_CHUNK_BYTES = 1 << 20


class Damaged(ValueError):  # noqa: N818 - a finding, handled by whoever looks for checkpoints
    """The file is not a whole checkpoint."""


class HashingWriter(io.RawIOBase):
    """Writes through to ``file`` and hashes on the way.

    ``failure`` keeps the operating system's error, because a codec in native code may turn it
    into something unrecognisable.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.failure: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        try:
            self._file.write(view)
        except OSError as error:
            self.failure = error
            raise
        self._digest.update(view)
        return len(view)

    def finish(self, about: Mapping[str, object]) -> None:
        """Writes the trailer. Nothing may be written after it."""
        trailer = json.dumps(about, separators=(",", ":")).encode()
        self.write(trailer)
        self._file.write(_TAIL.pack(self._digest.digest(), len(trailer), _MAGIC))


@dataclass(frozen=True, slots=True)
class Contents:
    """A file that passed its checksum."""

    about: dict[str, Any]
    payload_bytes: int


def verify(path: Path) -> Contents:
    """Reads the whole file once. Raises :class:`Damaged` saying why, or :class:`OSError`."""
    size = path.stat().st_size
    if size < _TAIL.size:
        raise Damaged(f"only {size} bytes")
    with path.open("rb") as file:
        file.seek(size - _TAIL.size)
        expected, trailer_bytes, magic = _TAIL.unpack(file.read(_TAIL.size))
        if magic != _MAGIC or trailer_bytes > size - _TAIL.size:
            raise Damaged("its end is missing")
        file.seek(0)
        digest = hashlib.sha256()
        left = size - _TAIL.size
        while left:
            chunk = file.read(min(_CHUNK_BYTES, left))
            if not chunk:
                raise Damaged("it became shorter while it was read")
            digest.update(chunk)
            left -= len(chunk)
        if digest.digest() != expected:
            raise Damaged("its checksum does not match")
        payload_bytes = size - _TAIL.size - trailer_bytes
        file.seek(payload_bytes)
        return Contents(json.loads(file.read(trailer_bytes)), payload_bytes)


def open_payload(path: Path, contents: Contents) -> BinaryIO:
    """The payload alone as a seekable file, so that no codec sees the trailer."""
    window = _Window(path.open("rb", buffering=0), contents.payload_bytes)
    return cast("BinaryIO", io.BufferedReader(window, _CHUNK_BYTES))


class _Window(io.RawIOBase):
    """The first ``size`` bytes of a file."""

    def __init__(self, file: io.FileIO, size: int) -> None:
        self._file = file
        self._size = size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: self._size}[whence]
        return self._file.seek(start + offset)

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        return self._file.readinto(view[: max(0, self._size - self.tell())])

    def close(self) -> None:
        self._file.close()
        super().close()

"""Trace files as lines: compressed or not, with the errors that damaged files deserve."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from shockwave.model.errors import InputError, TraceError
from shockwave.protocol.files import atomic_writer

COMPRESSED_SUFFIXES = (".gz", ".zst", ".bz2", ".xz")
LONGEST_LINE = 64 * 2**20  # bytes; what is longer is no text


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(number, bytes) of every line, the first without its byte order mark.

    The first bytes of the file tell how it is compressed. Raises :class:`TraceError` where
    the file cannot be read, with the line up to which it could.
    """
    source = str(path)
    number = 0
    try:
        with path.open("rb") as raw, _decompressed(raw, source) as file:
            for number, line in enumerate(_bounded(file), start=1):
                if len(line) > LONGEST_LINE:
                    raise TraceError("is no text: the line is endless", source=source,
                                     place=f"line {number}")  # fmt: skip
                yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
    except FileNotFoundError:
        raise TraceError("no such file", source=source) from None
    except IsADirectoryError:
        raise TraceError("is a folder, expected a trace file", source=source) from None
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise _damaged(source, number, error) from error
    except OSError as error:
        if error.errno is None:  # of bz2, for data that is none
            raise _damaged(source, number, error) from error
        reason = error.strerror or str(error)
        raise TraceError(f"cannot be read: {reason}", source=source) from error
    except Exception as error:
        if type(error).__name__ != "ZstdError":  # of a module that is not always there
            raise
        raise _damaged(source, number, error) from error


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number, text) of every line that is not blank. Raises where a line is not UTF-8."""
    for number, raw in lines(path):
        try:
            text = raw.decode("utf-8").strip(" \t\r\n")
        except UnicodeDecodeError as error:
            raise TraceError(
                f"not UTF-8 text: byte {error.start + 1} of the line cannot be decoded",
                source=str(path),
                place=f"line {number}",
                value=raw[error.start : error.end],
            ) from None
        if text:
            yield number, text


@contextmanager
def line_writer(path: Path) -> Iterator[TextIO]:
    """A text file, compressed if its name ends so, that is written whole or not at all.

    The same text gives the same bytes. Raises :class:`InputError` where it cannot be written.
    """
    compress = _compressor(path)
    try:
        with atomic_writer(path) as file:
            if compress is None:
                yield file
                return
            with (
                compress(file.buffer) as packed,
                io.TextIOWrapper(packed, encoding="utf-8", newline="\n") as text,
            ):
                yield text
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot be written: {reason}", source=str(path)) from error


def _bounded(file: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: file.readline(LONGEST_LINE + 1), b"")


def _decompressed(raw: BinaryIO, source: str) -> BinaryIO:
    magic = raw.read(6)
    raw.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return io.BufferedReader(gzip.GzipFile(fileobj=raw))
    if magic.startswith(b"BZh"):
        return bz2.BZ2File(raw)  # type: ignore[return-value]
    if magic == b"\xfd7zXZ\x00":
        return lzma.LZMAFile(raw)  # type: ignore[return-value]
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        return io.BufferedReader(_zstd(source).open_to_read(raw))
    return raw


def _compressor(path: Path) -> Callable[[BinaryIO], Any] | None:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return lambda raw: gzip.GzipFile("", "wb", fileobj=raw, mtime=0)
    if suffix == ".zst":
        return _zstd(str(path)).open_to_write
    if suffix in (".bz2", ".xz"):
        raise InputError(
            "traces are written as .jsonl, .jsonl.gz or .jsonl.zst", source=str(path), value=suffix
        )
    return None


class _StandardZstd:
    """Zstandard as Python 3.14 brings it."""

    def __init__(self) -> None:
        from compression import zstd

        self._zstd: Any = zstd

    def open_to_read(self, raw: BinaryIO) -> Any:
        return self._zstd.ZstdFile(raw)

    def open_to_write(self, raw: BinaryIO) -> Any:
        return self._zstd.ZstdFile(raw, "wb")


class _InstalledZstd:
    """Zstandard from the package of that name."""

    def __init__(self) -> None:
        import zstandard

        self._zstd: Any = zstandard

    def open_to_read(self, raw: BinaryIO) -> Any:
        return _WholeFrames(self._zstd.ZstdDecompressor().decompressobj(), raw)

    def open_to_write(self, raw: BinaryIO) -> Any:
        return self._zstd.ZstdCompressor().stream_writer(raw, closefd=False)


class _WholeFrames(io.RawIOBase):
    """What a decompressor gives, and an error where the data ends before its frame does.

    The package's own reader takes such an end for the end of the file.
    """

    def __init__(self, decompressor: Any, raw: BinaryIO) -> None:
        self._decompressor = decompressor
        self._raw = raw
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and not self._decompressor.eof:
            packed = self._raw.read(2**17)
            if not packed:
                raise EOFError("the compressed data ends before its end marker")
            self._ready = self._decompressor.decompress(packed)
        given = self._ready[: len(buffer)]
        self._ready = self._ready[len(given) :]
        buffer[: len(given)] = given
        return len(given)


def _zstd(source: str) -> _StandardZstd | _InstalledZstd:
    for backend in (_StandardZstd, _InstalledZstd):
        try:
            return backend()
        except ImportError:
            continue
    raise InputError(
        "Zstandard needs Python 3.14 or the package zstandard",
        source=source,
        hint="pip install 'shockwave-scheduler[zstd]', or use .gz",
    )


def _damaged(source: str, line: int, error: Exception) -> TraceError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return TraceError(
        f"the compressed data is damaged or cut off: {reason}",
        source=source,
        place=f"after line {line}",
        hint="Fetch or copy the file again",
    )

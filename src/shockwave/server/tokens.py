"""Tokens: what they are, how they are stored, and the file of those that belong to users."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import threading
import tomllib
from pathlib import Path

from shockwave.model.errors import InputError
from shockwave.protocol.files import atomic_bytes

TOKEN_BYTES = 32
TOKENS_FILE = "tokens.toml"
_HASH = re.compile("[0-9a-f]{64}")
_HEAD = (
    "# Who a token belongs to: the SHA-256 of the token = the user. Take a line out to revoke it.\n"
)


def new_token() -> str:
    """A fresh token: 32 random bytes as 43 characters that are safe in a URL and a header."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def hash_token(token: str) -> str:
    """What may be stored of a token: its SHA-256 in hexadecimal.

    A token is 32 random bytes, which no dictionary holds and nobody can try through, so the slow
    hashes that passwords need would add nothing.
    """
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def token_matches(token: str, token_hash: str) -> bool:
    """Whether the hash is that of the token, in time that does not tell how nearly it was."""
    return hmac.compare_digest(hash_token(token), token_hash)


class UserTokens:
    """The tokens of users, in ``tokens.toml`` of the state folder: read again when it changes."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / TOKENS_FILE
        self._reading = threading.Lock()
        self._signature: tuple[int, int, int] | None = None
        self._users: dict[str, str] = {}

    def user_of(self, token_hash: str) -> str | None:
        # Looked up by hash: how long that takes says nothing about a token.
        return self._current().get(token_hash)

    def any(self) -> bool:
        return bool(self._current())

    def add(self, token: str, user: str) -> None:
        """Writes it down, for its owner's eyes only. Raises :class:`OSError`."""
        users = {**self._current(), hash_token(token): user}
        lines = "".join(f"{digest} = {_quoted(name)}\n" for digest, name in users.items())
        with atomic_bytes(self.path) as file:
            os.fchmod(file.fileno(), 0o600)
            file.write((_HEAD + lines).encode())

    def _current(self) -> dict[str, str]:
        """Raises :class:`InputError` if somebody has written nonsense there."""
        with self._reading:
            try:
                status = self.path.stat()
            except FileNotFoundError:
                return {}
            signature = (status.st_ino, status.st_mtime_ns, status.st_size)
            if signature != self._signature:
                self._users = _read(self.path)
                self._signature = signature
            return self._users


def _read(path: Path) -> dict[str, str]:
    try:
        users = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"the tokens cannot be read: {error}", source=str(path)) from error
    for digest, user in users.items():
        if not (_HASH.fullmatch(digest) and isinstance(user, str)):
            raise InputError(
                "expected the SHA-256 of a token, and the user that it belongs to",
                source=str(path),
                place=digest,
                value=user,
                hint="Make one with 'shockwave token --user NAME'",
            )
    return users


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

"""Browsers that have signed in: links that work once, and sessions of half a day.

A session is shown by two halves. One is a cookie that no script can read. A browser sends it to
every port of the machine, so it is not enough: the other half, the key, stays in the storage of
pages from this very port, and they send it along as a header, which pages from elsewhere cannot.
Sessions are kept in memory alone, and only as hashes: with the scheduler they end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from shockwave.server.people import Credential
from shockwave.server.tokens import hash_token, new_token, token_matches

CODE_SECONDS = 120.0
SESSION_SECONDS = 12 * 3600.0
KEY_HEADER = "Shockwave-Key"
_MOST = 10_000  # sessions, and codes; the oldest make room


@dataclass(frozen=True, slots=True)
class Session:
    """Both halves, as the browser gets them once."""

    cookie: str
    key: str


@dataclass(frozen=True, slots=True)
class _Kept:
    credential: Credential
    ends: float
    key_hash: str = ""


class Sessions:
    """Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._codes: dict[str, _Kept] = {}  # by hash
        self._sessions: dict[str, _Kept] = {}  # by hash of the cookie

    def new_code(self, credential: Credential) -> str:
        """A code that begins one session, within two minutes."""
        code = new_token()
        self._keep(self._codes, code, _Kept(credential, self._clock() + CODE_SECONDS))
        return code

    def redeem(self, code: str) -> Credential | None:
        """Whose code it is; None for one that is unknown, too old, or was redeemed before."""
        with self._lock:
            kept = self._codes.pop(hash_token(code), None)
        return kept.credential if kept is not None and kept.ends > self._clock() else None

    def begin(self, credential: Credential) -> Session:
        session = Session(new_token(), new_token())
        kept = _Kept(credential, self._clock() + SESSION_SECONDS, hash_token(session.key))
        self._keep(self._sessions, session.cookie, kept)
        return session

    def find(self, cookie: str, key: str) -> Credential | None:
        """Whose session it is, if both halves belong together."""
        with self._lock:
            kept = self._sessions.get(hash_token(cookie))
        if kept is None or kept.ends <= self._clock() or not token_matches(key, kept.key_hash):
            return None
        return kept.credential

    def end(self, cookie: str) -> None:
        with self._lock:
            self._sessions.pop(hash_token(cookie), None)

    def _keep(self, among: dict[str, _Kept], secret: str, kept: _Kept) -> None:
        with self._lock:
            now = self._clock()
            for digest in [digest for digest, old in among.items() if old.ends <= now]:
                del among[digest]
            while len(among) >= _MOST:
                del among[next(iter(among))]
            among[hash_token(secret)] = kept

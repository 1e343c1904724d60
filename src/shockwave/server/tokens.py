"""Tokens and addresses: what is needed to know whom to trust, without a web server."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets

TOKEN_BYTES = 32


def new_token() -> str:
    """A fresh token: 32 random bytes as 43 characters that are safe in a URL and a header."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def hash_token(token: str) -> str:
    """What may be stored of a token: its SHA-256 in hexadecimal."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def token_matches(token: str, token_hash: str) -> bool:
    """Whether the hash is that of the token, in time that does not tell how nearly it was."""
    return hmac.compare_digest(hash_token(token), token_hash)


def is_loopback(host: str) -> bool:
    """Whether a name or an address can only mean this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("[::1]"), is_loopback("localhost")
    (True, True, True)
    >>> is_loopback("0.0.0.0"), is_loopback("localhost.example.org"), is_loopback("")
    (False, False, False)
    """
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if bare.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return False

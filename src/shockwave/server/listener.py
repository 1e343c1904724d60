"""The application on its sockets: the Unix socket, and a TCP port where one is asked for."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from shockwave.model.errors import InputError
from shockwave.server.auth import PEER_UID
from shockwave.server.places import connect, short_name

GRACE_SECONDS = 5
USUAL_PORT = 7410
_BACKLOG = 1024
_CREDENTIALS = struct.Struct("3i")  # process, user, group: see unix(7)


class Listener(uvicorn.Server):
    """Serves an application, and ends its endless responses before it waits for the last one."""

    def __init__(self, app: FastAPI) -> None:
        self._closing = app.state.closing
        self._opening = asyncio.Lock()
        self._url: str | None = None  # for browsers
        app.state.address = self.address
        super().__init__(
            uvicorn.Config(
                app,
                http=_WithPeer,
                ws="none",
                log_config=None,  # logging is the caller's
                access_log=False,
                server_header=False,
                lifespan="off",
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(None if sockets is None else [_as_tcp(item) for item in sockets])
        tcp = [item for item in sockets or () if item.family != socket.AF_UNIX]
        self._url = url_of(tcp[0]) if tcp else None

    async def address(self, *, may_open: bool) -> str | None:
        """Where browsers on this machine reach us, None if nowhere.

        Where no port is open and one may be, opens one that no other machine can reach.
        """
        async with self._opening:
            if self._url is None and may_open:
                self._url = await self._open_port()
            return self._url

    async def _open_port(self) -> str:
        try:
            listening = tcp_socket("127.0.0.1", USUAL_PORT)
        except InputError:  # somebody has it
            listening = tcp_socket("127.0.0.1", 0)

        def protocol() -> _WithPeer:
            return _WithPeer(self.config, self.server_state, self.lifespan.state)

        loop = asyncio.get_running_loop()
        with listening:  # the server has a copy
            server = await loop.create_server(protocol, sock=_as_tcp(listening))
            self.servers.append(server)
            return url_of(listening)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._closing.set()
        await super().shutdown(sockets)


class _WithPeer(H11Protocol):
    """Tells the application which user is at the other end of a Unix socket."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family == socket.AF_UNIX:
            raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            self.app_state = {**self.app_state, PEER_UID: _CREDENTIALS.unpack(raw)[1]}
        super().connection_made(transport)


@contextmanager
def unix_socket(path: Path, *, open_to_all: bool) -> Iterator[socket.socket]:
    """Listens there, until the block ends. Raises :class:`InputError` if that cannot be.

    Where it is ``open_to_all``, all users may connect: who they are decides what they may do.
    """
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(mode=0o755 if open_to_all else 0o700, parents=True)
        _take_the_place_of_a_dead_one(path)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with short_name(path) as name:
                listening.bind(name)
            os.chmod(path, 0o666 if open_to_all else 0o600)  # nobody is listened to before
            listening.listen(_BACKLOG)
        except BaseException:
            listening.close()
            raise
    except OSError as error:
        raise InputError(
            f"cannot listen there: {error.strerror or error}",
            source=str(path),
            hint="Choose another --socket",
        ) from error
    mine = path.stat().st_ino
    try:
        with listening:
            yield listening
    finally:
        with suppress(OSError):
            if path.stat().st_ino == mine:
                path.unlink()


def _take_the_place_of_a_dead_one(path: Path) -> None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise InputError(
            "is there, and no socket", source=str(path), hint="Choose another --socket"
        )
    try:
        connect(path, timeout=1.0).close()
    except OSError as error:
        if error.errno != errno.ECONNREFUSED:
            raise
        path.unlink()  # nobody listens any more
        return
    raise InputError(
        "another scheduler listens there",
        source=str(path),
        hint="Stop that one, or choose another --socket",
    )


def tcp_socket(host: str, port: int) -> socket.socket:
    """Listens there. Raises :class:`InputError` if that cannot be."""
    try:
        family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(_BACKLOG)
        except BaseException:
            listening.close()
            raise
    except OSError as error:
        raise InputError(
            f"cannot listen there: {error.strerror or error}",
            place=f"{host}:{port}",
            hint="Choose another --port, or end the program that has it",
        ) from error
    return listening


def url_of(listening: socket.socket) -> str:
    """How a browser on this machine calls what listens there."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _as_tcp(listening: socket.socket) -> socket.socket:
    """The same socket with its protocol named.

    An answer is several small writes, and asyncio lets them go at once only where the protocol
    is named, as it is not by default. Elsewhere every answer would wait 40 ms for an
    acknowledgement.
    """
    if listening.family not in (socket.AF_INET, socket.AF_INET6):
        return listening
    descriptor = socket.dup(listening.fileno())
    return socket.socket(listening.family, listening.type, socket.IPPROTO_TCP, descriptor)

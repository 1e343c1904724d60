"""Whoever is told: a real HTTP server and a real, if tiny, mail server, both on loopback."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Received:
    url: str = ""
    answers: list[int] = field(default_factory=list)  # to the next requests; then 200
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    tried: int = 0
    mails: list[EmailMessage] = field(default_factory=list)


@contextmanager
def hook(port: int = 0) -> Iterator[Received]:
    """Takes requests, and answers as it is told."""
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.tried += 1
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = received.answers.pop(0) if received.answers else 200
            if status < 300:
                received.requests.append((dict(self.headers), body))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            if status == 302:
                self.send_header("Location", received.url + "/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    received.url = f"http://127.0.0.1:{server.server_port}/hook"
    with _serving(server):
        yield received


@contextmanager
def mailbox() -> Iterator[Received]:
    """Speaks as much SMTP (RFC 5321) as is needed to take a mail."""
    received = Received()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 mailbox")
            while line := self.rfile.readline().strip():
                word = line.split()[0].upper()
                if word == b"DATA":
                    self._say("354 go on")
                    self._take()
                elif word == b"QUIT":
                    self._say("221 bye")
                    return
                self._say("250 OK")

        def _take(self) -> None:
            lines = []
            while (line := self.rfile.readline()) != b".\r\n":
                lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
            mail = message_from_bytes(b"".join(lines), policy=policy.default)
            assert isinstance(mail, EmailMessage)
            received.mails.append(mail)

        def _say(self, text: str) -> None:
            self.wfile.write(text.encode() + b"\r\n")

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    received.url = f"127.0.0.1:{server.server_address[1]}"
    with _serving(server):
        yield received


@contextmanager
def _serving(server: socketserver.TCPServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

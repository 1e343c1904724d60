"""How a notice gets to people: a signed request, or a mail.

A request carries ``Shockwave-Signature: t=UNIX,v1=HEX`` with ``HMAC-SHA256(key, "UNIX.BODY")``, and
``Shockwave-Delivery`` with a number that is the same when it is tried again.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import smtplib
import ssl
from collections.abc import Callable
from email.message import EmailMessage
from email.utils import formatdate
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from shockwave.server.addresses import MAILTO
from shockwave.server.outbox import Delivery
from shockwave.server.settings import ServeConfig
from shockwave.version import __version__

SIGNATURE = "Shockwave-Signature"
DELIVERY = "Shockwave-Delivery"
_TIMEOUT_SECONDS = 10.0


class DeliveryError(Exception):
    """It did not arrive; the text says why."""


def signature(key: bytes, unix_seconds: int, body: bytes) -> str:
    """What a receiver compares with the header, from its own copy of the key.

    >>> signature(b"key", 1, b"{}")[:8]
    't=1,v1=1'
    """
    digest = hmac.digest(key, f"{unix_seconds}.".encode() + body, hashlib.sha256).hex()
    return f"t={unix_seconds},v1={digest}"


class Couriers:
    """Delivers by whatever a target needs."""

    def __init__(self, config: ServeConfig, key: bytes, clock: Callable[[], float]) -> None:
        self._config = config
        self._key = key
        self._clock = clock
        self._opener = build_opener(_NoRedirects())

    def deliver(self, delivery: Delivery) -> None:
        """Raises :class:`DeliveryError`."""
        try:
            if delivery.target.startswith(MAILTO):
                self._mail(delivery)
            else:
                self._post(delivery)
        except HTTPError as error:
            with error:
                raise DeliveryError(f"it answered {error.code}") from error
        except (OSError, HTTPException, ValueError, smtplib.SMTPException) as error:
            raise DeliveryError(str(error) or type(error).__name__) from error

    def _post(self, delivery: Delivery) -> None:
        body = delivery.body.encode()
        request = Request(delivery.target, data=body, method="POST")
        for name, value in (
            ("Content-Type", "application/json"),
            ("User-Agent", f"shockwave/{__version__}"),
            (DELIVERY, str(delivery.id)),
            (SIGNATURE, signature(self._key, int(self._clock()), body)),
        ):
            request.add_header(name, value)
        with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
            response.read(1024)

    def _mail(self, delivery: Delivery) -> None:
        send_mail(self._config, lambda sender: mail_of(delivery, sender))


def send_mail(config: ServeConfig, write: Callable[[str], EmailMessage]) -> None:
    """Hands a mail, written for its sender, to the mail server. Raises :class:`DeliveryError`."""
    if config.smtp is None:
        raise DeliveryError("this scheduler sends no mail: smtp is not set")
    host, _, port = config.smtp.partition(":")
    with smtplib.SMTP(host, int(port or 25), timeout=_TIMEOUT_SECONDS) as server:
        if config.smtp_tls:
            server.starttls(context=ssl.create_default_context())
        if config.smtp_user is not None and config.smtp_password is not None:
            server.login(config.smtp_user, config.smtp_password.get_secret_value())
        server.send_message(write(config.mail_from or f"shockwave@{host}"))


def mail_of(delivery: Delivery, sender: str) -> EmailMessage:
    told: dict[str, Any] = json.loads(delivery.body)
    message = EmailMessage()
    message["From"] = sender
    message["To"] = delivery.target.removeprefix(MAILTO)
    message["Subject"] = f"{told['name']}: {_SAID.get(told['event'], told['event'])}"
    message["Date"] = formatdate(told["time"])
    message["Message-ID"] = f"<shockwave-{delivery.id}-{told['job']}@{sender.rpartition('@')[2]}>"
    lines = [f"Job {told['job']} ({told['name']}): {_SAID.get(told['event'], told['event'])}."]
    if told["detail"]:
        lines += ["", told["detail"]]
    message.set_content("\n".join([*lines, "", f"More: shockwave why {told['job']}", ""]))
    return message


_SAID = {
    "late": "it will finish later than was expected when it started",
    "preempted": "preempted; it goes on when there is room again",
}


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None

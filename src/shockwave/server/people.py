"""Who is who, and who may do what.

A person is a Unix user: the kernel says who is at the other end of the socket, and a token belongs
to a user. Operators may do everything. Everybody else may do what they like with their own jobs,
and sees of others' no more than that they are there.

Where the scheduler runs as root and its executor can start jobs as other users, everybody with an
account may submit and jobs run as their owners. Everywhere else jobs run as the scheduler's own
user, so only that user and those who are named may submit.
"""

from __future__ import annotations

import grp
import hmac
import os
import pwd
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shockwave.executors.live import EXECUTORS
from shockwave.server.door import NotAllowed
from shockwave.server.records import Submission
from shockwave.server.tokens import UserTokens, hash_token

if TYPE_CHECKING:
    from shockwave.server.settings import ServeConfig

_OVERFLOW = Path("/proc/sys/kernel/overflowuid")
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class Person:
    """``name`` is that of the Unix user; empty for whoever has the operator's token."""

    name: str
    uid: int | None = None
    operator: bool = False


@dataclass(frozen=True, slots=True)
class Credential:
    """What said who somebody is: the kernel, which user; or a token, of which this is the hash."""

    uid: int | None = None
    token_hash: str = ""


@dataclass(frozen=True, slots=True)
class Tenant:
    """Whose jobs are this tenant's, and the weight that they may have without an operator."""

    users: tuple[str, ...] = ()
    weight: float = 1.0


class People:
    """The rules. ``allow_users`` and ``operators`` are users, or groups as ``@group``.

    ``as_owner`` says that jobs run as their owners. ``server_uid`` is whom the scheduler runs as.
    """

    def __init__(
        self,
        *,
        token_hash: str | None = None,
        user_tokens: UserTokens | None = None,
        operators: Iterable[str] = (),
        allow_users: Iterable[str] = (),
        private_queue: bool = False,
        tenants: Mapping[str, Tenant] | None = None,
        as_owner: bool = False,
        server_uid: int | None = None,
    ) -> None:
        self.token_hash = token_hash
        self.private_queue = private_queue
        self.as_owner = as_owner
        self._user_tokens = user_tokens
        self._operators = tuple(operators)
        self._allow_users = tuple(allow_users)
        self._tenants = dict(tenants or {})
        self._server_uid = os.geteuid() if server_uid is None else server_uid

    @classmethod
    def of(cls, settings: ServeConfig) -> People:
        return cls(
            token_hash=settings.token_hash,
            user_tokens=UserTokens(settings.state_dir),
            operators=settings.operators,
            allow_users=settings.allow_users,
            private_queue=settings.private_queue,
            tenants={
                name: Tenant(tenant.users, tenant.weight)
                for name, tenant in settings.tenants.items()
            },
            as_owner=jobs_run_as_owners(settings.executor),
        )

    @property
    def has_tokens(self) -> bool:
        """Whether anybody could come in by a token."""
        return self.token_hash is not None or (
            self._user_tokens is not None and self._user_tokens.any()
        )

    # Who is who.

    def of_uid(self, uid: int) -> Person:
        """The user at the other end of the socket. Raises :class:`NotAllowed` for strangers."""
        if uid not in (0, self._server_uid) and uid == _overflow_uid():
            raise NotAllowed("You come from another user namespace, and nobody knows who you are.")
        name = _name_of(uid)
        operator = uid in (0, self._server_uid) or _is_one_of(name, self._operators)
        person = Person(name, uid, operator)
        if not (operator or self._is_allowed(name)):
            raise NotAllowed(
                f"User {name} may not use this scheduler, which runs as {self.server_user}. "
                "Its operator can name you in allow_users."
            )
        return person

    def of_token(self, token: str) -> Person | None:
        """The user that a token belongs to; None for one that nobody has."""
        return self.of_credential(Credential(token_hash=hash_token(token)))

    def of_credential(self, credential: Credential) -> Person | None:
        """Who somebody is now; None for a token that was revoked since."""
        if credential.uid is not None:
            return self.of_uid(credential.uid)
        digest = credential.token_hash
        if self.token_hash is not None and hmac.compare_digest(digest, self.token_hash):
            return Person("", None, operator=True)
        name = None if self._user_tokens is None else self._user_tokens.user_of(digest)
        if name is None:
            return None
        try:
            return self.of_uid(pwd.getpwnam(name).pw_uid)
        except KeyError:
            raise NotAllowed(f"This token belongs to {name}, who has no account here.") from None

    @property
    def server_user(self) -> str:
        """The name of the user that the scheduler runs as."""
        return _name_of(self._server_uid)

    def owner(self, person: Person) -> str:
        """Whose job it is that a person submits."""
        return person.name or self.server_user

    def runs_as(self, person: Person) -> str:
        """Who the jobs of a person run as."""
        return self.owner(person) if self.as_owner else self.server_user

    def _is_allowed(self, name: str) -> bool:
        if not self._allow_users:
            return self.as_owner
        return _is_one_of(name, self._allow_users)

    # Who may do what.

    def owns(self, person: Person, owner: str) -> bool:
        """Whether a job is theirs to read, cancel and change."""
        return person.operator or (bool(person.name) and person.name == owner)

    def admitted(self, submission: Submission, person: Person) -> Submission:
        """With the tenant that the person is assigned to, or an operator asked for.

        Raises :class:`NotAllowed` for more than is theirs to take.
        """
        if self.as_owner and not person.name:
            raise NotAllowed(
                "Jobs run as the user who submits them, and the operator's token is nobody's: "
                "make a token that is with 'shockwave token --user NAME'."
            )
        own = self.tenant_of(person)
        tenant = submission.tenant or own
        if not person.operator:
            if tenant != own:
                raise NotAllowed(f"Your tenant is {own}; only an operator may submit for {tenant}.")
            self.check_weight(person, own, submission.weight)
        return submission.model_copy(update={"tenant": tenant})

    def check_weight(self, person: Person, tenant: str, weight: object) -> None:
        """Raises :class:`NotAllowed` for a weight above that of the tenant, but to operators."""
        most = self._tenants.get(tenant, Tenant()).weight
        try:
            asked = float(weight)  # type: ignore[arg-type]  # it may be text that is a number
        except (TypeError, ValueError, OverflowError):
            return  # none, or refused as what it is
        if asked > most and not person.operator:
            raise NotAllowed(
                f"Tenant {tenant} has weight {most:g}; only an operator may give a job {asked:g}."
            )

    def tenant_of(self, person: Person) -> str:
        """The first tenant that names the user, or one of their groups; else of their own name."""
        name = self.owner(person)
        by_user = (tenant for tenant, rule in self._tenants.items() if name in rule.users)
        by_group = (
            tenant for tenant, rule in self._tenants.items() if _is_one_of(name, rule.users)
        )
        found = next(by_user, None) or next(by_group, None)
        return found or (name if _TENANT.fullmatch(name) else "default")


def jobs_run_as_owners(executor: str) -> bool:
    """Whether this process may start jobs as other users, and its executor can."""
    return os.geteuid() == 0 and EXECUTORS.load(executor).runs_as_owner


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid-{uid}"  # as in containers


def _overflow_uid() -> int | None:
    """Whom the kernel shows in place of users that this namespace does not know."""
    try:
        return int(_OVERFLOW.read_text())
    except (OSError, ValueError):
        return None


def _is_one_of(name: str, listed: Iterable[str]) -> bool:
    """Whether a user is named in the list, or is in a group that is.

    >>> _is_one_of("alice", ["bob", "alice"]), _is_one_of("alice", ["@no-such-group"])
    (True, False)
    """
    groups: set[int] | None = None
    for entry in listed:
        if entry == name:
            return True
        if entry.startswith("@"):
            groups = _groups_of(name) if groups is None else groups
            try:
                if grp.getgrnam(entry[1:]).gr_gid in groups:
                    return True
            except KeyError:
                continue
    return False


def _groups_of(name: str) -> set[int]:
    try:
        return set(os.getgrouplist(name, pwd.getpwnam(name).pw_gid))
    except KeyError:
        return set()

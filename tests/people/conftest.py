"""One scheduler of root, and users of the machine it runs on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.people.users import Serve, User, made_users, serving


@pytest.fixture(scope="session")
def users() -> Iterator[list[User]]:
    with made_users("alice", "bob", "carol") as made:
        yield made


@pytest.fixture(scope="session")
def alice(users: list[User]) -> User:
    return users[0]


@pytest.fixture(scope="session")
def bob(users: list[User]) -> User:
    return users[1]


@pytest.fixture(scope="session")
def carol(users: list[User]) -> User:
    return users[2]


@pytest.fixture(scope="module")
def serve(users: list[User]) -> Iterator[Serve]:
    with serving() as started:
        yield started

"""``shockwave token``: what it prints is what the server accepts."""

from __future__ import annotations

import json

from tests.cli.test_simulate import shockwave

from shockwave.server.config import load_config
from shockwave.server.tokens import token_matches


def test_the_hash_is_that_of_the_token_and_opens_the_server() -> None:
    made = json.loads(shockwave("token", "--json").stdout)
    by_hash = load_config(
        flags={"host": "0.0.0.0", "token_sha256": made["token_sha256"]}, environment={}
    ).config
    by_token = load_config(
        flags={"host": "0.0.0.0"}, environment={"SHOCKWAVE_TOKEN": made["token"]}
    ).config
    assert by_hash.token_hash == by_token.token_hash == made["token_sha256"]
    assert token_matches(made["token"], made["token_sha256"])

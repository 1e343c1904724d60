"""The OpenAPI document keeps its word under requests that nobody would think of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)
from tests.server.live import listening
from tests.server.scripted import ScriptedScheduler
from tests.server.services import running, slow, submit, tiny

from shockwave.server.app import create_app
from shockwave.server.submissions import JobTokens

Operation = schemathesis.APIOperation[Any, Any, Any, Any]
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]

NOTHING_ASKED = ("GET /healthz", "GET /readyz", "GET /api/v1/session", "DELETE /api/v1/session")


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, str]]:
    """A real service that decides nothing meanwhile: its URL, one of its jobs, that job's token."""
    state = tmp_path_factory.mktemp("state")
    with running(slow(state)) as service:
        job, *_ = [submit(service, tiny()) for _ in range(3)]
        with listening(create_app(service.desk, token_hash=None)) as url:
            yield url, job, JobTokens(state).token(job)


def operations() -> list[tuple[Operation, GenerationMode]]:
    with TemporaryDirectory() as folder, closing(ScriptedScheduler(Path(folder))) as scheduler:
        document = schemathesis.openapi.from_dict(create_app(scheduler, token_hash=None).openapi())
    found: list[Any] = list(document.get_all_operations())
    return [
        (operation, mode)
        for operation in (item.ok() for item in found)
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
        # Nothing can be wrong where nothing is asked.
        if mode is GenerationMode.POSITIVE or operation.label not in NOTHING_ASKED
    ]


@pytest.mark.parametrize(
    ("operation", "mode"),
    operations(),
    ids=lambda item: str(item.value if isinstance(item, GenerationMode) else item.label),
)
def test_no_request_is_an_error_of_the_server(
    operation: Operation, mode: GenerationMode, target: tuple[str, str, str]
) -> None:
    url, job, token = target

    @settings(
        max_examples=10,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode))
    def run(case: schemathesis.Case[Any]) -> None:
        headers = {}
        if operation.path.endswith(("/events", "/logs", "/present")):  # what is followed has no end
            case.query = {**(case.query or {}), "follow": "false"}
        if operation.path.endswith("/reports"):
            headers["Authorization"] = f"Bearer {token}"
        if "{job}" in operation.path and len(str(case.path_parameters)) % 2:  # half find a job
            case.path_parameters = {"job": job}
        response = case.call(base_url=url, headers=headers, timeout=30)
        case.validate_response(response, checks=CHECKS)

    run()

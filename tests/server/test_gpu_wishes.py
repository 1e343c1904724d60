"""What a job says about its GPUs, as people write it, and what becomes of it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from shockwave.model.errors import InputError
from shockwave.server.records import Submission
from shockwave.server.submissions import checked, spec_of

CLUSTER = {"A100": 4, "T4": 8}


def submission(**fields: Any) -> Submission:
    return Submission.model_validate({"command": ["true"], "epochs": 1, **fields})


@pytest.mark.parametrize(
    ("written", "request_", "counts"),
    [
        (4, 4, ()),
        ("4", 4, ()),
        ({"min": 1, "max": 6}, 1, (1, 2, 4, 6)),
        ("1-4", 1, (1, 2, 4)),
        ({"min": 1, "max": 4, "request": 2}, 2, (1, 2, 4)),
        ([2, 1, 8], 2, (1, 2, 8)),
        ("2,1,8", 2, (1, 2, 8)),
        ([3], 3, ()),
        ({"min": 2, "max": 2}, 2, ()),
    ],
)
def test_numbers_are_written_in_several_ways(
    written: Any, request_: int, counts: tuple[int, ...]
) -> None:
    made = submission(gpus=written)
    spec = spec_of("j", 0.0, made)
    assert (spec.gpus, spec.gpu_counts) == (request_, counts)
    again = Submission.model_validate_json(made.model_dump_json())
    assert again == made


@pytest.mark.parametrize(
    "wrong",
    [-1, 1.5, True, "many", "4-1", "0-2", [], [1, 1], [0, 1], {"min": 1}, {"min": 2, "max": 1},
     {"min": 1, "max": 2, "most": 3}, {"min": 1, "max": 2, "request": 3}, 10**6],
    ids=str,
)  # fmt: skip
def test_numbers_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(ValidationError) as refused:
        submission(gpus=wrong)
    assert refused.value.errors()[0]["loc"] == ("gpus",)


def test_types_are_spelt_as_the_cluster_spells_them() -> None:
    wish = submission(gpus="1-4", gpu_types="t4,a100", preferred_type="a100", gpu_memory="16G")
    spec = spec_of("j", 0.0, checked(wish, gpus=CLUSTER, executor="local"))
    assert (spec.gpu_types, spec.preferred_type) == (("T4", "A100"), "A100")
    assert spec.gpu_memory_gb == 16.0


@pytest.mark.parametrize(
    ("wish", "place", "said"),
    [
        ({"gpu_types": ["H100"]}, "gpu_types", "It has A100, T4"),
        ({"gpu_types": ["T4"], "preferred_type": "A100"}, "preferred_type", "not one of gpu_types"),
        ({"gpus": 9}, "gpus", "8 GPU slots of one type"),
        ({"gpus": 8, "gpu_memory": 24}, "gpus", "4 GPU slots of one type"),
        ({"gpu_types": ["T4"], "gpu_memory": 24}, "gpu_memory", "There are T4"),
    ],
    ids=str,
)
def test_what_no_type_could_hold_is_refused(wish: dict[str, Any], place: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        checked(submission(**wish), gpus=CLUSTER, executor="local")
    assert refused.value.place == place

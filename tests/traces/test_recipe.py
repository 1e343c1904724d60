"""Recipes: a workload in one line, and what is said about a wrong one."""

from __future__ import annotations

import pytest

from shockwave.model.errors import InputError
from shockwave.traces import Mix, parse_recipe


def test_a_recipe_sets_what_it_names_and_leaves_the_rest() -> None:
    assert parse_recipe("generated:jobs=30, span_hours=1.5 ,seed=4") == Mix(
        jobs=30, span_hours=1.5, seed=4
    )
    assert parse_recipe("generated:") == Mix()


def test_naming_one_share_sets_the_others_to_zero() -> None:
    mix = parse_recipe("generated:pruning=1")
    assert (mix.static, mix.accordion, mix.gns, mix.pruning) == (0, 0, 0, 1)


def test_choices_with_shares() -> None:
    mix = parse_recipe(
        "generated:gpus=1:0.5/2:0.5,models=LM,tenants=2,tenant_weights=1/2.5,"
        "min_hours=1,max_hours=2,never_adapt=0"
    )
    assert mix == Mix(
        gpus={1: 0.5, 2: 0.5},
        models={"LM": 1.0},
        tenants=2,
        tenant_weights=(1.0, 2.5),
        min_hours=1.0,
        max_hours=2.0,
        never_adapt=0.0,
    )


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        ("trace.jsonl", "a recipe starts with 'generated:' (got 'trace.jsonl')"),
        (
            "generated:job=3",
            "unknown key of a recipe (got 'job=3'). Keys are jobs, seed, span_hours",
        ),
        ("generated:jobs", "expected key=value in a recipe (got 'jobs'). Keys are jobs"),
        ("generated:jobs=3,", "expected key=value in a recipe (got '')"),
        ("generated:jobs=3,jobs=4", "jobs: is given twice"),
        ("generated:jobs=many", "jobs: must be a whole number (got 'many')"),
        ("generated:jobs=1.5", "jobs: must be a whole number (got '1.5')"),
        ("generated:jobs=0", "jobs: must be at least 1 (got 0)"),
        ("generated:seed=-1", "seed: must not be negative (got -1)"),
        (
            "generated:span_hours=nan",
            "span_hours: must be a finite number of at most 1e+09 (got nan)",
        ),
        ("generated:span_hours=-2", "span_hours: must not be negative (got -2.0)"),
        ("generated:max_hours=inf", "max_hours: must be a finite number"),
        ("generated:min_hours=0", "min_hours: must be above 0 (got 0.0)"),
        ("generated:min_hours=9", "max_hours: must not be below min_hours (got 5.0)"),
        ("generated:interarrival_seconds=-1", "interarrival_seconds: must not be negative"),
        (
            "generated:span_hours=1,interarrival_seconds=5",
            "span_hours: cannot be combined with interarrival_seconds. Give one of them",
        ),
        (
            "generated:static=0.5,gns=0.4",
            "static + accordion + gns + pruning: shares must sum to 1 (got 0.9)",
        ),
        ("generated:static=1.5,gns=-0.5", "every share must be between 0 and 1 (got 1.5)"),
        ("generated:never_adapt=2", "never_adapt: must be between 0 and 1 (got 2.0)"),
        ("generated:gpus=1:0.5/2", "gpus: must be gang sizes and shares such as 1:0.7/2:0.3"),
        ("generated:gpus=1:0.5/1:0.5", "gpus: must be gang sizes and shares"),
        ("generated:gpus=0", "gpus: must be at least 1"),
        ("generated:gpus=16", "gpus: no chosen model scales beyond 8 GPUs (got 16)"),
        ("generated:models=Recommendation", "no chosen model scales beyond 1 GPUs (got 2)"),
        ("generated:models=VGG", "(got 'VGG'). Known models are ResNet-50"),
        ("generated:models=LM:0.5", "models: shares must sum to 1 (got 0.5)"),
        ("generated:tenants=0", "tenants: must be at least 1 (got 0)"),
        ("generated:tenants=2,tenant_weights=1", "must be as many as there are tenants, 2"),
        ("generated:tenant_weights=0", "tenant_weights: must be numbers above 0"),
    ],
)
def test_a_wrong_recipe_is_answered_in_one_line(recipe: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_recipe(recipe)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)

"""One job of a native trace: a JSON object in, a :class:`TraceJob` out, and back.

Nothing is guessed: no type is converted, and nothing that is missing is filled in, except
for the three optional fields.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Mapping
from itertools import groupby
from typing import Annotated, Any, Literal, NoReturn

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from shockwave.model.errors import TraceError
from shockwave.model.job import Adaptation, JobSpec, Regime, TraceJob
from shockwave.traces.option_records import FIELDS, has_options, option_fields, plain_record
from shockwave.traces.speeds import ModelSpeeds

_ADAPTATIONS = {str(adaptation): adaptation for adaptation in Adaptation}
_DEFAULT_TENANT = "default"
_DEFAULT_WEIGHT = 1.0
_ONE_LINE = "must be text of one line, without control characters"


def _one_line(text: str) -> str:
    # Control characters would break tables, and lone surrogates cannot be printed at all.
    if not text.isprintable() and any(unicodedata.category(c) in ("Cc", "Cs") for c in text):
        raise ValueError(_ONE_LINE)
    return text


_Text = Annotated[str, AfterValidator(_one_line)]
_Label = Annotated[str, Field(min_length=1), AfterValidator(_one_line)]
# Jobs live in arrays of floats and 64-bit integers; beyond 2**53 a count is not exact there.
_Count = Annotated[int, Field(ge=1, le=2**53)]
_Positive = Annotated[float, Field(gt=0)]


class _Record(BaseModel):
    """The fields of a line and their types; what ties them together is checked afterwards."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)

    id: _Label
    arrival: Annotated[float, Field(ge=0)]
    model: _Text
    gpus: _Count
    epochs: _Count
    adaptation: Literal["static", "accordion", "gns", "pruning", "custom"]
    batch_sizes: Annotated[list[_Count], Field(min_length=1)]
    epoch_seconds: dict[str, _Positive]
    schedule: Annotated[
        list[Annotated[list[_Count], Field(min_length=2, max_length=2)]], Field(min_length=1)
    ]
    tenant: _Label = _DEFAULT_TENANT
    weight: _Positive = _DEFAULT_WEIGHT
    name: _Text = ""


_A_COUNT = "must be a whole number of at least 1"
_SIZES = "must be a list of whole numbers of at least 1"
_EXPECTED = {
    "id": "must be a string",
    "arrival": "must be a number of seconds",
    "model": "must be a string",
    "gpus": _A_COUNT,
    "epochs": _A_COUNT,
    "adaptation": f"must be one of {', '.join(_ADAPTATIONS)}",
    "batch_sizes": _SIZES,
    "epoch_seconds": "must be an object from every batch size to seconds per epoch",
    "schedule": "must be a list of [configuration, epochs]",
    "tenant": "must be a string",
    "weight": "must be a number",
    "name": "must be a string",
}
# What pydantic found, where the field alone does not say it: (field, kind of error).
_PARTICULAR = {
    ("id", "string_too_short"): "must not be empty",
    ("tenant", "string_too_short"): "must not be empty",
    ("arrival", "greater_than_equal"): "must not be negative",
    ("weight", "greater_than"): "must be a number above 0",
    ("batch_sizes", "too_short"): "must name at least one configuration",
    ("schedule", "too_short"): "must have at least one [configuration, epochs]",
}


def job_from_record(record: object, models: Mapping[str, ModelSpeeds] | None = None) -> TraceJob:
    """The job that a decoded line describes; neighbouring regimes of equal configuration merge.

    ``models`` are speeds for lines that bring none (:mod:`shockwave.traces.option_records`).
    Raises :class:`TraceError` whose ``place`` names the field (the caller knows the line).
    """
    if not isinstance(record, dict):
        expected = "expected a JSON object that describes one job"
        raise TraceError(_not_null(expected, record), value=record)
    if has_options(record, models):
        plain, wishes = plain_record(record, models)
        return wishes.given_to(job_from_record(plain))
    try:
        valid = _Record.model_validate(record)
    except ValidationError as error:
        raise _explained(error) from None
    configurations = tuple(valid.batch_sizes)
    epoch_seconds = _epoch_seconds(valid)
    regimes = _regimes(valid, dict(zip(configurations, epoch_seconds, strict=True)))
    job = TraceJob(
        spec=JobSpec(
            id=valid.id,
            arrival_seconds=valid.arrival,
            gpus=valid.gpus,
            epochs=valid.epochs,
            configurations=configurations,
            epoch_seconds=epoch_seconds,
            adaptation=_ADAPTATIONS[valid.adaptation],
            model=valid.model,
            tenant=valid.tenant,
            weight=valid.weight,
            name=valid.name,
        ),
        regimes=regimes,
        extra=_extra(valid),
    )
    if not math.isfinite(job.exclusive_seconds):
        _reject("epoch_seconds", "the job's runtime must be finite", record["epoch_seconds"])
    return job


def record_from_job(job: TraceJob) -> dict[str, Any]:
    """The job as JSON types in native field order; optional fields only where they say something.

    Numbers of numpy become plain ones. Raises :class:`TraceError` where the format cannot
    hold the job, so that whatever is written can be read back to the same job.
    """
    spec = job.spec
    record: dict[str, Any] = {
        "id": spec.id,
        "arrival": spec.arrival_seconds,
        "model": spec.model,
        "gpus": spec.gpus,
        "epochs": spec.epochs,
        "adaptation": str(spec.adaptation),
        "batch_sizes": list(spec.configurations),
        "epoch_seconds": {
            str(configuration): seconds
            for configuration, seconds in zip(spec.configurations, spec.epoch_seconds, strict=False)
        },
        "schedule": _schedule(job),
    }
    if job.speeds is not None and any(map(math.isnan, spec.epoch_seconds)):
        del record["epoch_seconds"]  # nothing is declared
    record |= option_fields(job)
    if spec.tenant != _DEFAULT_TENANT:
        record["tenant"] = spec.tenant
    if spec.weight != _DEFAULT_WEIGHT:
        record["weight"] = spec.weight
    if spec.name:
        record["name"] = spec.name
    for field, value in job.extra.items():
        if field in _Record.model_fields or field in FIELDS:
            _reject(field, "is a field of the format and cannot be an extra field", value)
        record[field] = value

    try:
        again = job_from_record(record)
    except TraceError:
        record = _plain(record)  # rarely needed, so only done once it is
        again = job_from_record(record)
    declared = dict(zip(again.spec.configurations, again.spec.epoch_seconds, strict=True))
    for regime in job.regimes if job.speeds is None else ():
        if regime.epoch_seconds != declared[regime.configuration]:
            _reject(
                "epoch_seconds",
                f"configuration {regime.configuration} is declared to take "
                f"{declared[regime.configuration]} s an epoch but truly takes another time, "
                "which the native format cannot tell apart",
                regime.epoch_seconds,
            )
    return record


def _schedule(job: TraceJob) -> list[list[int]]:
    by_configuration = groupby(job.regimes, key=lambda regime: regime.configuration)
    return [[size, sum(regime.epochs for regime in same)] for size, same in by_configuration]


def _plain(value: Any) -> Any:
    """Numbers and arrays of numpy as JSON types, at any depth."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _explained(error: ValidationError) -> TraceError:
    """The first problem in the words of the format."""
    problems = error.errors(include_url=False)
    missing = [p["loc"][0] for p in problems if p["type"] == "missing" and len(p["loc"]) == 1]
    if missing:
        fields = _Record.model_fields.items()
        needed = f"A job needs {', '.join(name for name, info in fields if info.is_required())}"
        return TraceError("is missing", place=_place(str(missing[0])), hint=needed)
    problem = problems[0]
    field, *inside = problem["loc"]
    kind, value = problem["type"], problem["input"]
    expected = _PARTICULAR.get((str(field), kind), _EXPECTED[str(field)])
    hint: str | None = None
    if kind in ("value_error", "string_unicode"):
        expected = _ONE_LINE
    elif field == "schedule" and inside:
        number = int(inside[0]) + 1
        expected = (
            f"entry {number} must be [configuration, epochs], two whole numbers of at least 1"
        )
    elif field == "epoch_seconds" and inside:
        expected = f'must be a number of seconds per epoch for "{inside[0]}"'
        if kind == "greater_than":
            expected += " above 0"
    elif field == "id" and type(value) is int:
        hint = f'Quote it: "{value}"'
    elif kind == "string_too_short" and field == "tenant":
        hint = "Leave the field out instead"
    if field in ("arrival", "weight", "epoch_seconds") and _is_infinite(value):
        expected += " and finite"
    return TraceError(_not_null(expected, value), place=_place(str(field)), value=value, hint=hint)


def _is_infinite(value: object) -> bool:
    """Whether it is a number that a float cannot hold, such as 1e999 or an integer like it."""
    try:
        return isinstance(value, int | float) and not math.isfinite(value)
    except OverflowError:
        return True


def _place(field: str) -> str:
    return f"field '{field}'"


def _not_null(expected: str, value: object) -> str:
    """Names a null in words: an error takes the value None for "no value to show"."""
    return f"{expected}, not null" if value is None else expected


def _reject(field: str, expected: str, value: object, *, hint: str | None = None) -> NoReturn:
    raise TraceError(_not_null(expected, value), place=_place(field), value=value, hint=hint)


def _epoch_seconds(valid: _Record) -> tuple[float, ...]:
    """Seconds per epoch of every declared configuration, in declared order."""
    sizes, given = valid.batch_sizes, valid.epoch_seconds
    try:
        seconds = tuple([given[str(size)] for size in sizes])
    except KeyError as error:
        expected = f'must have an entry for "{error.args[0]}" of batch_sizes'
        _reject("epoch_seconds", expected, sorted(given))
    if len(given) != len(sizes):
        twice = [size for size in sizes if sizes.count(size) > 1]
        if twice:
            _reject("batch_sizes", f"must not name {twice[0]} twice", sizes)
        unknown = next(key for key in given if key not in {str(size) for size in sizes})
        expected = f"must have entries for batch_sizes only, which are {sizes}"
        _reject("epoch_seconds", expected, unknown)
    return seconds


def _regimes(valid: _Record, seconds: dict[int, float]) -> tuple[Regime, ...]:
    regimes: list[Regime] = []
    for number, (configuration, epochs) in enumerate(valid.schedule, start=1):
        if configuration not in seconds:
            _reject(
                "schedule",
                f"entry {number} must use a configuration of batch_sizes, "
                f"which are {list(seconds)}",
                [configuration, epochs],
            )
        if regimes and regimes[-1].configuration == configuration:
            epochs += regimes.pop().epochs
        regimes.append(Regime(configuration, epochs, seconds[configuration]))
    total = sum(regime.epochs for regime in regimes)
    if total != valid.epochs:
        expected = f"epochs must sum to the {valid.epochs} of field 'epochs', not to {total}"
        _reject("schedule", expected, valid.schedule)
    if valid.adaptation == "static" and len(regimes) > 1:
        _reject(
            "schedule",
            "a static job must stay in one configuration",
            valid.schedule,
            hint="Name the job's adaptation, or 'custom' if it is none of the known ones",
        )
    return tuple(regimes)


def _extra(valid: _Record) -> dict[str, object]:
    extra = valid.model_extra or {}
    for field, value in extra.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            _reject(field, "must be plain JSON, without NaN or Infinity", value)
    return extra

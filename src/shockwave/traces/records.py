"""One job of a native trace: a JSON object in, a :class:`TraceJob` out, and back.

The validation is written by hand because a trace may hold 100,000 jobs; it names the field,
the value and what was expected. Nothing is guessed: no type is converted, and nothing that
is missing is filled in, except for the three optional fields.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Mapping
from typing import Any, NoReturn

from shockwave.model.errors import TraceError
from shockwave.model.job import Adaptation, JobSpec, Regime, TraceJob

REQUIRED_FIELDS = (
    "id", "arrival", "model", "gpus", "epochs", "adaptation", "batch_sizes", "epoch_seconds",
    "schedule",
)  # fmt: skip
OPTIONAL_FIELDS = ("tenant", "weight", "name")

_NATIVE_FIELDS = frozenset(REQUIRED_FIELDS + OPTIONAL_FIELDS)
_ADAPTATIONS = {str(adaptation): adaptation for adaptation in Adaptation}
_DEFAULT_TENANT = "default"
_DEFAULT_WEIGHT = 1.0
# Jobs live in arrays of floats and 64-bit integers; beyond this a count is not exact there.
_LARGEST_COUNT = 2**53


def job_from_record(record: object) -> TraceJob:
    """The job that a decoded line describes; neighbouring regimes of equal configuration merge.

    Raises :class:`TraceError` whose ``place`` names the field (the caller knows the line).
    """
    if not isinstance(record, dict):
        expected = "expected a JSON object that describes one job"
        raise TraceError(_not_null(expected, record), value=record)
    for field in REQUIRED_FIELDS:
        if field not in record:
            hint = f"A job needs {', '.join(REQUIRED_FIELDS)}"
            raise TraceError("is missing", place=_place(field), hint=hint)

    identifier = _identifier(record["id"])
    arrival_seconds = _number("arrival", record["arrival"], "a number of seconds")
    if arrival_seconds < 0:
        _reject("arrival", "must not be negative", record["arrival"])
    epochs = _count("epochs", record["epochs"])
    adaptation = _adaptation(record["adaptation"])
    configurations = _configurations(record["batch_sizes"])
    seconds = _epoch_seconds(record["epoch_seconds"], configurations)
    regimes = _regimes(record["schedule"], seconds, epochs)
    if adaptation is Adaptation.STATIC and len(regimes) > 1:
        _reject(
            "schedule",
            "a static job must stay in one configuration",
            record["schedule"],
            hint="Name the job's adaptation, or 'custom' if it is none of the known ones",
        )
    job = TraceJob(
        spec=JobSpec(
            id=identifier,
            arrival_seconds=arrival_seconds,
            gpus=_count("gpus", record["gpus"]),
            epochs=epochs,
            configurations=configurations,
            epoch_seconds=tuple(seconds.values()),
            adaptation=adaptation,
            model=_text("model", record["model"]),
            tenant=_tenant(record.get("tenant", _DEFAULT_TENANT)),
            weight=_positive("weight", record.get("weight", _DEFAULT_WEIGHT), "a number"),
            name=_text("name", record.get("name", "")),
        ),
        regimes=regimes,
        extra=_extra(record),
    )
    if not math.isfinite(job.exclusive_seconds):
        _reject("epoch_seconds", "the job's runtime must be finite", record["epoch_seconds"])
    return job


def record_from_job(job: TraceJob) -> dict[str, Any]:
    """The job as JSON types in native field order; optional fields only where they say something.

    Raises :class:`TraceError` where the format cannot hold the job, so that whatever is
    written can be read back to the same job.
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
        "schedule": [[regime.configuration, regime.epochs] for regime in job.regimes],
    }
    if spec.tenant != _DEFAULT_TENANT:
        record["tenant"] = spec.tenant
    if spec.weight != _DEFAULT_WEIGHT:
        record["weight"] = spec.weight
    if spec.name:
        record["name"] = spec.name
    for field, value in job.extra.items():
        if field in _NATIVE_FIELDS:
            _reject(field, "is a field of the format and cannot be an extra field", value)
        record[field] = value

    again = job_from_record(record)
    declared = dict(zip(again.spec.configurations, again.spec.epoch_seconds, strict=True))
    for regime in job.regimes:
        if regime.epoch_seconds != declared[regime.configuration]:
            _reject(
                "epoch_seconds",
                f"configuration {regime.configuration} is declared to take "
                f"{declared[regime.configuration]} s an epoch but truly takes another time, "
                "which the native format cannot tell apart",
                regime.epoch_seconds,
            )
    return record


def _place(field: str) -> str:
    return f"field '{field}'"


def _not_null(expected: str, value: object) -> str:
    """Names a null in words: an error takes the value None for "no value to show"."""
    return f"{expected}, not null" if value is None else expected


def _reject(field: str, expected: str, value: object, *, hint: str | None = None) -> NoReturn:
    raise TraceError(_not_null(expected, value), place=_place(field), value=value, hint=hint)


def _identifier(value: object) -> str:
    if type(value) is int:
        _reject("id", "must be a string", value, hint=f'Quote it: "{value}"')
    text = _text("id", value)
    if not text:
        _reject("id", "must not be empty", value)
    return text


def _tenant(value: object) -> str:
    text = _text("tenant", value)
    if not text:
        _reject("tenant", "must not be empty", value, hint="Leave the field out instead")
    return text


def _text(field: str, value: object) -> str:
    if not isinstance(value, str):
        _reject(field, "must be a string", value)
    # Control characters would break tables, and lone surrogates cannot be printed at all.
    if not value.isprintable() and any(unicodedata.category(c) in ("Cc", "Cs") for c in value):
        _reject(field, "must be text of one line, without control characters", value)
    return value


def _number(field: str, value: object, expected: str) -> float:
    """A finite float from a JSON number; True and False are no numbers."""
    if type(value) is not float and type(value) is not int:
        _reject(field, f"must be {expected}", value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        _reject(field, f"must be {expected} and finite", value)
    return number


def _positive(field: str, value: object, expected: str) -> float:
    number = _number(field, value, expected)
    if number <= 0:
        _reject(field, f"must be {expected} above 0", value)
    return number


def _is_count(value: object) -> bool:
    return type(value) is int and 1 <= value <= _LARGEST_COUNT


def _count(field: str, value: object) -> int:
    if type(value) is not int or not _is_count(value):
        _reject(field, "must be a whole number of at least 1", value)
    return value


def _adaptation(value: object) -> Adaptation:
    adaptation = _ADAPTATIONS.get(value) if isinstance(value, str) else None
    if adaptation is None:
        _reject("adaptation", f"must be one of {', '.join(_ADAPTATIONS)}", value)
    return adaptation


def _configurations(value: object) -> tuple[int, ...]:
    field = "batch_sizes"
    if not isinstance(value, list):
        _reject(field, "must be a list of whole numbers of at least 1", value)
    if not value:
        _reject(field, "must name at least one configuration", value)
    for size in value:
        if not _is_count(size):
            _reject(field, "must be a list of whole numbers of at least 1", size)
    if len(set(value)) != len(value):
        twice = next(size for size in value if value.count(size) > 1)
        _reject(field, f"must not name {twice} twice", value)
    return tuple(value)


def _epoch_seconds(value: object, configurations: tuple[int, ...]) -> dict[int, float]:
    """Seconds per epoch of every declared configuration, in declared order."""
    field = "epoch_seconds"
    if not isinstance(value, dict):
        _reject(field, "must be an object from every batch size to seconds per epoch", value)
    seconds: dict[int, float] = {}
    for configuration in configurations:
        key = str(configuration)
        if key not in value:
            expected = f'must have an entry for "{key}" of batch_sizes'
            _reject(field, expected, sorted(value))
        seconds[configuration] = _positive(
            field, value[key], f'a number of seconds per epoch for "{key}"'
        )
    if len(value) > len(configurations):
        unknown = next(key for key in value if key not in {str(c) for c in configurations})
        expected = f"must have entries for batch_sizes only, which are {list(configurations)}"
        _reject(field, expected, unknown)
    return seconds


def _regimes(value: object, seconds: Mapping[int, float], epochs: int) -> tuple[Regime, ...]:
    field = "schedule"
    if not isinstance(value, list):
        _reject(field, "must be a list of [configuration, epochs]", value)
    if not value:
        _reject(field, "must have at least one [configuration, epochs]", value)
    merged: list[tuple[int, int]] = []
    total = 0
    for number, entry in enumerate(value, start=1):
        if not (isinstance(entry, list) and len(entry) == 2 and all(map(_is_count, entry))):
            expected = (
                f"entry {number} must be [configuration, epochs], two whole numbers of at least 1"
            )
            _reject(field, expected, entry)
        configuration, count = entry
        if configuration not in seconds:
            expected = (
                f"entry {number} must use a configuration of batch_sizes, which are {list(seconds)}"
            )
            _reject(field, expected, entry)
        total += count
        if merged and merged[-1][0] == configuration:
            merged[-1] = (configuration, merged[-1][1] + count)
        else:
            merged.append((configuration, count))
    if total != epochs:
        _reject(field, f"epochs must sum to the {epochs} of field 'epochs', not to {total}", value)
    return tuple(Regime(config, count, seconds[config]) for config, count in merged)


def _extra(record: Mapping[str, object]) -> dict[str, object]:
    extra = {field: value for field, value in record.items() if field not in _NATIVE_FIELDS}
    for field, value in extra.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            _reject(field, "must be plain JSON, without NaN or Infinity", value)
    return extra

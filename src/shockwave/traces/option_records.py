"""Jobs of a native trace that can use several types or numbers of GPUs.

Besides the fields of every job, such a line may have

* ``gpus`` as a list of numbers, or as ``{"min": 1, "max": 16}``: all numbers in that range that
  the speeds cover; ``gpus_requested`` is what it gets from whoever knows no options (by default
  the smallest). Without ``gpus`` it can use all that the speeds cover;
* ``gpu_types``, ``preferred_type``, ``gpu_memory_gb``;
* ``speeds``, the truth: type -> number -> seconds per epoch, as one number, as a list of one for
  each epoch, or as an object by configuration. ``declared_speeds`` (one number each) are what
  the job itself says;
* ``restart_seconds``, what its starts cost.

A line without ``schedule`` takes epochs and speeds from the speeds of its model in a file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shockwave.model.errors import TraceError
from shockwave.model.job import TraceJob, timeline
from shockwave.model.speeds import Speeds
from shockwave.traces.speeds import ModelSpeeds

_Count = Annotated[int, Field(ge=1, le=2**53)]
_Positive = Annotated[float, Field(gt=0)]
_Types = dict[str, dict[Annotated[str, Field(pattern=r"^[1-9]\d{0,15}$")], Any]]


class _Fields(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    gpus_requested: _Count | None = None
    gpu_types: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)] | None = (
        None
    )
    preferred_type: Annotated[str, Field(min_length=1)] | None = None
    gpu_memory_gb: _Positive | None = None
    speeds: Annotated[_Types, Field(min_length=1)] | None = None
    declared_speeds: _Types | None = None
    restart_seconds: Annotated[float, Field(ge=0)] | None = None


FIELDS = frozenset(_Fields.model_fields)
_BY_TYPE = "must be an object from types of GPUs to numbers of GPUs to seconds per epoch"
_EXPECTED = {
    "gpus_requested": "must be a whole number of at least 1",
    "gpu_types": "must be a list of types of GPUs",
    "preferred_type": "must be a type of GPU",
    "gpu_memory_gb": "must be a number above 0",
    "speeds": _BY_TYPE,
    "declared_speeds": _BY_TYPE,
    "restart_seconds": "must be a number of at least 0",
}
_GPUS = 'must be a whole number of at least 1, a list of them, or {"min": ..., "max": ...}'


def has_options(record: Mapping[str, object], models: Mapping[str, ModelSpeeds] | None) -> bool:
    """Whether a line says more than that of a job with a fixed number of any GPUs."""
    if not FIELDS.isdisjoint(record) or isinstance(record.get("gpus"), list | dict):
        return True
    return models is not None and "schedule" not in record


def plain_record(
    record: Mapping[str, Any], models: Mapping[str, ModelSpeeds] | None
) -> tuple[dict[str, Any], GpuWishes]:
    """The line as one of a job with a fixed number of GPUs, and what it says beyond.

    Raises :class:`TraceError` whose ``place`` names the field.
    """
    fields = _validated({name: record[name] for name in FIELDS & record.keys()})
    plain = {name: value for name, value in record.items() if name not in FIELDS}
    known = None
    if "schedule" not in record:
        known = _known_model(record, models)
        size = plain.pop("batch_size_requested", 1)
        plain |= {"epochs": known.epochs, "adaptation": "static", "batch_sizes": [size]}
        plain |= {"epoch_seconds": {str(size): 1.0}, "schedule": [[size, known.epochs]]}
    speeds = known.speeds if known is not None else None
    if fields.speeds is not None:
        speeds = _own_speeds(fields.speeds, plain)
    if speeds is not None and fields.gpu_types is not None:
        unknown = [name for name in fields.gpu_types if name not in speeds.types]
        if unknown:
            expected = f"must be types that its speeds cover, which are {', '.join(speeds.types)}"
            _reject("gpu_types", expected, unknown[0])
    types = tuple(fields.gpu_types or (() if speeds is None else speeds.types))
    counts = _counts(record, speeds, types)
    request = fields.gpus_requested or (counts[0] if counts else record.get("gpus"))
    plain["gpus"] = request
    declares = "epoch_seconds" in plain and known is None
    if speeds is not None and not declares:
        sizes = plain.get("batch_sizes")
        plain["epoch_seconds"] = dict.fromkeys(
            map(str, sizes if isinstance(sizes, list) else ()), 1.0
        )
    preferred = fields.preferred_type or ""
    if preferred and types and preferred not in types:
        _reject("preferred_type", f"must be one of {', '.join(types)}", preferred)
    cost = fields.restart_seconds
    if cost is None and known is not None:
        cost = known.restart_seconds
    return plain, GpuWishes(
        counts, types, preferred, fields.gpu_memory_gb, speeds, declares, cost,
        _declared(fields.declared_speeds),
    )  # fmt: skip


@dataclass(frozen=True)
class GpuWishes:
    """What a line says of a job's GPUs beyond their number."""

    counts: tuple[int, ...]
    types: tuple[str, ...]
    preferred: str
    memory_gb: float | None
    speeds: Speeds | None
    declares: bool  # seconds per epoch of its request
    restart_seconds: float | None
    declared: tuple[tuple[str, int, float], ...]

    def given_to(self, job: TraceJob) -> TraceJob:
        """The job with these options, and the regimes of its request where speeds tell them."""
        spec = replace(
            job.spec,
            gpu_counts=self.counts,
            gpu_types=self.types,
            preferred_type=self.preferred,
            gpu_memory_gb=self.memory_gb,
            option_seconds=self.declared,
        )
        regimes = job.regimes
        if self.speeds is not None:
            first = self.preferred or self.types[0]
            regimes = timeline(regimes, self.speeds.epoch_seconds(first, spec.gpus))
            if not self.declares:
                spec = replace(spec, epoch_seconds=(math.nan,) * len(spec.configurations))
        return replace(
            job,
            spec=spec,
            regimes=regimes,
            speeds=self.speeds,
            restart_seconds=self.restart_seconds,
        )


def option_fields(job: TraceJob) -> dict[str, Any]:
    """The fields of a job that a plain line does not have, as JSON types."""
    spec = job.spec
    fields: dict[str, Any] = {}
    if spec.gpu_counts:
        fields |= {"gpus": list(spec.gpu_counts), "gpus_requested": spec.gpus}
    if spec.gpu_types:
        fields["gpu_types"] = list(spec.gpu_types)
    if spec.preferred_type:
        fields["preferred_type"] = spec.preferred_type
    if spec.gpu_memory_gb is not None:
        fields["gpu_memory_gb"] = spec.gpu_memory_gb
    if job.restart_seconds is not None:
        fields["restart_seconds"] = job.restart_seconds
    if spec.option_seconds:
        declared: dict[str, dict[str, float]] = {}
        for gpu_type, gpus, seconds in spec.option_seconds:
            declared.setdefault(gpu_type, {})[str(gpus)] = seconds
        fields["declared_speeds"] = declared
    if job.speeds is not None:
        sizes = [regime.configuration for regime in job.regimes for _ in range(regime.epochs)]
        fields["speeds"] = {
            gpu_type: {str(gpus): _shortest(times, sizes) for gpus, times in by_count.items()}
            for gpu_type, by_count in job.speeds.by_type.items()
        }
    return fields


def _shortest(
    times: Sequence[float], sizes: Sequence[int]
) -> float | list[float] | dict[str, float]:
    """One figure, one for each configuration, or one for each epoch: the least that says it all."""
    by_size = dict(zip(sizes, times, strict=False))
    if len(set(times)) == 1:
        return times[0]
    if len(sizes) == len(times) and [by_size[size] for size in sizes] == list(times):
        return {str(size): seconds for size, seconds in by_size.items()}
    return list(times)


def _validated(given: dict[str, Any]) -> _Fields:
    try:
        return _Fields.model_validate(given)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        field = str(problem["loc"][0])
        _reject(field, _EXPECTED[field], problem["input"])


def _known_model(
    record: Mapping[str, Any], models: Mapping[str, ModelSpeeds] | None
) -> ModelSpeeds:
    if models is None:
        hint = "Name a file of speeds by --speeds, or give the line its own schedule and speeds"
        _reject("schedule", "is missing, and so are speeds of the job's model", None, hint=hint)
    model = record.get("model")
    if not isinstance(model, str) or model not in models:
        _reject("model", f"must be one that the speeds cover: {', '.join(models)}", model)
    return models[model]


def _counts(
    record: Mapping[str, Any], speeds: Speeds | None, types: tuple[str, ...]
) -> tuple[int, ...]:
    """The numbers of GPUs that the job can choose from; none if it has no choice."""
    gpus = record.get("gpus")
    if "gpus" in record and not isinstance(gpus, list | dict):
        return ()
    if speeds is None:
        _reject("gpus", "a choice of numbers needs speeds", gpus, hint="Give the line speeds")
    covered = sorted({count for name in types for count in speeds.by_type[name]})
    if "gpus" not in record:
        return tuple(covered)
    if isinstance(gpus, list):
        if not gpus or not all(_is_count(count) for count in gpus):
            _reject("gpus", _GPUS, gpus)
        if len(set(gpus)) < len(gpus):
            _reject("gpus", "must not name a number twice", gpus)
        return tuple(sorted(gpus))
    assert isinstance(gpus, dict)
    least, most = gpus.get("min", 1), gpus.get("max", covered[-1])
    if gpus.keys() - {"min", "max"} or not (_is_count(least) and _is_count(most)):
        _reject("gpus", _GPUS, gpus)
    found = tuple(count for count in covered if least <= count <= most)
    if not found:
        shown = ", ".join(map(str, covered))
        _reject("gpus", f"must have a number in it that the speeds cover: {shown}", gpus)
    return found


def _is_count(value: object) -> bool:
    return type(value) is int and 1 <= value <= 2**53


def _own_speeds(given: _Types, plain: Mapping[str, Any]) -> Speeds:
    schedule = plain.get("schedule")
    pairs: list[Any] = schedule if isinstance(schedule, list) else [schedule]
    if not all(isinstance(p, list) and len(p) == 2 and all(map(_is_count, p)) for p in pairs):
        expected = "must be a list of [configuration, epochs], whole numbers of at least 1"
        _reject("schedule", expected, schedule)
    per_epoch = [size for size, epochs in pairs for _ in range(epochs)]
    by_type: dict[str, dict[int, tuple[float, ...]]] = {}
    for gpu_type, by_count in given.items():
        if not by_count:
            _reject("speeds", "must name at least one number of GPUs for every type", gpu_type)
        for count, value in by_count.items():
            times = _times(value, per_epoch)
            if times is None:
                expected = (
                    f"of {count} x {gpu_type} must be a number of seconds above 0, a list with one "
                    f"for each of the {len(per_epoch)} epochs, or an object by configuration"
                )
                _reject("speeds", expected, value)
            by_type.setdefault(gpu_type, {})[int(count)] = times
    return Speeds(by_type)


def _times(value: object, per_epoch: Sequence[int]) -> tuple[float, ...] | None:
    if _is_time(value):
        return (float(value),) * len(per_epoch)  # type: ignore[arg-type]
    if isinstance(value, list) and len(value) == len(per_epoch) and all(map(_is_time, value)):
        return tuple(map(float, value))
    if isinstance(value, dict) and all(_is_time(value.get(str(size))) for size in per_epoch):
        return tuple(float(value[str(size)]) for size in per_epoch)
    return None


def _is_time(value: object) -> bool:
    return type(value) in (int, float) and 0 < value < math.inf  # type: ignore[operator]


def _declared(given: _Types | None) -> tuple[tuple[str, int, float], ...]:
    found = []
    for gpu_type, by_count in (given or {}).items():
        for count, seconds in by_count.items():
            if not _is_time(seconds):
                expected = f"of {count} x {gpu_type} must be a number of seconds above 0"
                _reject("declared_speeds", expected, seconds)
            found.append((gpu_type, int(count), float(seconds)))
    return tuple(found)


def _reject(field: str, expected: str, value: object, *, hint: str | None = None) -> NoReturn:
    raise TraceError(expected, place=f"field '{field}'", value=value, hint=hint)

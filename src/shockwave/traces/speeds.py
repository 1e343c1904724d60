"""A file of speeds: seconds per epoch by model, type of GPU and number of GPUs, epoch by epoch.

::

    {"cifar10": {"epochs": 100, "restart_seconds": 50,
                 "gpus": {"T4": {"1": {"epoch_seconds": [72.6, ...]}, "2": {...}}, "A100": {...}}}}

``restart_seconds`` is what a start of the model costs; without it a start costs what the run says.
Other fields are for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError

from shockwave.model.errors import InputError
from shockwave.model.speeds import Speeds

_Count = Annotated[int, Field(ge=1, le=2**53)]
_Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]

_SHAPE = 'Expected {model: {"epochs": N, "gpus": {type: {number: {"epoch_seconds": [...]}}}}}'


class _Epochs(BaseModel):
    model_config = ConfigDict(extra="ignore")
    epoch_seconds: Annotated[list[_Seconds], Field(min_length=1)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore")
    epochs: _Count
    restart_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    gpus: Annotated[
        dict[str, Annotated[dict[_Count, _Epochs], Field(min_length=1)]], Field(min_length=1)
    ]


class _File(RootModel[Annotated[dict[str, _Model], Field(min_length=1)]]):
    pass


@dataclass(frozen=True)
class ModelSpeeds:
    """What is known of one model."""

    epochs: int
    speeds: Speeds
    restart_seconds: float | None = None


def read_speeds(path: Path) -> Mapping[str, ModelSpeeds]:
    """The models of the file. Raises :class:`InputError` with the place of what is wrong."""
    try:
        text = path.read_bytes()
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
        raise InputError(problem, source=str(path), place="--speeds") from None
    try:
        models = _File.model_validate_json(text).root
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"] if part != "[key]")
        shown = first["input"]
        raise InputError(
            _lower_first(first["msg"]),
            source=str(path),
            place=place or None,
            value=shown if isinstance(shown, int | float | str) and place else None,
            hint=_SHAPE,
        ) from None
    return {name: _speeds(name, model, path) for name, model in models.items()}


def _speeds(name: str, model: _Model, path: Path) -> ModelSpeeds:
    for gpu_type, by_count in model.gpus.items():
        for count, measured in by_count.items():
            if len(measured.epoch_seconds) != model.epochs:
                raise InputError(
                    f"must have a time for each of the {model.epochs} epochs",
                    source=str(path),
                    place=f"{name}.gpus.{gpu_type}.{count}.epoch_seconds",
                    value=f"{len(measured.epoch_seconds)} times",
                )
    speeds = Speeds(
        {
            gpu_type: {count: tuple(found.epoch_seconds) for count, found in by_count.items()}
            for gpu_type, by_count in model.gpus.items()
        }
    )
    return ModelSpeeds(model.epochs, speeds, model.restart_seconds)


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]

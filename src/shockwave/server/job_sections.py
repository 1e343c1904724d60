"""The sections of a job that are for one executor, such as ``slurm: {partition: gpu}``.

A section has the executor's name and is what its :class:`JobOptions` say. Whoever reads a job
knows the executors that are installed there; a section for another one is left to the
scheduler, which knows the executor that it runs.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from shockwave.executors.options import JOB_OPTIONS, JobOptions
from shockwave.model.errors import InputError

if TYPE_CHECKING:
    from shockwave.executors.live import LiveExecutor

NAME = "[A-Za-z][A-Za-z0-9_-]{0,63}"  # of a section


def known_sections() -> Iterator[tuple[str, type[JobOptions]]]:
    """The options of a job by built-in executor, where it has any."""
    for name in JOB_OPTIONS.built_in:
        options = JOB_OPTIONS.load(name)
        if options.model_fields:
            yield name, options


def options_of(section: str) -> type[JobOptions] | None:
    """What may be said in a section; None where no executor of this name is installed."""
    if section in JOB_OPTIONS.built_in:
        return JOB_OPTIONS.load(section)
    if section not in JOB_OPTIONS.names():
        return None
    from shockwave.executors.live import EXECUTORS

    return EXECUTORS.load(section).JobOptions


def checked_sections(fields: Mapping[str, Any], others: Collection[str]) -> dict[str, Any]:
    """The fields of a job with its sections checked, for all fields but ``others``.

    Raises :class:`ValidationError` whose places begin with the name of the section.
    """
    checked = dict(fields)
    for name in [name for name in fields if name not in others]:
        options = options_of(name)
        if options is None:
            is_typo = bool(difflib.get_close_matches(name, others, cutoff=0.8))
            if is_typo or not (isinstance(checked[name], dict) and re.fullmatch(NAME, name)):
                unknown = InitErrorDetails(type="extra_forbidden", loc=(name,), input=checked[name])
                raise ValidationError.from_exception_data("Submission", [unknown])
        elif checked[name] is None:
            del checked[name]
        else:
            checked[name] = _checked(name, options, checked[name])
    return checked


def _checked(section: str, options: type[JobOptions], value: Any) -> dict[str, Any]:
    try:
        return options.model_validate(value).model_dump(mode="json", exclude_none=True)
    except ValidationError as error:
        raise ValidationError.from_exception_data(
            error.title,
            [
                InitErrorDetails(
                    type=PydanticCustomError(found["type"], found["msg"]),
                    loc=(section, *found["loc"]),
                    input=found["input"],
                )
                for found in error.errors(include_url=False)
            ],
        ) from error


def check_for_executor(sections: Mapping[str, Any], executor: type[LiveExecutor]) -> None:
    """Raises :class:`InputError` if a section would be passed over, or says what it may not."""
    for name, section in sections.items():
        if name != executor.name:
            near = difflib.get_close_matches(name, [executor.name])
            raise InputError(
                f"this scheduler runs jobs by its {executor.name} executor",
                place=name,
                value=section,
                hint=f"Did you mean {executor.name}?" if near else f"Leave {name} out",
            )
        try:
            executor.JobOptions.model_validate(section)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise InputError(
                first["msg"],
                place=".".join([name, *(str(part) for part in first["loc"])]),
                value=first["input"],
                hint=f"The options are {', '.join(executor.JobOptions.model_fields) or 'none'}",
            ) from error


def with_sections(schema: dict[str, Any]) -> None:
    """Adds the sections of the built-in executors to the JSON Schema of a job."""
    for name, options in known_sections():
        section = options.model_json_schema()
        section["description"] = f"Options of the executor {name}, where that runs the job."
        schema["properties"][name] = {"anyOf": [section, {"type": "null"}], "default": None}
    schema["propertyNames"] = {"pattern": f"^{NAME}$"}
    schema["additionalProperties"] = {
        "type": "object",
        "description": "Options of an executor that another package brings, by its name.",
    }

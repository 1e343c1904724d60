"""The ``.trace`` of Gavel and of the original Shockwave, with the throughputs that they measured.

A line is tab-separated, without a header: ``job_type, command, working_directory,
num_steps_arg, needs_data_dir, total_steps, scale_factor, [mode,] priority_weight, SLO,
[duration,] arrival_time``: 12 columns in Shockwave's traces, 10 in Gavel's, and 7 in Gavel's
oldest (``job_type, command, num_steps_arg, needs_data_dir, total_steps, arrival_time,
scale_factor``). The batch size stands in the text of ``job_type``.

The throughputs are JSON, ``{gpu: {"('Model (batch size N)', scale)": {"null": steps/s}}}``,
in the file that ``profiles`` names, or the only ``*throughputs*.json`` in the folder of the
trace or above it. A job has ``ceil(total_steps / ceil(samples / N))`` epochs, and an epoch
takes ``samples / N / throughput`` seconds.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shockwave.model.errors import InputError, TraceError
from shockwave.model.job import Adaptation, JobSpec, Regime, TraceJob
from shockwave.traces.base import Rejects, RowError, Sample
from shockwave.traces.files import lines
from shockwave.traces.recorded import RecordedFormat, number, recorded_job, whole

# Samples of the data set that every model is trained on in these traces: CIFAR-10 50,000,
# a part of ImageNet 100,000, Multi30k 10,000, WikiText-2 59,675, MovieLens-20M 117,907.
SAMPLES = {
    "ResNet-18": 50_000, "ResNet-50": 100_000, "Transformer": 10_000, "LM": 59_675,
    "Recommendation": 117_907, "A3C": 4, "CycleGAN": 6_287,
}  # fmt: skip
# Beyond this a model's batch does not grow.
LARGEST_BATCH = {
    "ResNet-18": 256, "ResNet-50": 128, "Transformer": 128, "LM": 80, "Recommendation": 8192,
}  # fmt: skip
# Models that accordion leaves as they are.
_NEVER_LARGE = frozenset(("Transformer", "CycleGAN", "A3C"))
_GPU = "v100"
_FOLDERS_ABOVE = 3
_LAYOUTS: dict[int, dict[str, int]] = {
    12: {
        "total_steps": 5,
        "scale_factor": 6,
        "mode": 7,
        "weight": 8,
        "duration": 10,
        "arrival": 11,
    },
    10: {"total_steps": 5, "scale_factor": 6, "weight": 7, "arrival": 9},
    7: {"total_steps": 4, "arrival": 5, "scale_factor": 6},
}
_JOB_TYPE = re.compile(r"(?P<model>.+?)(?: \(batch size (?P<size>\d+)\))?")
_PROFILED = re.compile(r"\('(?P<type>.*)', (?P<scale>\d+)\)")


@dataclass(frozen=True)
class Throughputs:
    """Steps a second by (model, batch size, GPUs), on one kind of GPU."""

    steps: Mapping[tuple[str, int, int], float]

    def epoch_seconds(self, model: str, batch_size: int, gpus: int) -> float | None:
        """Seconds an epoch takes, rounded to 0.1 ms; None where nothing was measured."""
        steps = self.steps.get((model, batch_size, gpus))
        if not steps or model not in SAMPLES:
            return None
        return round(SAMPLES[model] / batch_size / steps, 4) or None

    @classmethod
    def read(cls, path: Path, gpu: str = _GPU) -> Throughputs:
        """The file's figures of ``gpu``. Raises :class:`TraceError`."""
        try:
            document = json.loads(b"".join(raw for _, raw in lines(path)))
        except (ValueError, RecursionError) as error:
            raise TraceError(f"not JSON: {error}", source=str(path)) from None
        profiles = document.get(gpu) if isinstance(document, dict) else None
        if not isinstance(profiles, dict):
            known = ", ".join(document) if isinstance(document, dict) else "none"
            raise TraceError(f"no throughputs of '{gpu}'", source=str(path), hint=f"It has {known}")
        steps: dict[tuple[str, int, int], float] = {}
        for key, value in profiles.items():
            match = _PROFILED.fullmatch(key)
            alone: Any = value.get("null") if isinstance(value, dict) else None
            if match is None or not isinstance(alone, int | float) or isinstance(alone, bool):
                raise TraceError(
                    "expected \"('Model (batch size N)', scale)\" with steps a second as \"null\"",
                    source=str(path), place=f"'{gpu}'", value=key,
                )  # fmt: skip
            model, size = _parse_type(match["type"])
            if math.isfinite(alone) and alone > 0:
                steps[model, size, int(match["scale"])] = float(alone)
        return cls(steps)


class GavelFormat(RecordedFormat):
    """The trace. Who follows which regimes is not in it: jobs stay in their first configuration."""

    name = "gavel"
    suffixes = (".trace", ".trace.gz")
    assumptions = (
        "the source does not say when jobs change their batch size: all stay at the first one",
        "an accordion job may use its batch size and the model's largest, a gns job all doublings "
        "from the first to the largest, of those that were profiled on its number of GPUs",
        f"throughputs are those of {_GPU} GPUs",
        "working directories, commands, weights of other schedulers and deadlines are left out",
    )

    def recognises(self, sample: Sample) -> bool:
        if super().recognises(sample):
            return True
        first = next(iter(sample.lines), "")
        return first.count("\t") + 1 in _LAYOUTS and "batch size" in first

    def stream(self, path: Path, rejects: Rejects) -> Iterator[TraceJob]:
        throughputs = self._throughputs(path)
        for line, raw in lines(path):
            text = raw.decode("utf-8", "replace").rstrip("\r\n")
            if not text.strip():
                continue
            rejects.rows += 1
            try:
                yield self.job(text, str(rejects.rows - 1), throughputs, path, line)
            except RowError as unusable:
                rejects.add(line, unusable, text)

    def job(
        self, text: str, id: str, throughputs: Throughputs | None, path: Path, line: int
    ) -> TraceJob:
        """The job of a line, without any regimes but the first. Raises :class:`RowError`."""
        cells = text.split("\t")
        if len(cells) not in _LAYOUTS:
            raise RowError("have neither 7, 10 nor 12 columns", f"{len(cells)} columns")
        row = {name: cells[index] for name, index in _LAYOUTS[len(cells)].items()}
        model, size = _parse_type(cells[0])
        gpus = whole(row["scale_factor"], "scale factor")
        arrival = number(row["arrival"], "arrival")
        if arrival < 0:
            raise RowError("arrive before second 0", row["arrival"])
        source = f"{self.name}:{path.name}:{line}"
        if throughputs is None:
            if "duration" not in row:
                raise RowError("tell no duration, and there are no throughputs")
            seconds = number(row["duration"], "duration")
            return recorded_job(id=id, submitted_seconds=arrival, gpus=gpus, seconds=seconds,
                                model=model, source=source)  # fmt: skip
        adaptation = _adaptation(row.get("mode", "static"))
        steps = number(row["total_steps"], "number of steps")
        first = throughputs.epoch_seconds(model, size, gpus)
        if first is None:
            raise RowError("have no throughput in the profiles", f"{cells[0]} on {gpus} GPUs")
        if not 1 <= steps <= 2**53 or gpus < 1:
            raise RowError("have no steps to do", row["total_steps"])
        epochs = math.ceil(steps / math.ceil(SAMPLES[model] / size))
        profile = {size: first}
        for other in _configurations(model, size, adaptation):
            seconds_each = throughputs.epoch_seconds(model, other, gpus)
            if seconds_each is not None:
                profile[other] = seconds_each
        return TraceJob(
            JobSpec(
                id=id,
                arrival_seconds=arrival,
                gpus=gpus,
                epochs=epochs,
                configurations=tuple(profile),
                epoch_seconds=tuple(profile.values()),
                adaptation=adaptation,
                model=model,
            ),
            (Regime(size, epochs, first),),
            {"source": source},
        )

    def _throughputs(self, path: Path) -> Throughputs | None:
        if self.profiles is not None:
            return Throughputs.read(self.profiles)
        folder = path.absolute().parent
        for _ in range(_FOLDERS_ABOVE):
            found = sorted(folder.glob("*throughputs*.json"))
            if len(found) == 1:
                return Throughputs.read(found[0])
            if found:
                raise InputError(
                    f"{len(found)} files of throughputs could belong to it",
                    source=str(path),
                    hint="Name one by --profiles: " + ", ".join(map(str, found)),
                )
            folder = folder.parent
        return None


def _parse_type(text: str) -> tuple[str, int]:
    match = _JOB_TYPE.fullmatch(text)
    if match is None or not text.isprintable():
        raise RowError("have no model", text)
    return match["model"], max(int((match["size"] or "1")[:15]), 1)


def _adaptation(mode: str) -> Adaptation:
    if mode not in ("static", "accordion", "gns"):
        raise RowError("have an unknown mode", mode)
    return Adaptation(mode)


def _configurations(model: str, size: int, adaptation: Adaptation) -> list[int]:
    """What a job may use besides its first batch size."""
    largest = LARGEST_BATCH.get(model, size)
    if adaptation is Adaptation.GNS:
        doublings = (size * 2**power for power in range(1, 64))
        return [other for other in doublings if other <= largest]
    if adaptation is Adaptation.ACCORDION and model not in _NEVER_LARGE and largest > size:
        return [largest]
    return []

"""The jobs of the original Shockwave's repository, with the regimes that its own rules give them.

Its traces do not say when jobs change their batch size. Two functions of its simulator do,
``get_accordion_bs_pattern`` and ``get_gns_bs_pattern`` in ``scheduler/utils.py``: pure
functions of the model, the batch size and the number of epochs. They are taken from the
clone that the user names and called; nothing else of it is run.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from shockwave.model.errors import InputError, ShockwaveError
from shockwave.model.job import Adaptation, Regime, TraceJob
from shockwave.traces.formats import load

_FUNCTIONS = ("get_accordion_bs_pattern", "get_gns_bs_pattern")
_BUILT_IN = {"range": range, "list": list, "enumerate": enumerate, "len": len, "max": max,
             "min": min}  # fmt: skip


@dataclass(frozen=True)
class Workload:
    """One of the paper's, by the GPUs of its cluster: a trace and the throughputs it belongs to."""

    gpus: int
    trace: str
    throughputs: str


_NAME = "0,0.5,0.5_0.6,0.3,0.09,0.01_multigpu_dynamic.trace"
WORKLOADS = {
    workload.gpus: workload
    for workload in (
        Workload(32, f"120_0.2_5_100_40_25_{_NAME}", "tacc_throughputs.json"),
        Workload(64, f"220_0.2_5_100_25_4_{_NAME}", "wisr_throughputs.json"),
        Workload(128, f"460_0.2_5_100_10_1_{_NAME}", "wisr_throughputs.json"),
        Workload(256, f"900_0.2_5_1000_5_15_{_NAME}", "wisr_throughputs.json"),
    )
}


def jobs_of(clone: Path, workload: Workload) -> list[TraceJob]:
    """The workload's jobs with their regimes. Raises :class:`InputError` for another folder."""
    scheduler = clone / "scheduler"
    trace = scheduler / "traces" / "reproduce" / workload.trace
    throughputs = scheduler / workload.throughputs
    for needed in (trace, throughputs, scheduler / "utils.py"):
        if not needed.is_file():
            raise InputError(
                "is no clone of the original's repository",
                source=str(clone),
                place=str(needed.relative_to(clone)),
                hint="git clone https://github.com/uw-mad-dash/shockwave",
            )
    rules = _Rules.read(scheduler / "utils.py")
    jobs = load(trace, format="gavel", profiles=throughputs)
    return [rules.apply(job) for job in jobs]


@dataclass(frozen=True)
class _Rules:
    """The two functions of the clone: a batch size for every epoch."""

    source: Path
    accordion: Callable[..., Sequence[int]]
    gns: Callable[..., Sequence[int]]

    @classmethod
    def read(cls, path: Path) -> _Rules:
        names: dict[str, Any] = {"__builtins__": _BUILT_IN}
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            wanted: list[ast.stmt] = [
                node
                for node in tree.body
                if isinstance(node, ast.FunctionDef) and node.name in _FUNCTIONS
            ]
            exec(compile(ast.Module(wanted, []), str(path), "exec"), names)
            return cls(path, *(names[name] for name in _FUNCTIONS))
        except (OSError, ValueError, SyntaxError, KeyError) as error:
            problem = f"does not define {' and '.join(_FUNCTIONS)} ({error})"
            raise InputError(problem, source=str(path)) from error

    def apply(self, job: TraceJob) -> TraceJob:
        spec = job.spec
        first = spec.configurations[0]
        kind = f"{spec.model} (batch size {first})"
        try:
            if spec.adaptation is Adaptation.ACCORDION:
                sizes = self.accordion(kind, first, spec.epochs, int(spec.id))
            elif spec.adaptation is Adaptation.GNS:
                sizes = self.gns(kind, first, spec.epochs, spec.gpus)
            else:
                return job
            seconds = dict(zip(spec.configurations, spec.epoch_seconds, strict=True))
            regimes = tuple(
                Regime(size, len(list(run)), seconds[size]) for size, run in groupby(sizes)
            )
        except ShockwaveError:
            raise
        except Exception as error:  # whatever the clone's code raises
            problem = f"gives no regimes for job {spec.id}: {type(error).__name__}: {error}"
            raise InputError(problem, source=str(self.source)) from error
        return replace(job, regimes=regimes)

"""Figures that others published, to stand beside ours. Each names where it is from."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from shockwave.model.errors import InputError

UNFAIR_ABOVE = 1.05  # as in the original's scheduler/reproduce/aggregate_result.py

# Our names of the policies that the NSDI '23 paper compares, and what its simulator calls them.
NSDI23_POLICIES = {
    "shockwave-nsdi23": "shockwave",
    "ossp": "min_total_duration",
    "themis": "finish_time_fairness",
    "gavel": "max_min_fairness",
    "allox": "allox",
    "mst": "max_sum_throughput_perf",
    "gandiva-fair": "gandiva_fair",
}


@dataclass(frozen=True)
class Published:
    """Means over the runs of a paper; None where it does not say."""

    makespan_seconds: float | None = None
    mean_jct_seconds: float | None = None
    p99_jct_seconds: float | None = None
    worst_ftf_static: float | None = None
    unfair_static: float | None = None


# Sia (SOSP '23), table 4: homogeneous cluster of 64 GPUs, Philly workloads, mean over them.
# "+TJ" there: jobs of fixed size and batch size, tuned for the cluster beforehand. Gavel's
# objective there is the largest sum of throughputs, our ``mst``.
_HOUR = 3600.0
SIA_TABLE_4 = {
    "sia": Published(21.4 * _HOUR, 1.9 * _HOUR, 18.1 * _HOUR),
    "pollux": Published(21.7 * _HOUR, 2.0 * _HOUR, 19.3 * _HOUR),
    "shockwave-nsdi23": Published(35.0 * _HOUR, 3.6 * _HOUR, 32.8 * _HOUR),
    "themis": Published(49.7 * _HOUR, 5.4 * _HOUR, 44.7 * _HOUR),
    "mst": Published(44.3 * _HOUR, 4.3 * _HOUR, 37.1 * _HOUR),
}
# The same paper, heterogeneous cluster of 64 GPUs, Philly workloads: mean completion times.
SIA_TYPES = {
    "sia": Published(mean_jct_seconds=0.6 * _HOUR),
    "pollux": Published(mean_jct_seconds=1.0 * _HOUR),
    "mst": Published(mean_jct_seconds=1.9 * _HOUR),
}


def nsdi23_results(clone: Path, trace: str) -> dict[str, Published]:
    """What the authors' simulator gave for ``trace``, by our names, from the files they ship.

    Empty for a trace whose results are not shipped: of all but the one of 32 GPUs the paper
    has bars (figure 9) and no figures.
    """
    folder = clone / "scheduler" / "reproduce" / "pickles" / "tacc_32gpus"
    found: dict[str, Published] = {}
    for policy, theirs in NSDI23_POLICIES.items():
        path = folder / f"{theirs}_{trace.removesuffix('.trace')}_simulation.pickle"
        if path.is_file():
            found[policy] = _result(path)
    return found


def _result(path: Path) -> Published:
    try:
        with path.open("rb") as file:
            result: dict[str, Any] = _Reader(file).load()
        fairness = np.array(result["finish_time_fairness_list"], dtype=np.float64)
        completion = np.array(result["jct_list"], dtype=np.float64)
        return Published(
            makespan_seconds=float(result["makespan"]),
            mean_jct_seconds=float(result["avg_jct"]),
            p99_jct_seconds=float(np.quantile(completion, 0.99)),
            worst_ftf_static=float(fairness.max()),
            unfair_static=float((fairness > UNFAIR_ABOVE).mean()),
        )
    except Exception as error:  # a pickle may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"cannot be read as results: {reason}", source=str(path)) from error


class _Ignored:
    """Stands for a class of theirs, of which nothing is needed."""

    def __setstate__(self, state: object) -> None:
        pass


class _Reader(pickle.Unpickler):
    """Plain data and numbers of numpy only: a pickle can name any function to be called."""

    _ALLOWED: ClassVar[dict[tuple[str, str], Any]] = {
        ("numpy.core.multiarray", "scalar"): np._core.multiarray.scalar,  # type: ignore[attr-defined]
        ("numpy", "dtype"): np.dtype,
        ("collections", "OrderedDict"): OrderedDict,
        ("builtins", "set"): set,
        ("job_id_pair", "JobIdPair"): _Ignored,
    }

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self._ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"holds a {module}.{name}") from None

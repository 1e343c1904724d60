"""How a launch ended, and what that means for its job."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.supervisor.processes import boot_id
from shockwave.executors.gangs.supervisor.rotating_log import tail


class Outcome(Enum):
    FINISHED = auto()  # ended by itself with exit code 0, or reported that it is done
    STOPPED = auto()  # saved and left because it was asked to, or was killed for staying
    CRASHED = auto()
    LOST = auto()  # the node went down under it
    NEVER_STARTED = auto()  # nobody's fault: the scheduler ended first, or the engine was away


@dataclass(frozen=True, slots=True)
class Ending:
    """``clean``: every rank left with exit code 0, so what it reported it also saved."""

    outcome: Outcome
    detail: str = ""
    clean: bool = False
    time: float | None = None  # unix seconds; None where nobody noted it


NEVER_STARTED = Ending(
    Outcome.NEVER_STARTED,
    "never started: the scheduler ended between the decision and the start",
)


def judge(
    folder: JobFolder,
    generation: int,
    last_event: str | None,
    *,
    parts: int = 1,
    adopted: bool,
    fate: Ending | None = None,
    read_boot_id: Callable[[], str] = boot_id,
) -> Ending:
    """What became of a launch whose processes have all ended.

    ``adopted``: this executor did not start it, and cannot know whether anybody did.
    ``fate`` is what the engine knows, for a launch that did not write down everything itself.
    """
    records = [folder.exit_record(generation, part) for part in range(parts)]
    told = [record for record in records if record is not None]
    if len(told) < parts:
        if fate is not None:
            return fate
        return _without_record(folder, generation, adopted, read_boot_id)
    codes = [int(code) for record in told for code in record.get("codes", [])]
    time = max((float(record["ended"]) for record in told if "ended" in record), default=None)
    clean = bool(codes) and not any(codes)
    error = next((str(record["error"]) for record in told if record.get("error")), None)
    if error is not None:
        return Ending(Outcome.CRASHED, error, time=time)
    if any(record.get("asked") for record in told) or (clean and last_event == "stopped"):
        outcome = Outcome.FINISHED if last_event == "done" else Outcome.STOPPED
        detail = fate.detail if fate is not None and fate.outcome is Outcome.STOPPED else ""
        if any(record.get("killed") for record in told):
            detail = "killed after the grace period"
        return Ending(outcome, detail, clean, time)
    if clean:
        return Ending(Outcome.FINISHED, clean=True, time=time)
    return Ending(Outcome.CRASHED, _describe(folder, told, codes), time=time)


def _without_record(
    folder: JobFolder, generation: int, adopted: bool, read_boot_id: Callable[[], str]
) -> Ending:
    who = folder.processes(generation)
    if who is not None:
        if who.boot_id != read_boot_id():
            return Ending(Outcome.LOST, "the machine was restarted")
        return Ending(
            Outcome.CRASHED,
            "the process that watches over it ended without a word: killed, or the disk is full",
        )
    if adopted:
        return NEVER_STARTED
    said = tail(folder.supervisor_log)
    return Ending(Outcome.CRASHED, f"its supervisor did not start: {said or 'it said nothing'}")


def _describe(folder: JobFolder, records: list[dict[str, Any]], codes: list[int]) -> str:
    if not codes:
        return "it ended before its ranks were started"
    failed = [record for record in records if isinstance(record.get("failed_rank"), int)]
    rank = min(failed, key=lambda record: record.get("ended", 0.0), default={}).get("failed_rank")
    if not isinstance(rank, int) or not 0 <= rank < len(codes):
        rank = next(number for number, code in enumerate(codes) if code)
    code = codes[rank]
    said = tail(folder.log(rank))
    how = f"exited with code {code}" if code > 0 else f"was killed by {_signal_name(-code)}"
    return f"rank {rank} {how}" + (f"; its last lines:\n{said}" if said else "; it wrote nothing")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

"""How a launch ended, and what that means for its job."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from shockwave.executors.local.folder import JobFolder
from shockwave.executors.local.gang.processes import boot_id
from shockwave.executors.local.gang.rotating_log import tail


class Outcome(Enum):
    FINISHED = auto()  # ended by itself with exit code 0, or reported that it is done
    STOPPED = auto()  # saved and left because it was asked to, or was killed for staying
    CRASHED = auto()
    LOST = auto()  # the machine went down under it
    NEVER_STARTED = auto()  # the scheduler ended between the decision and the start


@dataclass(frozen=True, slots=True)
class Ending:
    """``clean``: every rank left with exit code 0, so what it reported it also saved."""

    outcome: Outcome
    detail: str = ""
    clean: bool = False
    time: float | None = None  # unix seconds; None where nobody noted it


def judge(
    folder: JobFolder,
    generation: int,
    last_event: str | None,
    *,
    adopted: bool,
    read_boot_id: Callable[[], str] = boot_id,
) -> Ending:
    """What became of a launch whose processes have all ended.

    ``adopted``: this executor did not start it, and cannot know whether anybody did.
    """
    record = folder.exit_record(generation)
    if record is None:
        return _without_record(folder, generation, adopted, read_boot_id)
    codes: list[int] = list(record.get("codes", []))
    time = record.get("ended")
    clean = bool(codes) and not any(codes)
    if record.get("error"):
        return Ending(Outcome.CRASHED, str(record["error"]), time=time)
    if record.get("asked") or (clean and last_event == "stopped"):
        outcome = Outcome.FINISHED if last_event == "done" else Outcome.STOPPED
        detail = "killed after the grace period" if record.get("killed") else ""
        return Ending(outcome, detail, clean, time)
    if clean:
        return Ending(Outcome.FINISHED, clean=True, time=time)
    return Ending(Outcome.CRASHED, _describe(folder, record, codes), time=time)


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
        detail = "never started: the scheduler ended between the decision and the start"
        return Ending(Outcome.NEVER_STARTED, detail)
    said = tail(folder.supervisor_log)
    return Ending(Outcome.CRASHED, f"its supervisor did not start: {said or 'it said nothing'}")


def _describe(folder: JobFolder, record: dict[str, Any], codes: list[int]) -> str:
    if not codes:
        return "it ended before its ranks were started"
    rank = record.get("failed_rank")
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

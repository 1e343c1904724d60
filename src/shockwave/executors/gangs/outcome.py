"""How a launch ended, and what that means for its job."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.supervisor.rotating_log import tail
from shockwave.protocol.processes import boot_id
from shockwave.protocol.records import ExitRecord


class Outcome(Enum):
    FINISHED = auto()  # ended by itself with exit code 0, or reported that it is done
    STOPPED = auto()  # saved and left because it was asked to, or was killed for staying
    CRASHED = auto()  # by a fault of its own
    KILLED = auto()  # by somebody else, which is no fault of its own
    LOST = auto()  # the node went down under it
    NEVER_STARTED = auto()  # the backend did not start it, or the scheduler ended before it could


@dataclass(frozen=True, slots=True)
class Ending:
    """``clean``: every rank left with exit code 0, so what it reported it also saved."""

    outcome: Outcome
    detail: str = ""
    clean: bool = False
    time: float | None = None  # unix seconds; None where nobody noted it
    back_off_seconds: float = 0.0  # until it makes sense to try again


# A process that does wrong gets other signals from the system: SIGSEGV, SIGABRT, SIGBUS, ...
_SENT_BY_OTHERS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
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
    ``fate`` is what the backend knows, for a launch that did not write down everything itself.
    """
    records = [folder.exit_record(generation, part) for part in range(parts)]
    told = [record for record in records if record is not None]
    if len(told) < parts:
        if fate is not None:
            return fate
        return _without_record(folder, generation, adopted, read_boot_id)
    time = max(record.ended for record in told)
    clean = all(record.went_well for record in told)
    error = next((record.error for record in told if record.error), None)
    if error is not None:
        return Ending(Outcome.CRASHED, error, time=time)
    if any(record.asked for record in told) or (clean and last_event == "stopped"):
        if fate is not None and not any(record.codes for record in told):
            return replace(fate, time=time)  # it was taken back in the moment of its start
        outcome = Outcome.FINISHED if last_event == "done" else Outcome.STOPPED
        detail = fate.detail if fate is not None and fate.outcome is Outcome.STOPPED else ""
        if any(record.killed for record in told):
            detail = "killed after the grace period"
        return Ending(outcome, detail, clean, time)
    if clean:
        return Ending(Outcome.FINISHED, clean=True, time=time)
    return replace(_failure(folder, told), time=time)


def _without_record(
    folder: JobFolder, generation: int, adopted: bool, read_boot_id: Callable[[], str]
) -> Ending:
    who = folder.processes(generation)
    if who is not None:
        if who.boot_id != read_boot_id():
            return Ending(Outcome.LOST, "the machine was restarted")
        return Ending(
            Outcome.KILLED,
            "the process that watches over it ended without a word: killed, or the disk is full",
        )
    if adopted:
        return NEVER_STARTED
    said = tail(folder.supervisor_log())
    return Ending(Outcome.CRASHED, f"its supervisor did not start: {said or 'it said nothing'}")


def _failure(folder: JobFolder, records: Sequence[ExitRecord]) -> Ending:
    """What made it fail: its first rank that failed, unless somebody has killed one of them.

    When one rank is killed the others fail too, some of them before the supervisor notices.
    """
    unwatched = next((record.unwatched for record in records if record.unwatched), None)
    if unwatched is not None:
        return Ending(Outcome.KILLED, unwatched)
    if not any(record.codes for record in records):
        return Ending(Outcome.CRASHED, "it ended before its ranks were started")
    starved = any(record.out_of_memory for record in records)
    first = sorted(records, key=lambda record: record.ended)
    failed = [(rank, code) for record in first for rank, code in record.failed.items() if code]
    if not failed:
        return Ending(Outcome.CRASHED, "its record does not say which rank failed")
    killed = [(rank, code) for rank, code in failed if -code in _SENT_BY_OTHERS and not starved]
    outcome = Outcome.KILLED if killed else Outcome.CRASHED
    # An exit code may be the answer to a peer's death; a signal is what it died of.
    rank, code = min(killed or failed, key=lambda item: item[1] > 0)
    return Ending(outcome, _describe(folder, rank, code, starved))


def _describe(folder: JobFolder, rank: int, code: int, starved: bool) -> str:
    how = f"exited with code {code}" if code > 0 else f"was killed by {_signal_name(-code)}"
    if starved and -code == signal.SIGKILL:
        how += " when memory ran out"
    said = tail(folder.log(rank))
    return f"rank {rank} {how}" + (f"; its last lines:\n{said}" if said else "; it wrote nothing")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

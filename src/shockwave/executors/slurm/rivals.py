"""Jobs of others that wait in Slurm's queue, and where they would get GPUs before we do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shockwave.executors.gangs.launch_name import LaunchName
from shockwave.executors.slurm.nodes import SlurmNode
from shockwave.executors.slurm.partitions import SlurmPartition

RIVAL_FORMAT = "%A|%Q|%P|%r|%k"  # number, priority, partitions, reason, comment
_FIELDS = RIVAL_FORMAT.count("|") + 1
# A job that waits for anything else does not wait for nodes.
_WAITS_FOR_NODES = ("None", "Resources", "Priority", "ReqNodeNotAvail", "(null)", "")


@dataclass(frozen=True, slots=True)
class Rival:
    """A job of somebody else that starts as soon as Slurm finds nodes for it."""

    number: int
    priority: int
    partitions: frozenset[str]


def read_rivals(text: str, site: str) -> tuple[Rival, ...]:
    """The answer to ``squeue --states=PENDING --format=RIVAL_FORMAT``, without our own jobs.

    >>> read_rivals("7|100|gpus|Priority|(null)", "0a")
    (Rival(number=7, priority=100, partitions=frozenset({'gpus'})),)
    """
    rivals = []
    for line in text.splitlines():
        fields = line.split("|", _FIELDS - 1)
        if len(fields) < _FIELDS or not (fields[0].isdigit() and fields[1].isdigit()):
            continue
        number, priority, partitions, reason, comment = fields
        name = LaunchName.read(comment)
        holds = comment.startswith(f"shockwave-holder/{site}/")
        ours = holds or (name is not None and name.site == site)
        if not ours and reason.split(",")[0].split("(")[0].strip() in _WAITS_FOR_NODES:
            rivals.append(Rival(int(number), int(priority), frozenset(partitions.split(","))))
    return tuple(rivals)


def contested_nodes(
    nodes: Iterable[SlurmNode],
    rivals: Iterable[Rival],
    partitions: Mapping[str, SlurmPartition],
    *,
    ours: Iterable[str],
    our_priority: int | None,
) -> frozenset[str]:
    """Nodes on which a rival would get what we give up.

    ``ours`` are the partitions that we submit to. ``our_priority`` is what a job of ours would
    have; None if any job that waits already goes before it.
    """
    our_tier = max((partitions[name].tier for name in ours if name in partitions), default=1)
    ahead: set[str] = set()
    for rival in rivals:
        for name in rival.partitions:
            tier = partitions[name].tier if name in partitions else 1
            behind = our_priority is not None and rival.priority < our_priority
            if tier > our_tier or (tier == our_tier and not behind):
                ahead.add(name)
    return frozenset(node.name for node in nodes if node.partitions & ahead)

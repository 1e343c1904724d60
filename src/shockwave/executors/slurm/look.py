"""One look at Slurm: our jobs and all nodes, and from both what others hold.

Partitions, and the jobs of others that wait, change less often and are asked for less often.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from shockwave.executors.gangs.launch_name import LaunchName
from shockwave.executors.slurm.client import SlurmClient
from shockwave.executors.slurm.jobs import SlurmJob
from shockwave.executors.slurm.nodes import SlurmNode
from shockwave.executors.slurm.partitions import SlurmPartition
from shockwave.executors.slurm.rivals import Rival

_PARTITIONS_SECONDS = 15.0
_RIVALS_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class PerGpu:
    """What a gang takes of a node with every GPU; 0 where nobody says."""

    cpus: int = 0
    memory_mb: int = 0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is asked for less often; when it was, by the monotonic clock."""

    partitions: Mapping[str, SlurmPartition] = field(default_factory=dict)
    partitions_at: float = -_PARTITIONS_SECONDS
    rivals: tuple[Rival, ...] = ()
    rivals_at: float = -_RIVALS_SECONDS

    def again(self, client: SlurmClient, site: str, now: float) -> Surroundings:
        partitions, partitions_at = self.partitions, self.partitions_at
        rivals, rivals_at = self.rivals, self.rivals_at
        if now - partitions_at >= _PARTITIONS_SECONDS:
            partitions, partitions_at = client.partitions(), now
        if now - rivals_at >= _RIVALS_SECONDS:
            rivals, rivals_at = client.rivals(site), now
        return Surroundings(partitions, partitions_at, rivals, rivals_at)


@dataclass(frozen=True, slots=True)
class SlurmLook:
    """``began`` (monotonic) is when Slurm was asked: it cannot know what came later."""

    began: float
    jobs: Mapping[LaunchName, tuple[SlurmJob, ...]]
    nodes: Mapping[str, SlurmNode]
    ours: Mapping[str, int] = field(default_factory=dict)  # GPUs of a node that our gangs hold
    occupied: Mapping[str, int] = field(default_factory=dict)  # that others hold, or block
    around: Surroundings = field(default_factory=Surroundings)
    others: tuple[SlurmJob, ...] = ()  # those that are no launches of ours

    @property
    def partitions(self) -> Mapping[str, SlurmPartition]:
        return self.around.partitions

    @property
    def newest_priority(self) -> int | None:
        """Of the job that we submitted last, as far as Slurm remembers."""
        jobs = [job for launch in self.jobs.values() for job in launch if job.priority > 0]
        return max(jobs, key=lambda job: job.number).priority if jobs else None


def look(
    client: SlurmClient,
    site: str,
    last: SlurmLook | None,
    *,
    per_gpu: PerGpu,
    is_ours: Callable[[LaunchName, int], bool] = lambda name, uid: True,
    phantoms: AbstractSet[LaunchName] = frozenset(),
) -> SlurmLook:
    """Asks for nodes first, so that a node that is down has taken its jobs along.

    What a node uses and what we use of it are two answers. Where we used something else the
    last time, a job may have ended or begun between the two, and the node is asked again. What
    ``phantoms`` hold is as good as others', and so is a GPU whose processors or memory are gone.
    ``is_ours`` says whether a launch by that name may run as the user with that number: anybody
    can give a job of theirs the name of another.
    """
    began = time.monotonic()
    nodes = client.nodes()
    all_jobs = client.jobs()
    jobs = _by_name(all_jobs, site, is_ours)
    ours = held(jobs, phantoms)
    before = Counter[str]() if last is None else Counter(last.ours)
    changed = {name for name in ours.keys() | before.keys() if ours[name] != before[name]}
    again = {node.name: node for node in client.nodes()} if changed else {}
    newest = [again.get(node.name, node) if node.name in changed else node for node in nodes]
    around = Surroundings() if last is None else last.around
    return SlurmLook(
        began,
        jobs,
        {node.name: node for node in nodes},
        ours,
        {
            node.name: max(node.gpus_used - ours[node.name], 0)
            + node.blocked_gpus(per_gpu.cpus, per_gpu.memory_mb)
            for node in newest
        },
        around.again(client, site, began),
        tuple(job for job in all_jobs if LaunchName.read(job.comment) is None),
    )


def held(
    launches: Mapping[LaunchName, Sequence[SlurmJob]],
    without: AbstractSet[LaunchName] = frozenset(),
) -> Counter[str]:
    """GPUs by node that these hold."""
    gpus = Counter[str]()
    for name, launch in launches.items():
        for job in launch if name not in without else ():
            if job.holds_gpus:
                gpus.update(dict.fromkeys(job.nodes, job.gpus_per_node))
    return gpus


def _by_name(
    jobs: Iterable[SlurmJob], site: str, is_ours: Callable[[LaunchName, int], bool]
) -> dict[LaunchName, tuple[SlurmJob, ...]]:
    found: dict[LaunchName, tuple[SlurmJob, ...]] = {}
    for job in jobs:
        name = LaunchName.read(job.comment)
        if name is not None and name.site == site and is_ours(name, job.uid):
            found[name] = (*found.get(name, ()), job)
    return found

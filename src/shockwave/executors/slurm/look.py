"""One look at Slurm: our jobs and all nodes, and from both what others hold."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from shockwave.executors.gangs.launch_name import LaunchName
from shockwave.executors.slurm.client import SlurmClient
from shockwave.executors.slurm.jobs import SlurmJob
from shockwave.executors.slurm.nodes import SlurmNode


@dataclass(frozen=True, slots=True)
class SlurmLook:
    """``began`` (monotonic) is when Slurm was asked: it cannot know what came later."""

    began: float
    jobs: Mapping[LaunchName, tuple[SlurmJob, ...]]
    nodes: Mapping[str, SlurmNode]
    occupied: Mapping[str, int] = field(default_factory=dict)  # GPUs of a node that others hold


def look(client: SlurmClient, site: str, last: SlurmLook | None) -> SlurmLook:
    """Asks for nodes first, so that a node that is down has taken its jobs along.

    What a node uses and what we use of it are two answers. Where we used something else the
    last time, a job may have ended or begun between the two, and the node is asked again.
    """
    began = time.monotonic()
    nodes = client.nodes()
    jobs = _by_name(client.jobs(), site)
    ours = held(jobs.values())
    before = Counter[str]() if last is None else held(last.jobs.values())
    changed = {name for name in ours.keys() | before.keys() if ours[name] != before[name]}
    again = {node.name: node for node in client.nodes()} if changed else {}
    newest = [again.get(node.name, node) if node.name in changed else node for node in nodes]
    return SlurmLook(
        began,
        jobs,
        {node.name: node for node in nodes},
        {node.name: max(node.gpus_used - ours[node.name], 0) for node in newest},
    )


def held(launches: Iterable[Sequence[SlurmJob]]) -> Counter[str]:
    """GPUs by node that these hold."""
    gpus = Counter[str]()
    for launch in launches:
        for job in launch:
            if job.holds_gpus:
                gpus.update(dict.fromkeys(job.nodes, job.gpus_per_node))
    return gpus


def _by_name(jobs: Iterable[SlurmJob], site: str) -> dict[LaunchName, tuple[SlurmJob, ...]]:
    found: dict[LaunchName, tuple[SlurmJob, ...]] = {}
    for job in jobs:
        name = LaunchName.read(job.comment)
        if name is not None and name.site == site:
            found[name] = (*found.get(name, ()), job)
    return found

"""What is submitted for a gang: arguments of ``sbatch``, and the script in them.

A gang on one node is one script that becomes the supervisor. On several nodes ``srun`` starts
a supervisor on each. Where the nodes give different numbers of GPUs, the job is heterogeneous:
a component for each number, started together or not at all.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from shockwave.executors.gangs.errors import LaunchError
from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.launch import supervisor_argv
from shockwave.executors.gangs.launch_name import LaunchName
from shockwave.model.events import Placement
from shockwave.protocol.names import file_name

OPTIONS = (
    "partition", "account", "qos", "constraint", "reservation", "time", "cpus_per_gpu",
    "mem_per_gpu", "exclude", "exclusive", "gpu_type", "licenses", "extra",
)  # fmt: skip
# Ranks are told who they are as by torchrun. Frameworks that see these would believe Slurm.
_MISLEADING = (
    "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE",
    "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS",
    "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE",
)  # fmt: skip
FORGET = f"unset {' '.join(_MISLEADING)}"
_SRUN = (
    "srun", "--ntasks-per-node=1", "--mpi=none", "--cpu-bind=none", "--input=none",
    "--kill-on-bad-exit=0", "--wait=0",
)  # fmt: skip
_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class Submission:
    """One gang as Slurm is to start it. ``options`` are the user's, by the names in OPTIONS."""

    name: LaunchName
    job: str
    folder: JobFolder
    placement: Placement
    python: str
    source: Path  # of the supervisor
    options: Mapping[str, str] = field(default_factory=dict)

    def arguments(self) -> list[str]:
        """Raises :class:`LaunchError` if an option is unknown."""
        common = self._common()
        components = self._components()
        arguments: list[str] = []
        kind = f"{self.options['gpu_type']}:" if "gpu_type" in self.options else ""
        for gpus, nodes in components.items():
            arguments += [*([":"] if arguments else []), *common]
            arguments += [f"--nodelist={','.join(nodes)}", f"--nodes={len(nodes)}"]
            arguments += [
                f"--gres=gpu:{kind}{gpus}",
                f"--output={literal(self.folder.supervisor_log())}",
            ]
        # Only the script of the first component is run.
        position = arguments.index(":") if ":" in arguments else len(arguments)
        script = f"--wrap={self._script(len(components))}"
        return [*arguments[:position], script, *arguments[position:]]

    def _common(self) -> list[str]:
        unknown = sorted(set(self.options) - set(OPTIONS))
        if unknown:
            raise LaunchError(f"no option for Slurm: {', '.join(unknown)}")
        return [
            "--no-requeue",  # whether and where it starts again is decided by us
            f"--job-name={file_name(self.job)[:_LONGEST_NAME]}",
            f"--comment={self.name}",
            f"--chdir={self.folder.path}",
            "--open-mode=truncate",
            "--ntasks-per-node=1",
            *option_arguments(self.options),
        ]

    def _components(self) -> dict[int, list[str]]:
        """Nodes by how many GPUs they give; the first node of the gang is in the first."""
        components: dict[int, list[str]] = {}
        for node, slots in self.placement:
            components.setdefault(len(slots), []).append(node)
        return components

    def _script(self, components: int) -> str:
        *program, _ = supervisor_argv(
            self.folder, self.name.generation, self.source, python=self.python
        )
        if len(self.placement) == 1:
            return f"{FORGET}; exec {shlex.join(program)} 0"
        which = " ".join(
            f"{shlex.quote(node)}) part={part};;" for part, (node, _) in enumerate(self.placement)
        )
        part = f"case $SLURMD_NODENAME in {which} esac"
        on_node = f'{FORGET}; {part}; exec {shlex.join(program)} "$part"'
        groups = [] if components == 1 else [f"--het-group=0-{components - 1}"]
        return f"exec {shlex.join([*_SRUN, *groups, '/bin/sh', '-c', on_node])}"


def option_arguments(options: Mapping[str, str]) -> list[str]:
    """The user's options as ``sbatch`` takes them, without the kind of GPU.

    >>> option_arguments({"partition": "a", "exclusive": "True", "extra": "nice=5,signal=USR1"})
    ['--partition=a', '--exclusive', '--nice=5', '--signal=USR1']
    """
    arguments = []
    for name, value in options.items():
        if name == "exclusive":
            arguments += ["--exclusive"] if value == "True" else []
        elif name == "extra":
            arguments += [f"--{option}" for option in value.split(",")]
        elif name != "gpu_type":
            arguments.append(f"--{name.replace('_', '-')}={value}")
    return arguments


def literal(path: Path) -> str:
    """As a file name of Slurm's, in which a percent sign begins a pattern."""
    return str(path).replace("%", "%%")

"""The flags of ``serve`` and ``config``: each overrides one setting."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="TOML file with settings. Default: ./shockwave.toml, if any."),
]
StateDir = Annotated[
    Path | None, typer.Option(help="Where everything is kept, jobs and their logs included.")
]
DatabaseUrl = Annotated[
    str | None, typer.Option(help="postgresql://... Default: SQLite in the state directory.")
]
Host = Annotated[str | None, typer.Option(help="Address to listen on. Default: 127.0.0.1.")]
Port = Annotated[int | None, typer.Option(help="Port to listen on; 0 for any free one.")]
PolicyName = Annotated[str | None, typer.Option("--policy", "-p", help="Who decides.")]
PredictorName = Annotated[
    str | None, typer.Option("--predictor", help="Default: the one meant for the policy.")
]
RoundSeconds = Annotated[
    float | None, typer.Option("--round-seconds", "--round", help="Seconds a round lasts.")
]
RestartSeconds = Annotated[
    float | None,
    typer.Option("--restart-seconds", "--restart", help="Seconds that a start costs a job."),
]
ExecutorName = Annotated[
    str | None, typer.Option("--executor", help="Where jobs run. Default: local.")
]
GpuSlots = Annotated[int | None, typer.Option("--slots", help="GPU slots of this machine.")]
GpusPerNode = Annotated[
    int | None, typer.Option(help="Emulate several nodes with this many slots each.")
]
GraceSeconds = Annotated[
    float | None, typer.Option(help="Seconds that a job has to save before it is killed.")
]
StartSeconds = Annotated[
    float | None,
    typer.Option(help="Seconds that Slurm or Ray may take to start a job. Default: 60."),
]
RayAddress = Annotated[
    str | None,
    typer.Option(help="HOST:PORT of a Ray cluster. Default: one of its own, with --slots GPUs."),
]
SlurmPartition = Annotated[
    str | None, typer.Option(help="Slurm partition of jobs that name none. Likewise:")
]
SlurmAccount = Annotated[str | None, typer.Option(help="Slurm account.")]
SlurmQos = Annotated[str | None, typer.Option(help="Slurm quality of service.")]
SlurmConstraint = Annotated[str | None, typer.Option(help="Slurm features of nodes.")]
SlurmCpusPerGpu = Annotated[
    int | None, typer.Option(help="Processors that Slurm gives with every GPU.")
]
SlurmMemPerGpu = Annotated[
    str | None, typer.Option(help="Memory that Slurm gives with every GPU, such as 16G.")
]
SlurmPython = Annotated[
    str | None, typer.Option(help="Python 3.11 or newer on the nodes of Slurm.")
]
StopJobs = Annotated[
    bool | None,
    typer.Option(
        "--stop-jobs/--keep-jobs",
        help="At shutdown: stop running jobs, or leave them to the next start (the default).",
    ),
]

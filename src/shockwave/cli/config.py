"""``shockwave config``: which settings are in force, and where each came from."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from shockwave.cli.console import one_line_errors
from shockwave.cli.serve_options import (
    ConfigFile,
    DatabaseUrl,
    ExecutorName,
    GpuSlots,
    GpusPerNode,
    GraceSeconds,
    Host,
    PolicyName,
    Port,
    PredictorName,
    RayAddress,
    RestartSeconds,
    RoundSeconds,
    SlurmAccount,
    SlurmConstraint,
    SlurmCpusPerGpu,
    SlurmMemPerGpu,
    SlurmPartition,
    SlurmPython,
    SlurmQos,
    StartSeconds,
    StateDir,
    StopJobs,
)


def config(
    config: ConfigFile = None,
    state_dir: StateDir = None,
    database_url: DatabaseUrl = None,
    host: Host = None,
    port: Port = None,
    policy: PolicyName = None,
    predictor: PredictorName = None,
    round_seconds: RoundSeconds = None,
    restart_seconds: RestartSeconds = None,
    executor: ExecutorName = None,
    slots: GpuSlots = None,
    gpus_per_node: GpusPerNode = None,
    grace_seconds: GraceSeconds = None,
    start_seconds: StartSeconds = None,
    ray_address: RayAddress = None,
    slurm_partition: SlurmPartition = None,
    slurm_account: SlurmAccount = None,
    slurm_qos: SlurmQos = None,
    slurm_constraint: SlurmConstraint = None,
    slurm_cpus_per_gpu: SlurmCpusPerGpu = None,
    slurm_mem_per_gpu: SlurmMemPerGpu = None,
    slurm_python: SlurmPython = None,
    stop_jobs: StopJobs = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Print the settings that ``serve`` would use with the same flags, as TOML."""
    flags = dict(locals())
    file = flags.pop("config")
    flags.pop("as_json")
    with one_line_errors():
        from shockwave.server.config import load_config

        effective = load_config(file, flags=flags)
        if as_json:
            values = effective.config.model_dump(mode="json")
            values["token"] = None if effective.config.token is None else "set, and not shown"
            document = {"settings": values, "sources": dict(effective.sources)}
            typer.echo(json.dumps(document, indent=1))
        else:
            typer.echo(effective.to_toml(), nl=False)

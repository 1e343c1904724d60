"""Gangs as jobs of a Slurm cluster."""

from shockwave.executors.slurm.executor import SlurmExecutor

__all__ = ["SlurmExecutor"]

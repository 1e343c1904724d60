"""Gangs as real processes on this machine."""

from shockwave.executors.local.executor import LocalExecutor
from shockwave.executors.local.gangs import GangSettings

__all__ = ["GangSettings", "LocalExecutor"]

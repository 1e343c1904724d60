"""Gangs as real processes on this machine."""

from shockwave.executors.gangs.launch import GangSettings
from shockwave.executors.local.executor import LocalExecutor

__all__ = ["GangSettings", "LocalExecutor"]

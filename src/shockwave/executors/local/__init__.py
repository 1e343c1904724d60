"""Gangs as real processes on this machine."""

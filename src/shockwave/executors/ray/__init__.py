"""Gangs on a Ray cluster: ``executor`` has the executor.

Nothing is imported here, because the bridge to Ray is a program of its own that has to start
fast and needs nothing of the scheduler.
"""

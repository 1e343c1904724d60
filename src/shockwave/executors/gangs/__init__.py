"""Gangs of real processes, whatever engine starts them.

Job and scheduler speak through files in the job's folder, and a small supervisor on every node
runs the ranks there. What an engine (this machine, Slurm, Ray) adds is how supervisors are
started and ended, and which nodes there are.
"""

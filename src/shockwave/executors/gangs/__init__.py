"""Gangs of real processes, whatever backend starts them.

Job and scheduler speak through files in the job's folder (:mod:`shockwave.protocol`), and a
small supervisor on every node runs the ranks there. What a backend (this machine, Slurm, Ray)
adds is how supervisors are started and ended, and which nodes there are.
"""

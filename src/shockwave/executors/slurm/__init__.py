"""Gangs as jobs of a Slurm cluster."""

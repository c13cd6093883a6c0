"""Launchers beyond this machine: SLURM and its stand-in by submitit, Ray; each an extra that is imported when used."""

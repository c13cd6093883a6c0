"""Launchers start commands: as processes of this machine, as SLURM jobs by submitit, or as Ray tasks."""

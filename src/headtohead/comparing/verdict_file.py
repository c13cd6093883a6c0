"""Where the folder of a study has its verdicts; read by what must import nothing else."""

from __future__ import annotations

FILE = "verdict.json"

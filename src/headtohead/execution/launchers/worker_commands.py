"""The command of a worker: the one that was typed, or its like for a request from Python, with what makes it a
worker."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headtohead.execution.claims.choice import choose_claims
from headtohead.execution.launchers.launcher import Command, Launcher
from headtohead.execution.launchers.launcher_choice import launcher_choice
from headtohead.execution.run_spec import WorkPlan

PROGRAM = (sys.executable, "-c", "import sys; from headtohead.cli import main; sys.exit(main())")


@dataclass(frozen=True)
class Workers:
    """Workers say how many runs are made at once, and where."""

    launcher: Launcher
    number: int
    threads: int
    """Of the processor, for each run."""
    config_dir: str | Path | None = None
    trust: Sequence[str] = ()

    def commands(
        self, arguments: Sequence[str], plan: WorkPlan, *, devices: int, most: int | None = None
    ) -> list[Command]:
        """Return the same command for every worker, except for its log below the plan's folder; there are no more
        workers than `most`, and no run takes more than `devices`."""
        choose_claims(plan.folder, self.launcher.claims)
        where = ("--config-dir", str(self.config_dir)) if self.config_dir else ()
        parent = ("--parent", str(os.getpid())) if self.launcher.is_parent else ()
        trusted = (word for name in self.trust for word in ("--trust", name))
        whole = (*PROGRAM, *arguments, "--worker", "--threads", str(self.threads), *parent, *where, *trusted)
        number, call = self.number if most is None else min(most, self.number), secrets.token_hex(4)
        logs = [plan.folder / "logs" / f"worker-{call}-{worker}.log" for worker in range(number)]
        return [Command(whole, log, self.threads, devices) for log in logs]


def workers_for(
    overrides: Sequence[str],
    number: int = 1,
    threads: int | None = None,
    config_dir: str | Path | None = None,
    trust: Sequence[str] = (),
) -> tuple[Workers, list[str]]:
    """Return the workers, whose launcher the overrides may choose (launcher=slurm), and the overrides of the runs."""
    chosen = launcher_choice(overrides)
    launcher = chosen.make(config_dir)
    number = chosen.workers or number
    return Workers(launcher, number, threads or launcher.threads(number), config_dir, tuple(trust)), list(
        chosen.of_runs
    )

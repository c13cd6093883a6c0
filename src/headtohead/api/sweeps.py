"""W&B's sweep files from Python: run here or resumed, the trials as a frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headtohead.api.error_translation import python_errors_with
from headtohead.api.progress import Report, progress_of_runs
from headtohead.api.result import Result
from headtohead.config.trust import trusting
from headtohead.execution.launchers.launcher import EndedCommand, errors_of
from headtohead.execution.launchers.worker_commands import Workers, workers_for
from headtohead.execution.monitor import Monitor, run_to_the_end
from headtohead.ranges import Count, Threads
from headtohead.sweeps.read_sweep_file import read_sweep
from headtohead.sweeps.sweep import Outcome
from headtohead.sweeps.sweep_plan import Sweeper, SweepPlan, SweptRun
from headtohead.sweeps.sweep_report import failed_trials, ranked, summary, write_page


@dataclass(frozen=True)
class SweepResults(Result):
    """The trials of a sweep, a row for each, the best first."""

    plan: SweepPlan
    """The trials of the sweep: what is done, and what remains."""
    command: str
    """Resumes the sweep."""
    errors: Sequence[str] = ()
    """The last words of workers that ended with an error."""
    __repr__ = Result.__repr__

    @property
    def title(self) -> str:
        return f"{self.plan.sweep.name}: {next(iter(summary(self.plan)))}"

    @property
    def sentences(self) -> Sequence[str]:
        """Return what went wrong: which trials have no value and why, and workers that ended with an error."""
        return [*self.errors, *failed_trials(self.plan)]

    @property
    def ranked(self) -> list[tuple[SweptRun, Outcome | None]]:
        """Return the trials with how they ended, the best first."""
        return ranked(self.plan)

    @property
    def best(self) -> SweptRun | None:
        """Return the best trial; None while none has ended with a value."""
        trial, outcome = self.ranked[0]
        return trial if outcome is not None and outcome.value is not None else None

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        return [
            {
                "trial": trial.number,
                **trial.setting.values,
                self.plan.sweep.metric: None if outcome is None else outcome.value,
                "steps": None if outcome is None else outcome.step,
                "status": "not done" if outcome is None else outcome.status,
            }
            for trial, outcome in self.ranked
        ]

    def report(self) -> Path:
        """Write sweep.html beside the runs: the trials, and parallel coordinates."""
        return write_page(self.plan, self.command)


def conduct(sweeper: Sweeper, workers: Workers, arguments: Sequence[str], report: Report) -> list[EndedCommand]:
    """Do what is missing of a sweep; raise KeyboardInterrupt where somebody stops it, and what is done is kept."""
    plan = sweeper.plan
    monitor = Monitor(plan, plan.runs, again=sweeper.again)
    missing = sum(not standing.is_done for standing in monitor.update())
    most = None if plan.is_open else missing
    commands = workers.commands(arguments, plan, plan.runs, most=most)
    return run_to_the_end(monitor, workers.launcher, commands, report)


@python_errors_with(plan="run=False")
def sweep(
    file: str | Path,
    overrides: Sequence[str] = (),
    *,
    run_cap: Count | None = None,
    workers: Threads = 1,
    threads: Threads | None = None,
    config_dir: str | Path | None = None,
    trust: Sequence[str] = (),
    progress: bool = True,
    run: bool = True,
) -> SweepResults:
    """Run or resume the trials of a W&B sweep file here, without account or network: `sweep("sweeps/schedules.yaml")`.

    Overrides are for every trial, or of the launcher. Ctrl-C stops it, and returns what is known; the same call
    resumes. With `run=False` nothing is run: the trials are those that would be. `h2h sweep FILE --wandb` lets W&B's
    server say what is tried.
    """
    with trusting(trust):
        many, run_overrides = workers_for(overrides, workers, threads, config_dir, trust)
        known = read_sweep(str(file), run_overrides, run_cap)
        sweeper = Sweeper(known, config_dir or known.config_dir)
        cap = ("--run-cap", str(run_cap)) if run_cap else ()
        arguments = ("sweep", str(file), *run_overrides, *cap)
        command = " ".join(("h2h", *arguments))
        if not run:
            return SweepResults(sweeper.plan, command)
        try:
            with progress_of_runs(lambda _: sweeper.plan.num_runs, shown=progress) as report:
                ended = conduct(sweeper, many, arguments, report)
        except KeyboardInterrupt:
            ended = []
        results = SweepResults(sweeper.again()[0], command, errors_of(ended))
        results.report()
        return results

"""`h2h sweep FILE [OVERRIDE ...]`: the trials of a W&B sweep file, run here without account or network."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headtohead.cli.forked_workers import fork_workers, set_threads
from headtohead.cli.options import (
    INTERRUPTED,
    Parser,
    add_workers,
    command_parser,
    parse,
    progress,
    take_workers,
    within,
)
from headtohead.cli.terminal import error_line, note, show_table
from headtohead.config.errors import ConfigurationError
from headtohead.config.run_config import RunConfig
from headtohead.ranges import Count

if TYPE_CHECKING:
    from headtohead.execution.launchers.launcher import Launcher
    from headtohead.execution.launchers.worker_commands import Workers
    from headtohead.sweeps.sweep import Sweep
    from headtohead.sweeps.sweep_plan import Sweeper, SweepPlan
    from headtohead.wandb_client.registered_sweeps import RegisteredSweep


def run_agents(
    options: argparse.Namespace, sweep: Sweep, launcher: Launcher, report: Callable[[SweepPlan], int]
) -> int:
    """Return the exit code, which `notes` knows once it has shown the trials."""
    from headtohead.execution.launchers.launcher import Command, errors_of
    from headtohead.execution.monitor import run_to_the_end
    from headtohead.sweeps.agent_runs import AgentMonitor, first_run
    from headtohead.sweeps.sweep_report import write_page
    from headtohead.wandb_client.registered_sweeps import check_server

    check_server()
    config = first_run(sweep, options.config_dir)
    registered = _joined(options.join) if options.join else _registered(options, sweep, RunConfig(config).tracking)
    agents = AgentMonitor(sweep, registered, config)
    agents.folder.mkdir(parents=True, exist_ok=True)
    note(f"sweep {registered.path}: {registered.url}")
    note(f"more agents, on any machine that is logged in: wandb agent {registered.path}")
    _prepare_environment(agents.folder)
    logs = [agents.folder / "logs" / f"agent-{os.getpid()}-{number}.log" for number in range(options.workers)]
    commands = [Command(registered.agent_command, log, options.threads) for log in logs]
    try:
        with progress(lambda _: agents.num_runs) as show_progress:
            ended = run_to_the_end(agents, launcher, commands, show_progress)
    except KeyboardInterrupt:
        note(f"interrupted; {_again(options, registered)} resumes the sweep")
        return INTERRUPTED
    for sentence in errors_of(ended, "an agent"):
        error_line(sentence)
    plan = agents.now()
    logs_folder = os.path.relpath(agents.folder / "logs")
    if refused := agents.num_unrecorded():
        error_line(f"{refused} of the settings could not be run: {logs_folder} says why")
    if not plan.trials:
        error_line(f"no agent here has trained a run: see {registered.url} and {logs_folder}")
        return 1
    note(os.path.relpath(write_page(plan, _again(options, registered))))
    return max(report(plan), 1 if refused else 0)


def _registered(options: argparse.Namespace, sweep: Sweep, tracking: Mapping[str, str | None]) -> RegisteredSweep:
    from headtohead.sweeps.agent_runs import for_server
    from headtohead.wandb_client.connection import TrackingSettings, entity_of, project_of
    from headtohead.wandb_client.registered_sweeps import register

    content = for_server(options.file, sweep, options.overrides, options.config_dir)
    typed = TrackingSettings(project=tracking["project"], entity=tracking["entity"])
    project, entity = content.get("project") or project_of(typed), content.get("entity") or entity_of(typed)
    return register(content, project=project, entity=entity)


def _joined(path: str) -> RegisteredSweep:
    from headtohead.wandb_client.registered_sweeps import RegisteredSweep

    parts = path.split("/")
    if len(parts) != 3 or not all(parts):
        raise ConfigurationError(f"--join {path} is not a sweep: write ENTITY/PROJECT/SWEEP, as `wandb sweep` says it")
    return RegisteredSweep(*parts)


def _prepare_environment(folder: Path) -> None:
    """Agents find `h2h` where this one is and the same server, and leave their notes in the sweep's folder."""
    from headtohead.wandb_client.connection import server_url

    os.environ["WANDB_BASE_URL"] = server_url()
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    os.environ["WANDB_DIR"] = str(folder)


def _again(options: argparse.Namespace, registered: RegisteredSweep) -> str:
    return f"h2h sweep {shlex.join((options.file, *options.overrides))} --wandb --join {registered.path}"


_EXAMPLES = """\
examples:
  h2h sweep sweeps/positions_and_norms.yaml --plan       what would be tried
  h2h sweep sweeps/positions_and_norms.yaml              run or resume it, and report the results
  h2h sweep sweeps/schedules.yaml --workers 2            two trials at once; more workers may join from other machines
                                                         that share the folder, by the same command
  h2h sweep sweeps/schedules.yaml --workers 8 launcher=slurm
                                                         workers, or with --wandb agents, as jobs of SLURM
  h2h sweep sweeps/schedules.yaml data=copy seed=1       overrides for every trial
  h2h sweep sweeps/mixers_and_widths.yaml --run-cap 12   fewer trials than the file says
  h2h sweep sweeps/schedules.yaml --wandb --workers 2    W&B's server chooses the trials, two local agents run them

The same files serve wandb sweep and wandb agent. Stop at any time: the next call resumes it. sweep.html and
the runs are in outputs/sweeps/NAME, NAME being the file's.

exit code: 0 every trial is done, 1 a trial failed, was skipped or is not done, 2 refused, 130 interrupted
"""


def run(arguments: Sequence[str]) -> int:
    options = parse(_parser(), arguments)
    if "=" in options.file:
        raise ConfigurationError(f"h2h sweep needs a file before {options.file}: h2h sweep sweeps/learning_rate.yaml")
    workers = take_workers(options)
    set_threads(workers)
    from headtohead.execution.launchers.worker_forks import threads_here
    from headtohead.sweeps.read_sweep_file import read_sweep
    from headtohead.sweeps.sweep_plan import Sweeper

    threads = threads_here()
    sweep = read_sweep(
        options.file, options.overrides, options.run_cap, searched_here=options.plan or not options.wandb
    )
    options.config_dir = options.config_dir or sweep.config_dir
    if options.wandb and not options.plan:
        if workers.launcher.runs_per_device is not None:
            raise ConfigurationError(
                f"launcher.runs_per_device={workers.launcher.runs_per_device} is for runs that are planned here, and "
                "W&B's server plans these: say with --workers how many agents there are"
            )
        return run_agents(options, sweep, workers.launcher, _report)
    if options.join:
        raise ConfigurationError(f"--join {options.join} is for a sweep of W&B's server: give --wandb too")
    sweeper = Sweeper(sweep, options.config_dir)
    if options.worker:
        return _work(options, sweeper)
    if options.plan:
        _show_plan(sweeper.plan)
        return 0
    fork_workers(workers, sweeper.plan, sweeper.plan.runs, partial(_worked, sweeper), threads)
    return _conducted(options, sweeper, workers)


def _parser() -> Parser:
    parser = command_parser(
        "sweep", "Run or resume a W&B sweep file, here or by W&B's server, and report the results.", _EXAMPLES
    )
    parser.add_argument("file", metavar="FILE", help="a sweep file, as wandb sweep takes it")
    parser.add_argument("overrides", nargs="*", default=[], metavar="OVERRIDE", help="for every trial")
    parser.add_argument("--plan", action="store_true", help="show what would be tried and stop")
    parser.add_argument("--run-cap", type=within(Count), metavar="N", help="trials at most, whatever the file says")
    parser.add_argument("--wandb", action="store_true", help="register it with W&B's server, and start agents here")
    parser.add_argument(
        "--join", metavar="SWEEP", help="with --wandb: agents for ENTITY/PROJECT/SWEEP, registered before"
    )
    add_workers(parser)
    parser.set_defaults(multirun=False)
    return parser


def _work(options: argparse.Namespace, sweeper: Sweeper) -> int:
    from headtohead.execution.worker import import_all

    import_all(sweeper.plan.runs)
    return _worked(sweeper, options.threads, options.parent)


def _worked(sweeper: Sweeper, threads: int | None, parent: int | None, command: int | None = None) -> int:
    from headtohead.execution.worker import Worker
    from headtohead.sweeps.sweep_plan import EarlyStopping

    plan, runs = sweeper.again()
    plan.folder.mkdir(parents=True, exist_ok=True)
    stops = EarlyStopping(sweeper)
    worker = Worker(plan, runs, threads=threads, parent=parent, command=command, again=sweeper.again, stops=stops)
    return 0 if worker.work() else INTERRUPTED


def _show_plan(plan: SweepPlan) -> None:
    from headtohead.sweeps.sweep_report import show_plan, show_trials

    show_table(show_plan(plan))
    show_table(show_trials(plan))


def _conducted(options: argparse.Namespace, sweeper: Sweeper, workers: Workers) -> int:
    from headtohead.api.sweeps import conduct
    from headtohead.execution.launchers.launcher import errors_of
    from headtohead.sweeps.sweep_report import summary, write_page

    for sentence in summary(sweeper.plan):
        note(sentence)
    cap = ("--run-cap", str(options.run_cap)) if options.run_cap else ()
    arguments = ("sweep", options.file, *options.overrides, *cap)
    try:
        with progress(lambda _: sweeper.plan.num_runs) as show_progress:
            ended = conduct(sweeper, workers, arguments, show_progress)
    except KeyboardInterrupt:
        note(f"interrupted; {_command(options)} resumes it")
        return INTERRUPTED
    for sentence in errors_of(ended):
        error_line(sentence)
    plan, _ = sweeper.again()
    note(os.path.relpath(write_page(plan, _command(options))))
    return _report(plan)


def _report(plan: SweepPlan) -> int:
    """Return the trials, what went wrong, and the best one; gives the exit code."""
    from headtohead.sweeps.sweep_report import failed_trials, ranked, show_trials

    show_table(show_trials(plan))
    rows = ranked(plan)
    for sentence in failed_trials(plan):
        error_line(sentence)
    best, outcome = rows[0]
    if outcome is not None and outcome.value is not None and best.run is not None:
        note(f"the best: {os.path.relpath(plan.run_folder(best.run))}")
        note(f"again: {best.command}")
    troubled = any(outcome is None or outcome.status in ("failed", "out of memory") for _, outcome in rows)
    skipped = plan.refused and plan.sweep.method != "bayes"
    return 1 if troubled or skipped or plan.is_open else 0


def _command(options: argparse.Namespace) -> str:
    return f"h2h sweep {shlex.join((options.file, *options.overrides))}"

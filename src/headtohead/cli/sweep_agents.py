"""`h2h sweep FILE --wandb`: the file registered with W&B's server, and agents here that work on it."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headtohead.cli.terminal import error_line, note
from headtohead.cli.worker_options import INTERRUPTED, progress
from headtohead.config.errors import ConfigurationError
from headtohead.config.run_config import RunConfig

if TYPE_CHECKING:
    from headtohead.execution.launchers.launcher import Launcher
    from headtohead.sweeps.sweep import Sweep
    from headtohead.sweeps.sweep_plan import SweepPlan
    from headtohead.wandb_client.registered_sweeps import RegisteredSweep


def run_agents(
    options: argparse.Namespace, sweep: Sweep, launcher: Launcher, report: Callable[[SweepPlan], int]
) -> int:
    """Return the exit code, which `notes` knows once it has shown the trials."""
    from headtohead.execution.launchers.launcher import Command
    from headtohead.execution.monitor import run_to_the_end
    from headtohead.sweeps.agent_runs import AgentMonitor, first_run
    from headtohead.sweeps.html_page import write_page
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
        note(f"interrupted; {_again(options, registered)} goes on with the sweep")
        return INTERRUPTED
    for agent in ended:
        if agent.code:
            error_line(f"an agent ended with code {agent.code} ({agent.command.log}): {agent.last_words}")
    plan = agents.now()
    logs_folder = os.path.relpath(agents.folder / "logs")
    if refused := agents.num_unrecorded():
        error_line(f"{refused} of the settings made no run: {logs_folder} says why")
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
        raise ConfigurationError(f"--join {path} is no sweep: write ENTITY/PROJECT/SWEEP, as `wandb sweep` says it")
    return RegisteredSweep(*parts)


def _prepare_environment(folder: Path) -> None:
    """Agents find `h2h` where this one is and the same server, and leave their notes in the sweep's folder."""
    from headtohead.wandb_client.connection import server_url

    os.environ["WANDB_BASE_URL"] = server_url()
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    os.environ["WANDB_DIR"] = str(folder)


def _again(options: argparse.Namespace, registered: RegisteredSweep) -> str:
    return f"h2h sweep {shlex.join((options.file, *options.overrides))} --wandb --join {registered.path}"

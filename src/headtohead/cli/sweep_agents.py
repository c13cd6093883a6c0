"""`h2h sweep FILE --wandb`: the file registered with W&B's server, and agents here that work on it."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headtohead.building.errors import ConfigurationError
from headtohead.cli.terminal import error_line, note
from headtohead.cli.working import INTERRUPTED, progress

if TYPE_CHECKING:
    from headtohead.studying.launcher import Launcher
    from headtohead.studying.sweeping.sweep import Sweep
    from headtohead.tracking.wandb_sweeps import RegisteredSweep


def run_agents(given: argparse.Namespace, sweep: Sweep, launcher: Launcher) -> int:
    from headtohead.cli.sweep import told
    from headtohead.studying.conducting import conduct
    from headtohead.studying.launcher import Command
    from headtohead.studying.sweeping.agents import Agents
    from headtohead.studying.sweeping.page import write_page
    from headtohead.studying.sweeping.registering import first_run
    from headtohead.tracking.wandb_sweeps import check_server

    check_server()
    config = first_run(sweep, given.config_dir)
    registered = _joined(given.join) if given.join else _registered(given, sweep, config["tracking"])
    agents = Agents(sweep, registered, config)
    agents.folder.mkdir(parents=True, exist_ok=True)
    note(f"sweep {registered.path}: {registered.url}")
    note(f"more agents, on any machine that is logged in: wandb agent {registered.path}")
    _prepare_environment(agents.folder)
    logs = [agents.folder / "logs" / f"agent-{os.getpid()}-{number}.log" for number in range(given.workers)]
    commands = [Command(registered.agent_command, log, given.threads) for log in logs]
    try:
        with progress(lambda _: agents.num_runs) as tell:
            ended = conduct(agents, launcher, commands, tell)
    except KeyboardInterrupt:
        note(f"interrupted; {_again(given, registered)} goes on with the sweep")
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
    note(os.path.relpath(write_page(plan, _again(given, registered))))
    return max(told(plan), 1 if refused else 0)


def _registered(given: argparse.Namespace, sweep: Sweep, tracking: dict[str, str | None]) -> RegisteredSweep:
    from headtohead.studying.sweeping.registering import for_server
    from headtohead.tracking.connection import TrackingSettings, entity_of, project_of
    from headtohead.tracking.wandb_sweeps import register

    content = for_server(given.file, sweep, given.overrides, given.config_dir)
    typed = TrackingSettings(project=tracking["project"], entity=tracking["entity"])
    project, entity = content.get("project") or project_of(typed), content.get("entity") or entity_of(typed)
    return register(content, project=project, entity=entity)


def _joined(path: str) -> RegisteredSweep:
    from headtohead.tracking.wandb_sweeps import RegisteredSweep

    parts = path.split("/")
    if len(parts) != 3 or not all(parts):
        raise ConfigurationError(f"--join {path} is no sweep: write ENTITY/PROJECT/SWEEP, as `wandb sweep` says it")
    return RegisteredSweep(*parts)


def _prepare_environment(folder: Path) -> None:
    """Agents find `h2h` where this one is and the same server, and leave their notes in the sweep's folder."""
    from headtohead.tracking.connection import server_url

    os.environ["WANDB_BASE_URL"] = server_url()
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    os.environ["WANDB_DIR"] = str(folder)


def _again(given: argparse.Namespace, registered: RegisteredSweep) -> str:
    return f"h2h sweep {shlex.join((given.file, *given.overrides))} --wandb --join {registered.path}"

"""Runs that W&B's agents have begun, as trials of their sweep: what each tried is read from its configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

from headtohead.comparison.analyses.trials import Setting, Value, written
from headtohead.config.compose.composition import compose_checked
from headtohead.config.compose.overrides import key_of
from headtohead.config.errors import ConfigurationError, show
from headtohead.config.run_config import RunConfig
from headtohead.execution.monitor import Monitor, RunStatus
from headtohead.execution.run_spec import RunSpec
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import DIED, scan, slug
from headtohead.sweeps.agent_overrides import GROUP
from headtohead.sweeps.parameters import check_metric, check_parameters, refuse_several_devices
from headtohead.sweeps.read_sweep_file import loaded
from headtohead.sweeps.sweep import Outcome, Sweep, outcome_of
from headtohead.sweeps.sweep_plan import Sweeper, SweepPlan, SweptRun
from headtohead.wandb_client.registered_sweeps import RegisteredSweep


@dataclass(frozen=True)
class StartedRun(SweptRun):
    """A trial that an agent began."""

    path: Path = Path()
    status: str = "running"
    share: float = 0.0
    """The share of its steps."""

    @property
    def command(self) -> str:
        return f"h2h train --from-run {os.path.relpath(self.path)}"


@dataclass(frozen=True)
class AgentsPlan(SweepPlan):
    """An agents' plan is what agents of one folder have done of a sweep."""

    runs_folder: Path = Path()
    method_words = "searched by W&B's server"

    def run_folder(self, run: RunSpec) -> Path:
        return self.runs_folder / run.id


class AgentMonitor(Monitor):
    """This monitor looks again and again at the runs that the agents of one folder have begun."""

    def __init__(self, sweep: Sweep, registered: RegisteredSweep, config: Mapping[str, object]) -> None:
        self._sweep, self._registered = sweep, registered
        outputs = Path(RunConfig(config).output_dir).absolute()
        named = RunConfig(config).group if any(key_of(text) == "group" for text in sweep.overrides()) else None
        self.runs_folder = outputs / slug(named or GROUP.format(registered.id))
        self.folder = outputs / "sweeps" / slug(f"{sweep.name}-{registered.id}")
        """The folder of their logs, and of the page."""

    def update(self) -> list[RunStatus]:
        return [
            RunStatus(trial.run, trial.status, trial.share, is_done=trial.status != "running")
            for trial in self.now().trials
            if isinstance(trial, StartedRun) and trial.run is not None
        ]

    @property
    def num_runs(self) -> int:
        """Return the most runs that may come, including those of other machines."""
        sizes = [len(entry.points or ()) for entry in self._sweep.swept.values()]
        caps = [prod(sizes)] if self._sweep.method == "grid" else []
        return min([*caps, *([self._sweep.run_cap] if self._sweep.run_cap else [])])

    def num_unrecorded(self) -> int:
        """Runs that were refused, or failed before they began."""
        recorded = {record.wandb.id for record in (scan(self.runs_folder) if self.runs_folder.is_dir() else [])}
        return len(self._registered.runs_started_below(self.folder) - recorded)

    def now(self) -> AgentsPlan:
        ours = self._registered.runs_started_below(self.folder)
        records = (
            [record for record in scan(self.runs_folder) if record.wandb.id in ours]
            if self.runs_folder.is_dir()
            else []
        )
        records.sort(key=lambda record: record.timing.started or "")
        trials = tuple(_trial(self._sweep, number, record) for number, record in enumerate(records))
        outcomes = {
            trial.number: _outcome(record, trial.path, self._sweep)
            for trial, record in zip(trials, records, strict=True)
            if record.status != "running"
        }
        return AgentsPlan(self._sweep, trials, self.folder, outcomes, runs_folder=self.runs_folder)


def _trial(sweep: Sweep, number: int, record: RunRecord) -> StartedRun:
    assert record.path is not None, "it was read from there"
    run = RunSpec(sweep.name, record.seed, (), record.config, record.id, trial=number)
    setting = Setting(tuple((key, _value(record.config, key)) for key in sweep.swept))
    share = 1.0 if record.status != "running" else record.progress.step / max(1, RunConfig(record.config).max_steps)
    return StartedRun(number, setting, run, path=record.path, status=record.status, share=share)


def _outcome(record: RunRecord, folder: Path, sweep: Sweep) -> Outcome:
    """Check whether the process died: then nobody ended the run."""
    outcome = outcome_of(record, folder, sweep)
    return replace(outcome, status="interrupted") if record.reason == DIED else outcome


def _value(config: Mapping[str, object], key: str) -> Value:
    """Return the run's value for the key, be it a group or a field."""
    choices = RunConfig(config).choices
    node: Any = choices if key in choices else config
    for name in [key] if node is choices else key.split("."):
        node = node.get(name) if isinstance(node, dict) else None
    return show(node) if isinstance(node, list | dict) else node


_OFFLINE = ("offline", "none")


def first_run(sweep: Sweep, config_dir: str | Path | None = None) -> Mapping[str, object]:
    """Return the configuration of one trial; raises ConfigurationError where some trial could not be."""
    if sweep.method == "bayes":  # what is tried, its search tells
        check_parameters(sweep, config_dir)
        setting = [f"{key}={written(entry.at(0.0))}" for key, entry in sweep.swept.items()]
        config: Mapping[str, Any] = compose_checked("train", sweep.overrides(*setting), config_dir)
        check_metric(sweep, [config])
    else:
        (config, *_) = (run.config for run in Sweeper(sweep, config_dir).plan.runs)
    refuse_several_devices(config)
    if (mode := RunConfig(config).choices["tracking"]) in _OFFLINE:
        raise ConfigurationError(
            f"tracking={mode} is refused with --wandb, since its server would see no run: leave one of them out"
        )
    return config


def for_server(
    file: str | Path, sweep: Sweep, overrides: Sequence[str], config_dir: str | Path | None = None
) -> dict[str, Any]:
    """Return what the server receives: the file, with the command-line overrides added to its command."""
    content = loaded(Path(file))
    where = ["--config-dir", str(config_dir)] if config_dir and str(config_dir) != sweep.config_dir else []
    content["command"] = [*content["command"], *where, *overrides]
    content.setdefault("name", sweep.name)
    return content if sweep.run_cap is None else {**content, "run_cap": sweep.run_cap}

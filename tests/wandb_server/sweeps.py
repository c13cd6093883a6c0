"""Sweeps as the server holds them: which settings agents are told to run, which runs to stop, and when to go."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle, product
from typing import Any

import yaml

from wandb_server.operations import ENTITY, Operation, Runs
from wandb_server.runs import ServedRun


@dataclass
class ServedSweep:
    """`options` is what each run was told, by its id; `hosts` the agents that came, by theirs."""

    id: str
    config: dict[str, Any]
    project: str
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    by_agent: dict[str, list[str]] = field(default_factory=dict)
    state: str = "RUNNING"
    """STOPPED and CANCELED are what somebody chose on its page: no more runs, or also none of those that train."""
    left: Iterator[dict[str, Any]] = field(init=False)

    def __post_init__(self) -> None:
        settings = _settings(self.config["parameters"])
        self.left = iter(list(settings) if self.config["method"] == "grid" else cycle(settings))

    def next_run(self, agent: str) -> dict[str, Any] | None:
        """Return None where the sweep is over."""
        cap = self.config.get("run_cap")
        setting = next(self.left, None)
        if setting is None or self.state != "RUNNING" or (cap is not None and len(self.options) >= cap):
            self.state = "FINISHED" if self.state == "RUNNING" else self.state
            return None
        run = f"{self.id}-{len(self.options)}"
        self.options[run] = setting
        self.by_agent.setdefault(agent, []).append(run)
        arguments = {key: {"value": value} for key, value in setting.items()}
        return {"type": "run", "run_id": run, "args": arguments, "program": self.config.get("program"), "logs": []}


class Sweeps:
    """All of them. `stops` says of a run whether it should end now, as Hyperband would."""

    def __init__(self) -> None:
        self.by_id: dict[str, ServedSweep] = {}
        self.stops: Callable[[ServedRun], bool] = lambda _: False
        self.operations: Mapping[str, Operation] = {
            "UpsertSweep": self._upsert,
            "SweepWithRuns": self._reported,
            "CreateAgent": self._agent,
            "Heartbeat": self._heartbeat,
        }

    @property
    def only(self) -> ServedSweep:
        (sweep,) = self.by_id.values()
        return sweep

    def _upsert(self, runs: Runs, url: str, sent: dict[str, Any]) -> dict[str, Any]:
        if sent.get("id"):
            self.by_id[sent["id"]].state = sent["state"]
            return {"upsertSweep": {"sweep": {"name": sent["id"]}}}
        sweep = ServedSweep(f"sweep{len(self.by_id)}", yaml.safe_load(sent["config"]), sent["projectName"])
        self.by_id[sweep.id] = sweep
        project = {"id": "p", "name": sweep.project, "entity": {"id": "e", "name": ENTITY}}
        return {"upsertSweep": {"sweep": {"name": sweep.id, "project": project}, "configValidationWarnings": []}}

    def _reported(self, runs: Runs, url: str, sent: dict[str, Any]) -> dict[str, Any]:
        sweep = self.by_id.get(sent["sweep"])
        if sweep is None:
            return {"project": {"sweep": None}}
        message = {"id": sweep.id, "name": sweep.id, "method": sweep.config["method"], "state": sweep.state}
        return {"project": {"sweep": {**message, "config": yaml.safe_dump(sweep.config), "runs": {"edges": []}}}}

    def _agent(self, runs: Runs, url: str, sent: dict[str, Any]) -> dict[str, Any]:
        sweep = self.by_id[sent["sweep"]]
        agent = f"{sweep.id}/{len(sweep.hosts)}"
        sweep.hosts[agent] = sent["host"]
        return {"createAgent": {"agent": {"id": agent}}}

    def _heartbeat(self, runs: Runs, url: str, sent: dict[str, Any]) -> dict[str, Any]:
        agent = sent["id"]
        sweep = self.by_id[agent.partition("/")[0]]
        if sweep.state == "CANCELED":
            commands = [{"type": "exit"}]
        elif active := json.loads(sent["runState"]):
            commands = [{"type": "stop", "run_id": run} for run in active if run in runs and self.stops(runs[run])]
        else:
            commands = [sweep.next_run(agent) or {"type": "exit"}]
        return {"agentHeartbeat": {"agent": {"id": agent}, "commands": json.dumps(commands)}}


def _settings(parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every combination; of a range its lower end. Nested parameters are one mapping."""
    points = [[(key, value) for value in _values(entry)] for key, entry in parameters.items()]
    return [dict(chosen) for chosen in product(*points)]


def _values(entry: Mapping[str, Any]) -> list[Any]:
    if "parameters" in entry:
        return _settings(entry["parameters"])
    if "values" in entry:
        return list(entry["values"])
    return [entry["value"] if "value" in entry else entry["min"]]

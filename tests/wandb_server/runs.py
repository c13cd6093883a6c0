"""Hold what the client sent of one run, decoded."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

AXIS = "trainer/global_step"


@dataclass
class ServedRun:
    """`upserts` are the client's words on the run as a whole, `history` its rows."""

    upserts: list[dict[str, Any]] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    exit_code: int | None = None

    @property
    def first(self) -> dict[str, Any]:
        return self.upserts[0]

    @property
    def raw_config(self) -> dict[str, Any]:
        sent = [upsert["config"] for upsert in self.upserts if upsert.get("config")]
        return dict(json.loads(sent[-1])) if sent else {}

    @property
    def config(self) -> dict[str, Any]:
        """Return the configuration as the page shows it; `_wandb` is the client's own."""
        return {name: entry["value"] for name, entry in self.raw_config.items() if name != "_wandb"}

    @property
    def axes(self) -> dict[str, str | None]:
        """Metrics, patterns among them, that were defined, each with the one it is drawn against."""
        defined = self.raw_config["_wandb"]["value"]["m"]
        names = [metric.get("1") or metric.get("2") for metric in defined]
        return {
            name: names[metric["5"] - 1] if "5" in metric else None for name, metric in zip(names, defined, strict=True)
        }

    def rows(self, metric: str) -> list[dict[str, Any]]:
        return [row for row in self.history if metric in row]

    def steps(self, metric: str) -> list[int]:
        return [row[AXIS] for row in self.rows(metric)]

    @property
    def last_step(self) -> int:
        """W&B's own number of the last row."""
        return self.history[-1]["_step"] if self.history else -1

    def take(self, request: dict[str, Any]) -> None:
        """One request of the file stream: lines, from an offset on, of the files that grow."""
        files = request.get("files") or {}
        for name, lines in (("wandb-history.jsonl", self.history), ("wandb-events.jsonl", self.events)):
            if sent := files.get(name):
                lines[sent["offset"] : sent["offset"] + len(sent["content"])] = [
                    json.loads(line) for line in sent["content"]
                ]
        if sent := files.get("output.log"):
            self.console[sent["offset"] : sent["offset"] + len(sent["content"])] = sent["content"]
        if summary := files.get("wandb-summary.json"):
            self.summary = json.loads(summary["content"][-1])
        if request.get("complete"):
            self.exit_code = request.get("exitcode")

    def resume_status(self, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "displayName": self.first.get("displayName"),
            "summaryMetrics": json.dumps(self.summary),
            "historyLineCount": len(self.history),
            "eventsLineCount": len(self.events),
            "logLineCount": len(self.console),
            "historyTail": json.dumps([json.dumps(row) for row in self.history[-1:]]),
            "eventsTail": json.dumps([json.dumps(row) for row in self.events[-1:]]),
            "config": json.dumps(self.raw_config),
            "tags": self.first.get("tags") or [],
            "wandbConfig": '{"t": 1}',
        }

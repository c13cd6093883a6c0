"""Answer W&B's public API: the runs of a project, a page at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from wandb_server.operations import ENTITY, Operation, Runs
from wandb_server.runs import ServedRun


def _runs(runs: Runs, url: str, sent: dict[str, Any]) -> dict[str, Any]:
    """Return runs in the order of their first arrival; the cursor is the number of runs already sent."""
    if not (of_project := _of_project(runs, sent)):
        return {"project": None}
    filters = json.loads(sent.get("filters") or "{}")
    result = [(name, run) for name, run in of_project.items() if _passes(run, filters)]
    begin = int(sent.get("cursor") or 0)
    page = result[begin : begin + sent["perPage"]]
    edges = [
        {"node": _node(name, run), "cursor": str(number)} for number, (name, run) in enumerate(page, start=begin + 1)
    ]
    more = {"endCursor": str(begin + len(page)), "hasNextPage": begin + len(page) < len(result)}
    message = {
        "internalId": "1",
        "runCount": len(result),
        "readOnly": False,
        "runs": {"edges": edges, "pageInfo": more},
    }
    return {"project": message}


def _run(runs: Runs, url: str, sent: dict[str, Any]) -> dict[str, Any]:
    run = _of_project(runs, sent).get(sent["name"])
    return {"project": {"run": _node(sent["name"], run) if run else None}}


def _of_project(runs: Runs, sent: dict[str, Any]) -> dict[str, ServedRun]:
    if sent["entity"] != ENTITY:
        return {}
    return {name: run for name, run in runs.items() if run.first.get("project") == sent["project"]}


def _passes(run: ServedRun, filters: dict[str, Any]) -> bool:
    """Apply W&B's filters by sweep and by group; any other is an error of the test."""
    known = {"sweep": run.first.get("sweep"), "group": run.first.get("groupName")}
    assert set(filters) <= set(known), f"the tests' server knows no filter {filters}"
    return all(known[name] == expected for name, expected in filters.items())


def _node(name: str, run: ServedRun) -> dict[str, Any]:
    first = run.first
    finished = {None: "running", 0: "finished", 255: "crashed"}.get(run.exit_code, "failed")
    return {
        "id": f"id-{name}",
        "projectId": "1",
        "tags": first.get("tags") or [],
        "name": name,
        "displayName": first.get("displayName"),
        "sweepName": first.get("sweep"),
        "state": finished,
        "config": json.dumps(run.raw_config),
        "group": first.get("groupName"),
        "jobType": first.get("jobType"),
        "commit": first.get("commit"),
        "readOnly": False,
        "createdAt": "2026-01-01T00:00:00",
        "heartbeatAt": "2026-01-01T00:00:00",
        "description": "",
        "notes": first.get("notes"),
        "systemMetrics": "{}",
        "summaryMetrics": json.dumps(run.summary),
        "historyLineCount": len(run.history),
        "user": {"name": ENTITY, "username": ENTITY},
        "historyKeys": {},
    }


READING: Mapping[str, Operation] = {"Runs": _runs, "Run": _run}

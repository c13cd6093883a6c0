"""The GraphQL operations that the server knows, by name: each answers from what the runs have sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wandb_server.runs import ServedRun

ENTITY = "me"
Runs = dict[str, ServedRun]
Operation = Callable[[Runs, str, dict[str, Any]], dict[str, Any]]
"""A function of the runs, the server's address and the variables sent."""


def _upsert(runs: Runs, url: str, sent: dict[str, Any]) -> dict[str, Any]:
    run = runs.setdefault(sent["name"], ServedRun())
    run.upserts.append(sent)
    bucket = {
        "id": "r",
        "name": sent["name"],
        "displayName": sent.get("displayName"),
        "description": "",
        "config": "{}",
        "sweepName": sent.get("sweep"),
        "project": _project(sent.get("project")),
        "historyLineCount": len(run.history),
    }
    return {"upsertBucket": {"bucket": bucket, "inserted": len(run.upserts) == 1}}


def _resume_status(runs: Runs, url: str, sent: dict[str, Any]) -> dict[str, Any]:
    run = runs.get(sent["name"])
    bucket = run.resume_status(sent["name"]) if run else None
    return {"model": {**_project(sent.get("project")), "bucket": bucket}}


def _history_keys(runs: Runs, url: str, sent: dict[str, Any]) -> dict[str, Any]:
    return {"project": {"run": {"historyKeys": {"lastStep": runs[sent["name"]].last_step}}}}


def _create_files(runs: Runs, url: str, sent: dict[str, Any]) -> dict[str, Any]:
    run = sent["run"]
    files = [{"name": name, "uploadUrl": f"{url}/upload/{run}/{name}"} for name in sent["files"]]
    return {"createRunFiles": {"runID": run, "uploadHeaders": [], "files": files}}


def _viewer(runs: Runs, url: str, sent: dict[str, Any]) -> dict[str, Any]:
    viewer = {"id": "u", "entity": ENTITY, "username": ENTITY, "email": "", "flags": "{}", "teams": {"edges": []}}
    return {"viewer": viewer}


def _project(name: str | None) -> dict[str, Any]:
    return {"id": "p", "name": name or "uncategorized", "entity": {"id": "e", "name": ENTITY}}


OPERATIONS: Mapping[str, Operation] = {
    "UpsertBucket": _upsert,
    "RunResumeStatus": _resume_status,
    "RunHistoryKeys": _history_keys,
    "CreateRunFiles": _create_files,
    "Viewer": _viewer,
}

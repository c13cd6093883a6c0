"""Answer `wandb-workspaces`: projects, and the views of them that workspaces and reports are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wandb_server.operations import ENTITY, Operation, Runs

_DAY = "2026-01-01T00:00:00"


@dataclass
class ServedView:
    """`kind` is project-view for a workspace, runs for a report."""

    id: str
    name: str
    kind: str
    title: str
    project: str
    spec: dict[str, Any] = field(default_factory=dict)
    times_saved: int = 0

    def node(self) -> dict[str, Any]:
        project = {"id": "1", "name": self.project, "entityName": ENTITY}
        times = {"createdAt": _DAY, "updatedAt": _DAY}
        message = {"id": self.id, "name": self.name, "type": self.kind, "displayName": self.title, "description": ""}
        return {**message, **times, "project": project, "spec": json.dumps(self.spec), "user": None}


class Views:
    """`held` are all of them, by id."""

    def __init__(self) -> None:
        self.held: dict[str, ServedView] = {}
        self.operations: Mapping[str, Operation] = {
            "UpsertView2": self._upsert,
            "upsertView": self._upsert,
            "View": self._results,
            "ProjectViews": self._results,
            "ProjectInternalId": _internal_id,
            "GetProjects": _projects,
            "GetDefaultEntity": _default_entity,
        }

    def of_kind(self, kind: str) -> list[ServedView]:
        return [view for view in self.held.values() if view.kind == kind]

    def _upsert(self, runs: Runs, url: str, sent: dict[str, Any]) -> dict[str, Any]:
        """Replace a view by its id alone: two views of one name are two."""
        id = sent.get("id") or f"view{len(self.held)}"
        inserted = id not in self.held
        view = self.held.setdefault(id, ServedView(id, sent["name"], sent["type"], "", sent["projectName"]))
        view.title, view.spec = sent["displayName"], json.loads(sent["spec"])
        view.times_saved += 1
        return {"upsertView": {"view": view.node(), "inserted": inserted}}

    def _results(self, runs: Runs, url: str, sent: dict[str, Any]) -> dict[str, Any]:
        project = sent.get("project") or sent["name"]
        if project not in _names(runs):
            return {"project": None}
        expected = [
            view
            for view in self.of_kind(sent.get("viewType", "runs"))
            if view.project == project and sent.get("viewName") in (None, view.name)
        ]
        edges = [{"node": view.node(), "cursor": view.id} for view in expected]
        return {"project": {"allViews": {"edges": edges, "pageInfo": {"endCursor": None, "hasNextPage": False}}}}


def _names(runs: Runs) -> list[str]:
    return sorted({str(run.first.get("project")) for run in runs.values()})


def _internal_id(runs: Runs, url: str, sent: dict[str, Any]) -> dict[str, Any]:
    return {"project": {"id": "p", "internalId": "1"} if sent["projectName"] in _names(runs) else None}


def _projects(runs: Runs, url: str, sent: dict[str, Any]) -> dict[str, Any]:
    known = {"__typename": "Project", "entityName": ENTITY, "createdAt": _DAY, "isBenchmark": False, "user": None}
    edges = [{"node": {**known, "id": name, "name": name}} for name in _names(runs)]
    page = {"__typename": "PageInfo", "endCursor": None, "hasNextPage": False}
    return {"models": {"edges": edges, "pageInfo": page}}


def _default_entity(runs: Runs, url: str, sent: dict[str, Any]) -> dict[str, Any]:
    return {"viewer": {"id": "u", "entity": ENTITY}}

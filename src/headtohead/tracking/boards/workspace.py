"""A saved view of a W&B project: four sections of panels, runs grouped by arm; made once, then brought up to date."""

from __future__ import annotations

from typing import Any

from headtohead.tracking.boards.opening import Project, name_of_view, opened, project_of
from headtohead.tracking.boards.panels import STEP, main_result, panels_for
from headtohead.tracking.boards.told import Told, told_in
from headtohead.tracking.connection import TrackingSettings

_MOST_RUNS = 100
_TITLE = "headtohead"
_COLUMNS = ("run:state", "config:seed.value", "summary:costs/parameters", "summary:throughput/tokens_per_second")


def build_project_workspace(typed: str = "") -> str:
    """The address of the page with all runs of a project that verdicts may rest on."""
    with opened() as api:
        project = project_of(api, typed)
        return _save(project, _TITLE, told_in(api, project.path, {}), group=None)


def build_study_workspace(study: str, settings: TrackingSettings) -> str:
    """Of the runs of a study alone."""
    with opened() as api:
        project = project_of(api, settings=settings)
        return _save(project, f"study {study}", told_in(api, project.path, {"group": study}), group=study)


def _save(project: Project, title: str, told: Told, *, group: str | None) -> str:
    from wandb_workspaces import workspaces as ws

    view = ws.Workspace(
        entity=project.entity,
        project=project.name,
        name=title,
        sections=[ws.Section(name=name, panels=panels, is_open=True) for name, panels in panels_for(told).items()],
        settings=ws.WorkspaceSettings(x_axis=STEP, max_runs=_MOST_RUNS, group_by_prefix="first"),
        runset_settings=ws.RunsetSettings(
            groupby=[ws.Config("arm")],
            filters=runs_of(group),
            pinned_columns=[*([f"summary:{main}"] if (main := main_result(told)) else []), *_COLUMNS],
        ),
    )
    view._internal_name = name_of_view(title)
    view._internal_id = _held_id(project, view._internal_name)
    view.save()
    return str(view.url)


def runs_of(group: str | None) -> Any:
    """Neither trials of a tuning nor runs on a part of the budget."""
    from wandb_workspaces import expr

    counting = expr.Metric("JobType") == "train"
    return expr.And(counting) if group is None else expr.And(expr.Metric("Group") == group, counting)


def _held_id(project: Project, name: str) -> str:
    """Of the view made by an earlier call, which is then replaced; "" for none."""
    from wandb_workspaces.workspaces import internal

    try:
        found = internal.get_view_dict(project.entity, project.name, internal._internal_name_to_url_query_str(name))
    except ValueError:
        return ""
    return str(found["id"])

"""A study as a report in W&B: the question, the verdicts, and panels over its runs, grouped by arm."""

from __future__ import annotations

from typing import Any

from headtohead.tracking.boards.opening import Project, opened, project_of
from headtohead.tracking.boards.panels import panels_for
from headtohead.tracking.boards.told import told_in
from headtohead.tracking.boards.workspace import runs_of
from headtohead.tracking.connection import TrackingSettings

_LONGEST_TITLE = 128  # W&B's limit


def build_report(study: str, markdown: str, settings: TrackingSettings) -> str:
    """The address of the page; a report of that title is replaced."""
    with opened() as api:
        from wandb_workspaces.reports import v2 as wr

        project = project_of(api, settings=settings)
        told = told_in(api, project.path, {"group": study})
        report = wr.Report(
            entity=project.entity,
            project=project.name,
            title=f"Study {study}"[:_LONGEST_TITLE],
            width="fluid",
            blocks=[wr.MarkdownBlock(markdown)],
        )
        for name, panels in panels_for(told).items():
            report.blocks += [wr.H2(name.capitalize()), wr.PanelGrid(runsets=[_runs(project, study)], panels=panels)]
        report.id = _held_id(api, project, report.title)
        report.save()
        return str(report.url)


def _runs(project: Project, study: str) -> Any:
    from wandb_workspaces.reports import v2 as wr

    return wr.Runset(
        entity=project.entity, project=project.name, name=study, filters=runs_of(study), groupby=["config.arm"]
    )


def _held_id(api: Any, project: Project, title: str) -> str:
    """Of the report of that title, "" for none."""
    return next((str(held.id) for held in api.reports(project.path) if held.display_name == title), "")

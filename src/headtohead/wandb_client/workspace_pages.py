"""A saved view of a W&B project: four sections of panels, runs grouped by arm; made once, then brought up to date."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headtohead.records.record import FOUNDATION
from headtohead.wandb_client import connection
from headtohead.wandb_client.addresses import WandbError
from headtohead.wandb_client.connection import TrackingSettings
from headtohead.wandb_client.page_panels import STEP, LoggedKeys, keys_in_project, main_result, panels_for
from headtohead.wandb_client.run_metadata import PART, TRIAL
from headtohead.wandb_client.runs_as_records import reason_of
from headtohead.wandb_client.wandb_tracker import reading_api

_MOST_RUNS = 100
_TITLE = "headtohead"
_COLUMNS = ("run:state", "config:seed.value", "summary:costs/parameters", "summary:throughput/tokens_per_second")


def build_project_workspace(typed: str = "") -> str:
    """The address of the page with all runs of a project that verdicts may rest on."""
    with opened() as api:
        project = project_of(api, typed)
        return _save(project, _TITLE, keys_in_project(api, project.path, {}), group=None)


def build_study_workspace(study: str, arms: str, settings: TrackingSettings, colours: Mapping[str, str]) -> str:
    """Build a workspace for the runs of one study, with a table of its arms in Markdown above its panels, each arm in
    its colour."""
    with opened() as api:
        project = project_of(api, settings=settings)
        return _save(
            project,
            f"study {study}",
            keys_in_project(api, project.path, {"group": study}),
            group=study,
            arms=arms,
            colours=colours,
        )


def _save(
    project: Project,
    title: str,
    keys: LoggedKeys,
    *,
    group: str | None,
    arms: str | None = None,
    colours: Mapping[str, str] | None = None,
) -> str:
    from wandb_workspaces import workspaces as ws
    from wandb_workspaces.reports import v2 as wr

    table: dict[str, list[Any]] = (
        {} if arms is None else {"arms": [wr.MarkdownPanel(markdown=arms, layout=wr.Layout(w=24, h=12))]}
    )
    sections = {**table, **panels_for(keys)}
    view = ws.Workspace(
        entity=project.entity,
        project=project.name,
        name=title,
        sections=[ws.Section(name=name, panels=panels, is_open=True) for name, panels in sections.items()],
        settings=ws.WorkspaceSettings(x_axis=STEP, max_runs=_MOST_RUNS, group_by_prefix="first"),
        runset_settings=ws.RunsetSettings(
            groupby=[ws.Config("arm")],
            group_colors=dict(colours or {}),
            filters=runs_of(group),
            pinned_columns=[*([f"summary:{main}"] if (main := main_result(keys)) else []), *_COLUMNS],
        ),
    )
    view._internal_name = name_of_view(title)
    view._internal_id = _existing_view_id(project, view._internal_name)
    view.save()
    return str(view.url)


def runs_of(group: str | None) -> Any:
    """Neither trials of a tuning, nor runs on part of the budget, nor those that others start from."""
    from wandb_workspaces import expr

    counting = expr.Metric("JobType").notin([TRIAL, PART, FOUNDATION])
    return expr.And(counting) if group is None else expr.And(expr.Metric("Group") == group, counting)


def _existing_view_id(project: Project, name: str) -> str:
    """Return the id of the view made by an earlier call, which is then replaced, or ""."""
    from wandb_workspaces.workspaces import internal

    try:
        view = internal.get_view_dict(project.entity, project.name, internal._internal_name_to_url_query_str(name))
    except ValueError:
        return ""
    return str(view["id"])


_LONGEST_TITLE = 128  # W&B's limit


def build_report(study: str, markdown: str, settings: TrackingSettings, colours: Mapping[str, str]) -> str:
    """Return the address of the page, in which each arm has its colour; a report of that title is replaced."""
    with opened() as api:
        from wandb_workspaces.reports import v2 as wr

        project = project_of(api, settings=settings)
        keys = keys_in_project(api, project.path, {"group": study})
        report = wr.Report(
            entity=project.entity,
            project=project.name,
            title=f"Study {study}"[:_LONGEST_TITLE],
            width="fluid",
            blocks=[wr.MarkdownBlock(markdown)],
        )
        for name, panels in panels_for(keys).items():
            grid = wr.PanelGrid(
                runsets=[_runs(project, study)], panels=panels, custom_run_colors=_group_colours(study, colours)
            )
            report.blocks += [wr.H2(name.capitalize()), grid]
        report.id = _existing_report_id(api, project, report.title)
        report.save()
        return str(report.url)


def _group_colours(study: str, colours: Mapping[str, str]) -> dict[object, str]:
    """Return the colours by the groups of the report's runs."""
    from wandb_workspaces.reports import v2 as wr

    key = wr.Config("arm")
    return {
        wr.RunsetGroup(runset_name=study, keys=(wr.RunsetGroupKey(key=key, value=arm),)): colour
        for arm, colour in colours.items()
    }


def _runs(project: Project, study: str) -> Any:
    from wandb_workspaces.reports import v2 as wr

    return wr.Runset(
        entity=project.entity, project=project.name, name=study, filters=runs_of(study), groupby=["config.arm"]
    )


def _existing_report_id(api: Any, project: Project, title: str) -> str:
    """Return the id of the report with that title, or ""."""
    return next((str(report.id) for report in api.reports(project.path) if report.display_name == title), "")


PACKAGE = "wandb_workspaces"


@dataclass(frozen=True)
class Project:
    """A project is the W&B project for which a page is made."""

    entity: str
    name: str

    @property
    def path(self) -> str:
        return f"{self.entity}/{self.name}"


@contextlib.contextmanager
def opened() -> Iterator[Any]:
    """W&B's client for reading; whatever goes wrong with it or with the package is a WandbError."""
    if importlib.util.find_spec(PACKAGE) is None:
        raise WandbError("W&B pages need a package that is not installed: pip install 'headtohead[dashboards]'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of pydantic, about the package's own code
        importlib.import_module(f"{PACKAGE}.workspaces")
    try:
        yield reading_api()
    except Exception as error:  # the client's own kinds, those of requests and pydantic, and plain ValueErrors
        raise WandbError(reason_of(error)) from None


def project_of(api: Any, typed: str = "", *, settings: TrackingSettings | None = None) -> Project:
    """ENTITY/PROJECT, PROJECT of the default entity, or, where nothing is typed, as runs are sent to."""
    parts = [part for part in typed.split("/") if part]
    if len(parts) > 2:
        raise WandbError(f"{typed} is not a project of W&B: write ENTITY/PROJECT, or PROJECT alone")
    sent_to = settings or TrackingSettings()
    name = parts[-1] if parts else connection.project_of(sent_to)
    entity = parts[0] if len(parts) == 2 else connection.entity_of(sent_to) or api.default_entity
    if not entity:
        raise WandbError("W&B knows no default entity for this key: write ENTITY/PROJECT")
    return Project(entity, name)


def name_of_view(what: str) -> str:
    """Always the same for the same page, by which it is found again; letters that W&B's addresses carry."""
    return f"nw-{hashlib.sha256(what.encode()).hexdigest()[:11]}-v"

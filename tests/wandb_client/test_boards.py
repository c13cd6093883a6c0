"""Pages that wandb-workspaces really makes, read back from the server: sections, panels, runs by arm, made once."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from headtohead.cli import main
from headtohead.comparison.arm_colours import light_colours
from headtohead.wandb_client.connection import TrackingSettings
from headtohead.wandb_client.workspace_pages import (
    PACKAGE,
    build_project_workspace,
    build_report,
    build_study_workspace,
)
from wandb_server import ServedRun, WandbServer
from wandb_server.serving import Behaviour

COLOURS = light_colours(["rms", "layer"])
PICTURE = {"_type": "image-file", "path": "p.png"}
SUMMARY = {
    "validation/loss": 1.0,
    "validation/accuracy": 0.5,
    "min/validation/loss": 0.9,
    "train/loss": 2.0,
    "test/loss": 1.1,
    "test_2x/loss": 1.2,
    "progress/tokens": 100,
    "progress/flops": 1e6,
    "costs/parameters": 5,
    "throughput/tokens_per_second": 9.0,
    "attention_entropy/stack.9.mixer/head_0": 0.5,
    "attention/stack.10.mixer": PICTURE,
    "attention/stack.9.mixer": PICTURE,
    "validation/samples": {"_type": "table-file"},
    "status": "finished",
}


@pytest.fixture
def project(server: WandbServer) -> WandbServer:
    """me/headtohead with runs of two families and a study."""
    for name, group, summary in (("a", "norms", SUMMARY), ("b", "norms", {"validation/f1": 0.5})):
        first = {"project": "headtohead", "displayName": name, "config": "{}", "groupName": group}
        server.runs[name] = ServedRun([first], summary=summary, exit_code=0)
    return server


def panels(spec: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Each section's, as what they draw."""
    result = {}
    for section in spec["section"]["panelBankConfig"]["sections"]:
        result[section["name"]] = [panel["config"] for panel in section["panels"]]
    return result


def lines(configs: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(one["xAxis"], one["metrics"][0]) for one in configs if one.get("metrics") and "xAxis" in one]


@pytest.mark.process
def test_a_projects_page_has_four_sections_of_what_its_runs_have_told(project: WandbServer) -> None:
    address = build_project_workspace("headtohead")

    (view,) = project.views.of_kind("project-view")
    assert address.startswith(f"{project.url}/me/headtohead?nw=")
    assert address.endswith(view.name.removeprefix("nw-").removesuffix("-v"))
    result = panels(view.spec)
    assert list(result) == ["quality", "cost", "attention", "system"]
    drawn = lines(result["quality"])
    assert drawn[:2] == [("trainer/global_step", "validation/loss"), ("trainer/global_step", "train/loss")]
    assert {("progress/tokens", "validation/loss"), ("progress/flops", "validation/loss")} <= set(drawn)
    assert ("trainer/global_step", "validation/f1") in drawn
    bars = [one["metrics"] for one in result["quality"] if "xAxis" not in one and one.get("metrics")]
    assert bars == [["test/loss"], ["test_2x/loss"], ["min/validation/loss"]]
    assert ("summary:costs/parameters", "summary:validation/loss") in [
        (one["xAxis"], one["yAxis"]) for one in result["cost"] if "yAxis" in one
    ]
    assert ("trainer/global_step", "throughput/tokens_per_second") in lines(result["cost"])
    maps = [one["mediaKeys"] for one in result["attention"] if one.get("mediaKeys")]
    assert maps == [["attention/stack.9.mixer"], ["attention/stack.10.mixer"]], "a panel for each layer"
    assert [one["gallerySettings"] for one in result["attention"] if one.get("mediaKeys")] == [{"axis": "run"}] * 2
    assert "attention_entropy/.*" in [one.get("metricRegex") for one in result["attention"]]
    assert ("_runtime", "system/gpu.0.gpu") in lines(result["system"])


@pytest.mark.process
def test_runs_are_grouped_by_arm_and_trials_are_left_out(project: WandbServer) -> None:
    build_project_workspace()
    (view,) = project.views.of_kind("project-view")
    (runs,) = view.spec["section"]["runSets"]
    assert runs["grouping"] == [{"section": "config", "name": "arm.value"}]
    message = [(one["key"]["name"], one["op"], one["value"]) for one in runs["filters"]["filters"]]
    assert message == [("jobType", "NIN", ["trial", "part", "foundation"])]
    assert runs["runFeed"]["columnOrder"][:2] == ["run:displayName", "summary:validation/loss"]


@pytest.mark.process
def test_a_second_call_brings_the_same_pages_up_to_date(project: WandbServer) -> None:
    pages = []
    for words in ("| a |", "| b |"):
        pages.append([
            build_project_workspace(),
            build_study_workspace("norms", "| a |", TrackingSettings(), COLOURS),
            build_report("norms", words, TrackingSettings(), COLOURS),
        ])  # fmt: skip
    assert pages[0] == pages[1]
    assert len(set(pages[0])) == 3
    assert [view.times_saved for view in project.views.held.values()] == [2, 2, 2]
    (report,) = project.views.of_kind("runs")
    assert [block["content"] for block in report.spec["blocks"] if block["type"] == "markdown-block"] == ["| b |"]


@pytest.mark.process
def test_a_studys_page_and_report_show_its_runs_alone(project: WandbServer) -> None:
    build_study_workspace("norms", "| a |", TrackingSettings(), COLOURS)
    build_report("norms", "words", TrackingSettings(), COLOURS)
    (page,) = project.views.of_kind("project-view")
    (report,) = project.views.of_kind("runs")
    grids = [block["metadata"] for block in report.spec["blocks"] if block["type"] == "panel-grid"]
    assert (page.title, report.title, len(grids)) == ("study norms", "Study norms", 4)
    assert panels(page.spec)["arms"] == [{"value": "| a |"}] and next(iter(panels(page.spec))) == "arms"
    for (runs,) in [page.spec["section"]["runSets"], *(grid["runSets"] for grid in grids)]:
        message = [(one["key"]["name"], one["value"]) for one in runs["filters"]["filters"]]
        assert message == [("group", "norms"), ("jobType", ["trial", "part", "foundation"])]
        assert runs["grouping"] == [{"section": "config", "name": "arm.value"}]
    assert set(COLOURS.values()) == colours_in(page.spec) == colours_in(report.spec)


def colours_in(spec: Any) -> set[str]:
    """The colours that a saved view gives to groups."""
    if isinstance(spec, dict):
        own = set(spec.get("customRunColors", {}).values()) if isinstance(spec.get("customRunColors"), dict) else set()
        return own.union(*map(colours_in, spec.values())) - {None}
    return set().union(*map(colours_in, spec)) if isinstance(spec, list) else set()


def refused(capsys: pytest.CaptureFixture[str], *typed: str) -> str:
    assert main(["dashboard", "--wandb", *typed]) == 2
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.process
def test_what_cannot_be_shown_is_refused_with_what_to_do(
    project: WandbServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "W&B has no project me/other: runs of h2h train arrive there" in refused(capsys, "other")
    assert "a/b/c is not a project of W&B: write ENTITY/PROJECT" in refused(capsys, "a/b/c")
    monkeypatch.delenv("WANDB_API_KEY")
    assert "`wandb login`, or set WANDB_API_KEY" in refused(capsys)
    result = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == PACKAGE else result(name))
    assert "pip install 'headtohead[dashboards]'" in refused(capsys)
    assert not project.views.held


@pytest.mark.parametrize(("behaviour", "message"), [("hangs", "does not answer"), ("refuses", "rejects this key")])
@pytest.mark.process
def test_a_server_in_trouble_is_said_soon_and_in_one_line(
    project: WandbServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    behaviour: Behaviour,
    message: str,
) -> None:
    monkeypatch.setattr("headtohead.wandb_client.wandb_tracker._READING_TIMEOUT", 1)
    project.behaviour = behaviour
    assert refused(capsys).endswith(message) or message in refused(capsys)

"""A study puts its verdicts on its W&B page as Markdown, and says so if it has no page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headtohead.studies.planning.study_plan import StudyPlan
from headtohead.studies.results.study_report import report_of
from headtohead.studies.results.wandb_pages import as_markdown, make_pages, wants_page
from studies.small_studies import plan_without_models, write_run


def plan_with(folder: Path, **tracking: Any) -> StudyPlan:
    plan = plan_without_models(folder, question="Is b | better?")
    return replace(plan, drafts={arm: {**draft, "tracking": tracking} for arm, draft in plan.drafts.items()})


def test_the_verdict_table_tells_every_arm_and_reads_no_markup_into_names(tmp_path: Path) -> None:
    plan = plan_with(tmp_path)
    for run in plan.runs:
        loss = {"a": 2.0, "b": 1.0}[run.arm] + run.seed * {"a": 0.01, "b": 0.02}[run.arm]
        write_run(plan.run_folder(run), value=loss)
    lines = as_markdown(report_of(plan).to_dict()).splitlines()
    assert lines[0] == r"**Is b \| better?**"
    table = [line for line in lines if line.startswith("|")]
    assert table[0].startswith("| arm | test/loss | difference | verdict | seeds | failures |")
    assert [line.count(" | ") for line in table] == [9, 9, 9, 9]
    assert table[2].startswith(r"| a | 2.010 \[") and "| baseline | - | 3 | 0 |" in table[2]
    assert table[3].startswith(r"| b | 1.020 \[") and "better" in table[3]
    assert any(line.startswith("- ") and "b is better than a" in line for line in lines)


@pytest.mark.parametrize(("mode", "way"), [("none", "use tracking=auto for"), ("offline", "h2h sync ")])
def test_where_runs_are_not_in_wandb_no_server_is_asked_and_the_way_there_is_told(
    tmp_path: Path, mode: str, way: str
) -> None:
    plan = plan_with(tmp_path, mode=mode, workspace=True, _target_="x")
    assert wants_page(plan)
    (line,) = make_pages(plan, {})
    assert line.startswith("no page or report in W&B, ") and f"tracking={mode} " in line and way in line


def test_a_study_that_does_not_ask_for_a_page_gets_none(tmp_path: Path) -> None:
    assert not wants_page(plan_with(tmp_path, mode="auto"))

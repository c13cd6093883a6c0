"""The study of fine-tuning that ships, over a small repository of SST-2's schema: smaller numbers, the same arms."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from headtohead.comparison.report import report
from headtohead.comparison.report.sections.training_rows import over_rows
from headtohead.config.compose.choices import STUDY, choices
from headtohead.execution.single_run import record_of, train_run
from headtohead.studies.definition.read_study_file import study_from
from headtohead.studies.planning.registration import register
from headtohead.studies.planning.study_plan import StudyPlanner
from headtohead.studies.results.report_content import results_from_study
from headtohead.studies.results.study_report import report_of
from published_sets.classification import write_sst2

SMALLER = {
    r"model/size=small": "model/size=tiny",
    r"trainer\.max_steps=\d+, trainer\.validate_every=\d+": "trainer.max_steps=3, data.context_length=32",
    r"trainer\.max_steps=\d{2,}$": "trainer.max_steps=2",
    r"trainer\.validate_every=\d+$": "trainer.validate_every=2",
    r"train_rows=200\b": "train_rows=20",
    r"train_rows=1000\b": "train_rows=40",
    r"train_rows=5000\b": "train_rows=80",
    r"^seeds: 3": "seeds: 1",
}


@pytest.mark.slow
def test_prompts_words_scratch_and_fine_tuning_stand_in_one_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    write_sst2(tmp_path / "sst2")
    path = next(choice.path for choice in choices(STUDY) if choice.name == "finetuning_sst2")
    text = path.read_text(encoding="utf-8")
    for pattern, smaller in SMALLER.items():
        text, changed = re.subn(pattern, smaller, text, flags=re.MULTILINE)
        assert changed, f"the study no longer says {pattern}"
    written = yaml.safe_load(text)
    written["base"] += [f"data.folder={tmp_path / 'sst2'}", f"output_dir={tmp_path}", "data.vocab_size=300"]
    written["base"] += ["data.batch_size=8", "trainer=cpu", "trainer.progress_bar=false", "tracking=none"]
    planned = StudyPlanner(study_from("finetuning_sst2", written))
    for _ in range(2):
        plan = planned.plan()
        register(plan)
        for run in plan.runs:
            if record_of(plan.run_folder(run)) is None:
                train_run(run, plan.run_folder(run), None, 1)
    plan = planned.plan()
    records = {run.arm: record_of(plan.run_folder(run)) for run in plan.runs}
    assert {arm: record and (record.status, record.reason) for arm, record in records.items()} == dict.fromkeys(
        ["reader", *written["arms"]], ("finished", None)
    )
    for arm, record in records.items():
        assert record is not None
        steps = 3 if arm == "reader" else 0 if arm.startswith(("zero", "four", "bag")) else 2
        assert record.progress.step == steps
        assert arm == "reader" or {"accuracy", "f1_macro", "precision_macro"} <= record.metrics["test"].keys()
    alike = {record.comparability.evaluation for arm, record in records.items() if record and arm != "reader"}
    assert len(alike) == 1, "prompts and classifiers are measured on the same rows by the same metrics"

    result = report_of(plan)
    assert result.complete and [arm.arm for arm in result.arms] == list(written["arms"])
    findings = results_from_study(plan, result)
    curves = {curve.name: [point.rows for point in curve.points] for curve in over_rows(findings)}
    trained = {name: [20, 40, 80] for name in ("bag_of_words", "scratch", "fine_tuned")}
    assert curves == {**trained, "zero_shot": [], "four_shot": []}
    assert "Over training rows" in report(findings)

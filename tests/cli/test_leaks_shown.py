"""Rows of a test that stand in train are said on the terminal, in the record, by the doctor and beside verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.cli import main
from headtohead.comparison.comparison import comparison_of
from headtohead.comparison.contrasts import ComparisonSpec, Verdict
from headtohead.config.build import build_parts
from headtohead.config.compose.composition import compose_checked
from headtohead.diagnostics.doctor.checks.data import leaks
from headtohead.diagnostics.doctor.patient import Patient
from headtohead.records.leaks import leak_sentence, leaks_in, repeats_sentence
from headtohead.records.record import Comparability, RunRecord, StudyPosition
from headtohead.records.run_folder import scan

LEAKS = {
    "unit": "rows",
    "train": {"rows": 300, "held_out": 20},
    "validation": {"rows": 100, "in_train": 0, "exactly": 0},
    "test": {"rows": 100, "in_train": 20, "exactly": 20},
}
SMALL = [
    "model=encoder_only", "task=classification", "model.d_model=8", "model.num_layers=1", "model.num_heads=2",
    "data=csv", "data.tokenizer=char", "data.batch_size=8", "tracking=none", "trainer.accelerator=cpu",
    "trainer.max_steps=1", "trainer.validate_every=1", "trainer.num_samples=0", "probe=none",
]  # fmt: skip


@pytest.fixture
def overrides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A table whose train file holds every test row."""
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "rows"
    folder.mkdir()
    test = [f"a text that is measured {row},{('no', 'yes')[row % 2]}" for row in range(10)]
    own = [f"a text to learn {row},{('no', 'yes')[row % 2]}" for row in range(40)]
    for name, rows in (("train", [*own, *test]), ("test", test)):
        (folder / f"{name}.csv").write_text("\n".join(["text,label", *rows, ""]), encoding="utf-8")
    return [*SMALL, f"data.path={folder}", f"output_dir={tmp_path / 'outputs'}"]


@pytest.mark.slow
def test_a_run_whose_train_file_holds_every_test_row_says_so(
    overrides: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *overrides]) == 0
    (record,) = scan(tmp_path / "outputs")
    assert record.data["leaks"]["test"] == {"rows": 10, "in_train": 10, "exactly": 10}
    shown = " ".join("".join(capsys.readouterr()).split())
    assert "10 of 10 test rows" in shown and "also occur in train" in shown


def test_rows_that_are_dropped_are_no_leak_and_are_not_learned(overrides: list[str]) -> None:
    parts = build_parts(compose_checked("train", [*overrides, "data.drop_shared=true"]))
    assert leak_sentence(parts.data.leaks()) is None and len(parts.data.split("train")) < 48


def test_the_doctor_calls_it_a_fault(overrides: list[str]) -> None:
    finding = leaks(Patient(build_parts(compose_checked("train", overrides))))
    assert finding.verdict == "fault" and "10 of 10 test rows" in finding.message
    assert "data.drop_shared=true" in finding.advice and finding.measured["test_in_train"] == 10


def record(arm: str, seed: int, result: dict[str, object]) -> RunRecord:
    return RunRecord(
        id=f"{arm}{seed}",
        name=arm,
        seed=seed,
        status="finished",
        place=StudyPosition("s", arm, seed),
        data={"leaks": result},
        metrics={"validation": {}, "test": {"loss": 1.0 + seed}},
        comparability=Comparability(tokenizer="t", evaluation="e", loss_normalisation="mean"),
    )


def test_a_comparison_says_what_of_its_test_was_learned() -> None:
    comparison = comparison_of([record(arm, seed, LEAKS) for arm in "ab" for seed in (0, 1)], ComparisonSpec("a"))
    assert all(isinstance(verdict, Verdict) for verdict in comparison.verdicts)
    assert any(remark.startswith("20 of 100 test rows also occur in train") for remark in comparison.remarks)


def test_arms_whose_data_leak_in_other_ways_are_named() -> None:
    clean = {**LEAKS, "test": {"rows": 100, "in_train": 0, "exactly": 0}}
    (message,) = leaks_in([record("a", 0, LEAKS), record("b", 0, clean)])
    assert message.startswith("a: 20 of 100 test rows")


def test_repeats_of_drawn_rows_are_no_leak() -> None:
    drawn = {**LEAKS, "expected": {"validation": 0.4, "test": 19.0}}
    assert leak_sentence(drawn) is None and leaks_in([record("a", 0, drawn)]) == []
    message = repeats_sentence(drawn)
    assert message is not None and "20 of 100 test rows repeat one of train, where 19 are expected" in message

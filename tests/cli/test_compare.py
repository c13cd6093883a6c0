"""`h2h compare` as it is typed: any runs, every format, and errors that say what to type instead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import headtohead as h2h
from headtohead.cli import main
from headtohead.records.record import Comparability, RunRecord, StudyPosition, to_json

LOSSES = {"attention": [2.00, 2.05, 1.95], "mamba": [1.80, 1.84, 1.76]}
TABLE = "model,seed,val_loss\n" + "".join(
    f"{arm},{seed},{loss}\n" for arm, losses in LOSSES.items() for seed, loss in enumerate(losses)
)


def position(folder: Path, arm: str, seed: int, loss: float, **fields: str) -> None:
    record = RunRecord(
        id=f"{arm}-{seed}",
        name=f"{arm}-s{seed}",
        status="finished",
        place=StudyPosition("recall", arm, seed),
        metrics={"validation": {"loss": loss + 1}, "test": {"loss": loss}},
        comparability=Comparability(**{"tokenizer": "char", "loss_normalisation": "mean", **fields}),
    )
    (folder / record.id).mkdir(parents=True)
    (folder / record.id / "record.json").write_text(to_json(record), encoding="utf-8")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    for arm, losses in LOSSES.items():
        for seed, loss in enumerate(losses):
            position(tmp_path / "runs", arm, seed, loss)
    return tmp_path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "theirs.csv"
    file.write_text(TABLE, encoding="utf-8")
    return file


def message(*arguments: object, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["compare", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def refused(*arguments: object, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["compare", *map(str, arguments)]) == 2
    return " ".join(capsys.readouterr().err.split())


def test_the_arms_of_a_study_are_judged_on_the_stage_that_is_named(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = message(study, "--against", "attention", "--metric", "validation/loss", capsys=capsys)
    assert "mamba is better than attention on loss on validation" in out
    assert "3.000" in out


def test_a_table_of_another_program_is_judged_alike(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = message(table, "--metric", "val_loss", "--arm", "model", "--against", "attention", capsys=capsys)
    assert "Exploratory (no seeds were registered): mamba is better than attention on val loss" in out
    assert "theirs.csv: val_loss of 6 runs of another program, taken as given" in out


def test_a_metric_that_does_not_tell_its_direction_is_asked_for_it(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table.write_text(TABLE.replace("val_loss", "figure"), encoding="utf-8")
    provided = (table, "--metric", "figure", "--arm", "model", "--against", "attention")
    assert "--direction min or max" in refused(*provided, capsys=capsys)
    assert "mamba is worse than" in message(*provided, "--direction", "max", capsys=capsys)


def test_records_and_a_table_are_compared_and_what_is_taken_on_trust_is_said(
    study: Path, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table.write_text(TABLE.replace("mamba", "theirs").replace("val_loss", "loss"), encoding="utf-8")
    (table.parent / "lines.csv").write_text(
        "\n".join(line for line in table.read_text().splitlines() if "attention" not in line), encoding="utf-8"
    )
    provided = (
        study / "runs",
        table.parent / "lines.csv",
        "--metric",
        "loss",
        "--arm",
        "model",
        "--against",
        "attention",
    )
    out = message(*provided, capsys=capsys)
    assert "the results of theirs name no split, and are taken as those on test" in out
    assert "it is unknown whether theirs had the tokenizer" in out


def test_unlike_runs_are_refused_unless_told_to(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(3):
        position(study / "more", "lstm", seed, 2.5 + seed / 100, tokenizer="bytes")
    assert "--allow-unlike tokenizer" in refused(study, "--against", "attention", capsys=capsys)
    data = json.loads(message(study, "--against", "attention", "--allow-unlike", "tokenizer", "--json", capsys=capsys))
    assert any(
        remark.startswith("unlike by permission: not all runs have the same tokenizer") for remark in data["remarks"]
    )
    assert "choose from budget" in refused(study, "--against", "attention", "--allow-unlike", "name", capsys=capsys)


def test_every_format_is_written_from_one_comparison(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, page = study / "verdicts.csv", study / "report.html"
    out = message(study, "--against", "attention", "--latex", "--csv", table, "--html", page, capsys=capsys)
    assert r"\textbf{mamba}" in out
    assert "mamba,attention,loss,test,1.8" in table.read_text(encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    assert "mamba is better than attention" in text and "h2h compare" in text
    assert message(study, "--csv", "-", capsys=capsys).startswith("id,name,arm,group,seed,status")
    assert "name a file in a folder that exists" in refused(study, "--html", study / "no" / "r.html", capsys=capsys)


def test_a_report_without_a_baseline_is_refused_with_the_names(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--against NAME is needed, one of attention, mamba" in refused(study, "--latex", capsys=capsys)


def test_a_run_that_two_paths_lead_to_counts_once(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = message(study, study / "runs" / "mamba-0", "--against", "attention", "--json", capsys=capsys)
    assert json.loads(out)["verdicts"][0]["seeds"] == [0, 1, 2]


def test_the_exit_code_tells_of_arms_that_are_silent_and_of_records_that_cannot_be_read(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    provided = ["compare", str(study), "--against", "attention", "--json"]
    assert main(provided) == 0
    position(study / "more", "lstm", 0, 2.0)
    record = study / "more" / "lstm-0" / "record.json"
    whole = record.read_text(encoding="utf-8")
    record.write_text(whole.replace('"finished"', '"failed"'), encoding="utf-8")
    assert main(provided) == 1
    record.write_text(whole[:100], encoding="utf-8")
    assert main(provided) == main(["compare", str(study)]) == 1
    assert "record.json" in capsys.readouterr().err


def test_what_is_no_place_of_runs_is_refused_with_what_would_be(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    offline = study / "runs" / "mamba-0" / "wandb" / "offline-run-1"
    offline.mkdir(parents=True)
    assert f"its record is next to it: give {study / 'runs' / 'mamba-0'}" in refused(offline, capsys=capsys)
    (study / "notes.txt").write_text("x", encoding="utf-8")
    assert "export the table as .csv" in refused(study / "notes.txt", capsys=capsys)
    assert "does not exist: give a run's folder" in refused(study / "nothing", capsys=capsys)
    assert "write wandb:ENTITY/PROJECT" in refused("wandb:me", capsys=capsys)


@pytest.mark.parametrize("margin", ["-1", "nan", "much"])
def test_a_margin_that_is_none_is_refused(study: Path, margin: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(study, "--against", "attention", "--margin", margin, capsys=capsys)
    assert f"{margin} is refused: it must be {'a number' if margin == 'much' else 'above 0'}" in message


def test_help_shows_how_it_is_typed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["compare", "--help"])
    assert "h2h compare results.csv --metric val_loss --arm model --seed seed" in capsys.readouterr().out


def test_from_python_the_first_arm_is_the_baseline(study: Path, table: Path) -> None:
    verdict = h2h.compare([study / "runs" / name for name in ("mamba-0", "attention-0")], metric="test/loss").verdicts[
        0
    ]
    assert (verdict.arm, verdict.baseline, verdict.method) == ("attention", "mamba", "none")
    result = h2h.compare([table], metric="val_loss", columns={"arm": "model"})
    assert result.verdicts[0].kind == "better"

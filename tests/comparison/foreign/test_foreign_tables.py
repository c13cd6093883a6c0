"""Other people's tables: columns are named, never guessed in silence; what cannot be read is refused by its row."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.comparison.csv_runs import ExternalRuns, read_table
from headtohead.comparison.table_columns import NamedColumns, TableError

TABLE = "model,seed,val_loss,params\ngpt,0,2.0,1000\ngpt,1,2.1,1000\nlstm,0,2.5,990\nlstm,1,,990\n"
NAMED = NamedColumns(metric="val_loss", arm="model", parameters="params")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs.csv"


def read(file: Path, text: str, columns: NamedColumns = NAMED) -> ExternalRuns:
    file.write_text(text, encoding="utf-8")
    return read_table(file, columns)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_row_is_a_run_with_its_arm_seed_value_and_costs(file: Path, separator: str) -> None:
    result = read(file, TABLE.replace(",", separator))
    assert [(r.place.arm, r.place.seed, r.status) for r in result.records] == [
        ("gpt", 0, "finished"),
        ("gpt", 1, "finished"),
        ("lstm", 0, "finished"),
        ("lstm", 1, "diverged"),
    ]
    assert result.records[0].metrics == {"given": {"val_loss": 2.0}}
    assert result.records[2].costs == {"totals": {"parameters": 990.0}}


@pytest.mark.parametrize("missing", ["", "NaN", "inf", "None"])
def test_a_run_without_a_finite_value_diverged_and_that_is_said(file: Path, missing: str) -> None:
    result = read(file, TABLE.replace(",,", f",{missing},"))
    assert result.records[3].status == "diverged"
    assert any("counted as diverged: lstm (seed 1, row 5)" in remark for remark in result.remarks)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            NamedColumns(metric="val_los", arm="model"),
            "no column val_los, which --metric names: did you mean val_loss?",
        ),
        (
            NamedColumns(arm="model"),
            r"--metric COLUMN is needed: did you mean val_loss\? its columns are val_loss, params",
        ),
        (NamedColumns(metric="val_loss"), r"--arm COLUMN is needed: did you mean model\?"),
        (
            NamedColumns(metric="params", arm="model", parameters="params"),
            "--metric and --parameters name the same column",
        ),
    ],
)
def test_a_column_that_is_missing_is_asked_for_with_a_guess(file: Path, columns: NamedColumns, message: str) -> None:
    with pytest.raises(TableError, match=message.replace("did you mean val_loss?", r"did you mean val_loss\?")):
        read(file, TABLE, columns)


def test_a_table_without_another_column_asks_for_one(file: Path) -> None:
    with pytest.raises(TableError, match="--seed COLUMN is needed: it has no other column, so add one"):
        read(file, "arm,val_loss\na,2.1\nb,2.0\n", NamedColumns(metric="val_loss"))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("gpt,1,2.1", "gpt,1,two", "row 3: val_loss is two; expected a number"),
        ("gpt,1,2.1", 'gpt,1,"2,1"', "row 3: val_loss is 2,1; .* write decimals with a point"),
        ("gpt,1,", "gpt,1.5,", "row 3: seed is 1.5; expected a whole number"),
        ("gpt,1,", ",1,", "row 3: model is empty"),
        ("gpt,1,", "gpt,0,", "row 3: a second row of gpt, seed 0; the first is row 2"),
        ("gpt,1,2.1,1000", "gpt,1,2.1", "row 3: 3 cells, and the header has 4"),
        ("params", "seed", "two columns named seed"),
    ],
)
def test_what_cannot_be_a_run_is_refused_by_its_row(file: Path, before: str, after: str, message: str) -> None:
    with pytest.raises(TableError, match=message):
        read(file, TABLE.replace(before, after, 1), NamedColumns(metric="val_loss", arm="model"))


def test_a_second_row_of_a_run_is_asked_whether_it_is_a_point_of_a_curve(file: Path) -> None:
    with pytest.raises(TableError, match=r"did you mean --step epoch or --task dataset\?"):
        read(file, "arm,seed,acc,epoch,dataset\na,0,0.1,1,x\na,0,0.2,2,x\n", NamedColumns(metric="acc"))


def test_of_a_curve_the_last_value_counts_and_its_points_are_kept(file: Path) -> None:
    text = "arm,seed,acc,step,tokens\na,0,0.3,20,200\na,0,0.1,10,100\na,0,,30,300\nb,0,0.2,10,100\nb,0,nan,20,200\n"
    result = read(file, text, NamedColumns(metric="acc", step="step", tokens="tokens"))
    first, second = result.records
    assert (first.metrics, first.progress.step, first.progress.tokens) == ({"given": {"acc": 0.3}}, 20, 200)
    assert second.status == "diverged"
    assert result.curves[first.id].value == [0.1, 0.3]
    assert "a run's result is its last value by step; the runs end at step 20" in result.remarks
    with pytest.raises(TableError, match="row 4: a second point of a, seed 0, at step 20; the first is row 2"):
        read(file, text.replace("a,0,,30", "a,0,0.5,20"), NamedColumns(metric="acc", step="step"))


def test_a_task_column_keeps_runs_of_one_seed_apart(file: Path) -> None:
    result = read(file, "arm,seed,acc,task\na,0,0.1,x\na,0,0.2,y\n", NamedColumns(metric="acc", task="task"))
    assert [record.place.study for record in result.records] == ["x", "y"]


def test_a_chart_exported_from_wandb_has_a_column_for_each_run(file: Path) -> None:
    text = (
        '"Step","gpt-s0 - eval/loss","gpt-s0 - eval/loss__MIN","gpt_seed1 - eval/loss","transformers3 - eval/loss"\n'
        '"10","2.0","2.0","2.2",""\n"20","1.5","1.5","","1.7"\n'
    )
    result = read(file, text, NamedColumns())
    message = {(r.place.arm, r.place.seed): r.metrics["given"]["eval/loss"] for r in result.records}
    assert message == {("gpt", 0): 1.5, ("gpt", 1): 2.2, ("transformers3", 0): 1.7}
    with pytest.raises(TableError, match="--metric names one of its metrics, eval/loss"):
        read(file, text, NamedColumns(metric="acc"))


def test_names_steer_no_terminal_and_numbers_that_overflow_in_sums_are_none(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text('arm,seed,loss\n"a\x1b[2J\nb",0,1.0\nc,0,1e307\n', encoding="utf-8")
    first, second = read_table(file, NamedColumns(metric="loss")).records
    assert (first.name, second.status) == ("a[2J b", "diverged")

"""A filter lets through what its words say, and an order puts first what it names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from headtohead.api import runs
from headtohead.cli import main
from headtohead.errors import UsageError
from headtohead.records.record import RunRecord, RunTiming
from headtohead.records.run_folder import RunFolder
from headtohead.records.run_query import named_value, run_filter
from headtohead.records.run_summary import RunSummary, summary_of


def summary(key: str, name: str, width: int, latest: Mapping[str, float | None] = {}, **fields: object) -> RunSummary:
    config = {"model": {"d_model": width}, "choices": {"model/mixer": "gru"}, "notes": fields.get("notes")}
    record = RunRecord(**{"id": key, "name": name, "config": config, "status": "finished", **fields})  # type: ignore[arg-type]
    made = summary_of(record, f"/runs/{key}")
    made.latest = latest
    return made


RUNS = [
    summary("a", "alpha", 64, status="running", tags=["paper", "first draft"]),
    summary("b", "beta", 64, seed=1, metrics={"test": {"loss": 1.5}}),
    summary("c", "gamma", 32, {"train/loss": 2.5}, notes="two words"),
]


@pytest.mark.parametrize(
    ("text", "matching"),
    {
        "": "abc",
        "d_model=64": "ab",
        "model.d_model>32 status=running": "a",
        "loss<2": "b",
        "loss<=2.5": "bc",
        "train/loss>2": "c",
        "-seed=0": "b",
        "seed!=0": "b",
        "model/mixer=gru": "abc",
        "mixer=G*": "abc",
        "name~B": "b",
        "beta": "b",
        'notes~"two words"': "c",
        "two -beta": "c",
        "nothing=1": "",
        "nothing!=1": "abc",
        "d_model=64.0": "ab",
        "d_model<text": "",
        "tags=paper": "a",
        "tags~draft": "a",
        "tags!=paper": "bc",
        "paper": "a",
        "selected_by=loss": "abc",
    }.items(),
)
def test_a_filter_lets_through_what_it_says(text: str, matching: str) -> None:
    assert "".join(run.id for run in RUNS if run_filter(text)(run)) == matching


def test_every_field_of_a_run_is_a_column_and_part_of_a_filter() -> None:
    """A column shows and a filter finds whatever JSON says of a run."""
    texts = dict.fromkeys(
        ("id", "name", "arm", "group", "study", "job_type", "notes", "reason", "started", "stage"), "x"
    )
    texts |= dict.fromkeys(("metric", "direction", "selected_by", "path"), "x")
    numbers = dict.fromkeys(("seed", "trial", "share", "value", "baseline", "max_steps"), 7)
    whole: dict[str, Any] = {**texts, **numbers, "tags": ["x"], "status": "finished"}
    of_mappings = {"costs": "parameters", "progress": "step", "results": "test/loss"}
    assert {*whole, *of_mappings, "sections", "latest"} == {field.name for field in fields(RunSummary)}
    run = replace(RUNS[0], **whole, costs={"parameters": 7}, progress={"step": 7}, results={"test/loss": 7.0})
    for name in [*whole, *of_mappings.values()]:
        assert named_value(run, name) == whole.get(name, 7)
        assert run_filter(f"{name}={'x' if name == 'tags' else whole.get(name, 7)}")(run)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, (width, loss) in enumerate([(32, 2.0), (64, 1.0), (128, 3.0)]):
        run = RunFolder.create(tmp_path, name=f"run{number}")
        run.write_record(
            RunRecord(
                id=run.id, name=f"run{number}", status="finished", config={"model": {"d_model": width}},
                metrics={"test": {"loss": loss}}, timing=RunTiming(f"2026-01-0{number + 1}T00:00:00+00:00"),
            )
        )  # fmt: skip
        run.release()
    (tmp_path / "default" / "torn").mkdir()
    (tmp_path / "default" / "torn" / "record.json").write_text("{")
    return tmp_path


@pytest.mark.parametrize(
    ("sort", "names"),
    {
        "newest": "run2 run1 run0 torn",
        "oldest": "torn run0 run1 run2",
        "name": "run0 run1 run2 torn",
        "result": "run1 run0 run2 torn",
        "status": "torn",
        "d_model": "run0 run1 run2 torn",
        "-d_model": "run2 run1 run0 torn",
        "-test/loss": "run2 run0 run1 torn",
    }.items(),
)
def test_runs_come_in_the_order_that_is_named(sort: str, names: str, folder: Path) -> None:
    in_order = [run.name for run in runs(folder, sort=sort)]
    assert in_order[: len(names.split())] == names.split() and len(in_order) == 4
    assert [run.name for run in runs(folder, sort=sort, limit=2)] == in_order[:2]


def test_a_run_that_two_paths_lead_to_comes_once(folder: Path) -> None:
    assert len(runs([folder, folder / "default"], where="run1")) == 1


def test_a_path_without_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        runs(tmp_path / "nothing")


def test_the_command_lists_runs_as_table_json_and_csv(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "runs", str(folder), "--where", "d_model>=64", "--columns", "name,d_model,result"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["run2  128      loss 3", "run1  64       loss 1"]
    assert main(["list", "runs", str(folder), "--json", "--columns", "name,test/loss"]) == 0
    assert json.loads(capsys.readouterr().out)[0] == {"name": "run2", "test/loss": 3.0}
    assert main(["list", "runs", str(folder), "--json", "--limit", "1"]) == 0
    (whole,) = json.loads(capsys.readouterr().out)
    assert whole["results"] == {"test/loss": 3.0} and whole["path"].startswith(str(folder))
    assert main(["list", "runs", str(folder), "--csv", "--columns", "name,d_model", "--sort", "name"]) == 0
    assert capsys.readouterr().out.splitlines() == ["name,d_model", "run0,32", "run1,64", "run2,128", "torn,"]
    assert main(["list", "runs", str(folder), "--where", "nothing=1"]) == 0
    assert "no run matches" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        (["--columns", "nmae,seed"], "--columns nmae is not a field of these runs: did you mean name?"),
        (["--columns", "d_modl"], "did you mean d_model"),
        (["--sort", "losss"], "--sort losss is not a field of these runs: did you mean loss"),
        (["--sort=-xyzzy"], "choose among arm, name, seed"),
    ],
)
def test_a_field_that_no_run_has_is_refused_with_those_that_are_near(
    options: list[str], advice: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", "runs", str(folder), *options]) == 2
    assert advice in " ".join(capsys.readouterr().err.split())
    with pytest.raises(UsageError, match=r"columns=\['nmae'\] is not a field"):
        runs(folder).to_frame(["nmae"])


@pytest.mark.parametrize("name", ["test/accuracy", "joules", "notes", "result", "d_model", "model.d_model"])
def test_a_field_that_runs_may_have_is_shown_empty(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "runs", str(folder), "--columns", name]) == 0
    assert capsys.readouterr().out.startswith(name)

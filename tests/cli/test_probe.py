"""h2h probe as a user meets it: what it prints, which files it leaves, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fresh_runs import ROWS, fresh_run
from headtohead.cli import main

SMALL_DATA = [*ROWS, "data.context_length=16", "data.tokenizer=char"]


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run() -> Path:
    return fresh_run(Path("outputs"), *SMALL_DATA).folder


@pytest.mark.slow
def test_text_gives_a_table_and_files_in_the_runs_folder(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", str(run), "--text", "the bird sings."]) == 0
    shown = capsys.readouterr()
    assert "entropy" in shown.out and "layer 2" in shown.out
    [page] = run.glob("probe/the-bird-sings-*/attention.html")
    assert f"page: {page.relative_to(Path.cwd())}" in shown.err
    names = {file.name for file in page.parent.iterdir()}
    assert {"stack.0.mixer.png", "stack.0.mixer.without_mask.png", "stack.0.mixer.npz", "statistics.csv"} <= names


def test_figures_come_as_json(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", str(run), "--text", "the bird", "--json", "--out", "here"]) == 0
    message = json.loads(capsys.readouterr().out)
    assert message["run"] == run.name and len(message["statistics"]["stack.0.mixer"]["entropy"]) == 2
    assert all(Path(file).is_file() for file in message["files"]) and message["files"][-1].startswith("here/the-bird-")


@pytest.mark.slow
def test_without_a_text_rows_of_the_test_split_are_taken(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", str(run)]) == 0
    assert (run / "probe" / "test-0-1-2" / "attention.html").is_file()
    assert main(["probe", str(run), "--rows", "5", "--split", "validation"]) == 0
    assert (run / "probe" / "validation-5" / "attention.html").is_file()


@pytest.mark.slow
def test_a_comparison_is_written_beside_the_page_of_the_run_and_other_rows_beside_the_data(run: Path) -> None:
    shown = [("--rows", "0"), ("--rows", "0", "--against", "before"), ("--rows", "0", "--against", str(run)),
             ("--data",), ("--data", "--rows", "0,1"), ("--data", "--split", "test")]  # fmt: skip
    for arguments in shown:
        assert main(["probe", str(run), *arguments]) == 0
    assert len([*run.glob("probe/*/*.html")]) == len(shown)
    assert (run / "probe" / "test-0-against-before" / "attention.html").is_file()


@pytest.mark.slow
def test_data_is_shown_with_and_without_a_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", str(run), "--data"]) == 0
    assert (run / "probe" / "data" / "data.html").is_file()
    assert "tokens of a document within a row" in " ".join(capsys.readouterr().out.split())
    assert main(["probe", "--data", "model=encoder_only", "task=masked_lm", *SMALL_DATA, "--json"]) == 0
    message = json.loads(capsys.readouterr().out)
    assert message["splits"][0]["scored"] == pytest.approx(0.15, abs=0.05)
    assert Path("outputs/probe/data/data.html").is_file()


@pytest.mark.slow
def test_positions_are_shown_with_and_without_a_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", str(run), "--positions"]) == 0
    assert "Rotary" in capsys.readouterr().out and (run / "probe" / "positions" / "stack-rotary.png").is_file()
    assert main(["probe", "--positions", "model/position=alibi", *SMALL_DATA, "--out", "mine", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["positions"][0]["encoding"] == "Alibi"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "needs a run's folder"),
        (["model=encoder_only"], "needs a run's folder"),
        (["somewhere", "--text", "a"], "somewhere"),
        (["one", "two"], "looks into one run, and one and two are given"),
        (["one", "--data", "seed=1"], "one keeps its own configuration: leave seed=1 out"),
        (["one", "--text", "a", "--rows", "1"], "give one of --text and --rows"),
        (["one", "--rows", "x"], "give row numbers"),
        (["one", "--second", "b"], "--second goes with --text"),
        (["--data", "--positions"], "not allowed with"),
        (["--data", "--text", "a"], "--text is for attention maps, and --data shows none"),
        (["--positions", "model/position=none", *SMALL_DATA], "no positional encoding to plot"),
    ],
    ids=" ".join,
)
def test_refusals_are_one_line(arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and reason in shown.err and shown.err.count("\n") == 1
    assert "HEADTOHEAD_DEBUG" not in shown.err


@pytest.mark.slow
def test_data_that_no_text_spells_says_which_rows_to_give(capsys: pytest.CaptureFixture[str]) -> None:
    run = fresh_run(Path("outputs"), "data=associative_recall", "data.length=16", "data.num_pairs=2", *ROWS)
    assert main(["probe", str(run.folder), "--text", "k1"]) == 2
    assert "--rows 0,1,2" in capsys.readouterr().err
    assert main(["probe", str(run.folder), "--rows", "0,1,2"]) == 0

"""Rows that are left out because they lack a value are said on the terminal, in the record and beside verdicts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cli.test_leaks_shown import SMALL
from cli.test_leaks_shown import record as measured
from headtohead.cli import main
from headtohead.comparison.comparison import comparison_of
from headtohead.comparison.contrasts import ComparisonSpec
from headtohead.records.left_out import left_out_in, left_out_sentence
from headtohead.records.run_folder import scan

SENTENCE = "2 of 42 rows lack a value and are left out (1 without a label, 1 without a text)"


@pytest.mark.slow
def test_a_run_and_its_comparison_say_what_was_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    own = [f"a text to learn {row},{('no', 'yes')[row % 2]}" for row in range(40)]
    file = tmp_path / "rows.csv"
    file.write_text("\n".join(["text,label", *own, "a text,", ",yes", ""]), encoding="utf-8")
    arguments = [*SMALL, f"data.path={file}", f"output_dir={tmp_path / 'outputs'}", "data.missing=drop"]
    assert main(["train", *arguments]) == 0
    assert SENTENCE in " ".join("".join(capsys.readouterr()).split())
    (record,) = scan(tmp_path / "outputs")
    assert record.data["left_out"]["files"] == {"rows.csv": 2} and left_out_in([record]) == [SENTENCE]
    compared = [replace(measured(arm, seed, {}), data=record.data) for arm in "ab" for seed in (0, 1)]
    assert SENTENCE in comparison_of(compared, ComparisonSpec("a")).remarks


def test_nothing_is_said_where_nothing_is_left_out() -> None:
    assert left_out_sentence({}) is None
    one = {"rows": 1, "of": 9, "without": {"second_text": 1}, "files": {"a.csv": 1}}
    assert left_out_sentence(one) == "1 of 9 rows lacks a value and is left out (1 without a second text)"

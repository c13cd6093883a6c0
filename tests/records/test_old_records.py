"""Records of every schema version, kept as they were written: read, compared with today's and run again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from headtohead.cli import main
from headtohead.config.origins.from_run import rerun
from headtohead.config.origins.from_weights import build_data
from headtohead.records.record import SCHEMA_VERSION, from_json, to_json

OLD = sorted((Path(__file__).parent / "version_1").glob("*.json"))


def placed(text: str, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(text, encoding="utf-8")


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """The runs of version 1 as they are, and those of a third seed as they are written now."""
    for file in OLD:
        (tmp_path / file.stem).mkdir()
        shutil.copy(file, tmp_path / file.stem / "record.json")
        record = from_json(file.read_text(encoding="utf-8"))
        if record.place.seed == 0:
            made = replace(record, id=f"{record.id}-2", place=replace(record.place, seed=2))
            placed(to_json(made), tmp_path / made.id)
    return tmp_path


@pytest.mark.parametrize("file", OLD, ids=lambda file: file.stem)
def test_a_record_of_version_1_is_read_and_written_as_it_was(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    record = from_json(text)
    assert json.loads(to_json(record)) == {**json.loads(text), "schema_version": SCHEMA_VERSION}
    assert (record.place.study, f"{record.place.arm}-s{record.place.seed}") == ("norms_small", file.stem)


@pytest.mark.slow
@pytest.mark.parametrize("file", OLD, ids=lambda file: file.stem)
def test_a_run_of_version_1_is_run_again(file: Path) -> None:
    assert build_data(rerun(file)).spec().kind == "language"


def test_old_and_new_records_are_arms_of_one_comparison(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(mixed), "--against", "layer_norm", "--json"]) == 0
    (verdict,) = json.loads(capsys.readouterr().out)["verdicts"]
    assert (verdict["arm"], verdict["seeds"]) == ("rms_norm", [0, 1, 2])


def test_a_record_of_a_newer_version_is_refused_by_name_and_the_others_compared(
    mixed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = {**json.loads(OLD[0].read_text(encoding="utf-8")), "schema_version": SCHEMA_VERSION + 1}
    placed(json.dumps(newer), mixed / "from_tomorrow")
    assert main(["compare", str(mixed), "--against", "layer_norm", "--json"]) == 1, "not all of them could be read"
    message = capsys.readouterr()
    assert "from_tomorrow" in message.err and "upgrade" in message.err
    data = json.loads(message.out)
    assert any("from_tomorrow" in remark for remark in data["remarks"])
    assert data["verdicts"][0]["seeds"] == [0, 1, 2]

"""Records that an older headtohead wrote, kept as they were: read, and compared with today's."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import headtohead as h2h
from headtohead.building.build import build_data
from headtohead.building.rerunning import rerun
from headtohead.building.sources import find_target
from headtohead.cli import main
from headtohead.tracking.moved import as_named_now
from headtohead.tracking.record import SCHEMA_VERSION, from_json, to_json
from headtohead.tracking.store import RunFolder

OLD = sorted((Path(__file__).parent / "records" / "version_1").glob("*.json"))


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
def test_a_record_of_version_1_knows_its_place_in_its_study(file: Path) -> None:
    raw = json.loads(file.read_text(encoding="utf-8"))
    record = from_json(file.read_text(encoding="utf-8"))
    assert raw["schema_version"] == 1 and record.schema_version == SCHEMA_VERSION
    assert (record.place.study, f"{record.place.arm}-s{record.place.seed}") == ("norms_small", file.stem)
    assert record.metrics["test"] == raw["metrics"]["test"]


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
    told = capsys.readouterr()
    assert "from_tomorrow" in told.err and "upgrade" in told.err
    data = json.loads(told.out)
    assert any("from_tomorrow" in remark for remark in data["remarks"])
    assert data["verdicts"][0]["seeds"] == [0, 1, 2]


CHOICES = Path(__file__).parents[2] / "conf" / "data"
FOLDERS = ("headtohead.data.generated.", "headtohead.data.tables.")


@pytest.mark.parametrize("file", OLD, ids=lambda file: file.stem)
def test_a_run_is_run_again_though_its_classes_have_moved_since(file: Path) -> None:
    data = json.loads(file.read_text(encoding="utf-8"))["config"]["data"]
    assert find_target(data["_target_"]) is None, "a record that tells nothing of a move shows nothing"
    assert build_data(rerun(file)).spec().kind == "language"


def test_a_kept_configuration_is_opened_though_its_classes_have_moved_since(tmp_path: Path) -> None:
    config = {
        "data": {"_target_": "headtohead.data.text_to_text.TextToText", "of": {}},
        "tags": ["headtohead.data.dyck"],
    }
    config["data"]["of"] = {"_target_": "headtohead.data.dyck.Dyck", "depths": [{"_target_": "a.b"}]}
    run = RunFolder.create(tmp_path, name="old")
    run.write_config(yaml.safe_dump(config))
    found = run.read_config()
    assert found["data"]["of"].pop("_target_") == "headtohead.data.generated.dyck.Dyck"
    del config["data"]["of"]["_target_"]
    assert found == config


def test_a_kept_configuration_trains_as_it_stands_though_its_classes_have_moved_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    sizes = ["data.num_train=20", "data.num_validation=4", "data.num_test=4", "trainer.max_steps=0", "probe=none"]
    config = h2h.compose("train", [*sizes, "trainer=cpu", "tracking=none", f"output_dir={tmp_path}"])
    now = config["data"]["_target_"]
    config["data"]["_target_"] = now.replace(".generated.", ".")
    assert find_target(config["data"]["_target_"]) is None
    record = h2h.train(config)
    assert record.status == "finished" and record.config["data"]["_target_"] == now


def test_all_data_of_one_s_own_and_all_generated_data_is_known_by_its_first_place() -> None:
    targets = [yaml.safe_load(file.read_text(encoding="utf-8")).get("_target_", "") for file in CHOICES.glob("*.yaml")]
    moved = [target for target in targets if target.startswith(FOLDERS)]
    assert len(moved) > 20
    for target in moved:
        first = f"headtohead.data.{target.split('.', 3)[-1]}"
        assert as_named_now({"_target_": first}) == {"_target_": target}

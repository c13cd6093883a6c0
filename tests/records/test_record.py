"""The record: strict JSON there and back, versions, secrets, and its page in the docs."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headtohead.metrics import metrics
from headtohead.records import record as record_module
from headtohead.records.record import (
    CheckpointSelection,
    Comparability,
    Environment,
    Progress,
    RunRecord,
    RunTiming,
    Seeds,
    StudyPosition,
    WandbLink,
    from_json,
    to_json,
)
from headtohead.records.strict_json import RecordError

PARTS = {
    "place": StudyPosition,
    "seeds": Seeds,
    "selection": CheckpointSelection,
    "timing": RunTiming,
    "progress": Progress,
    "environment": Environment,
    "comparability": Comparability,
    "wandb": WandbLink,
}
PAGE = Path(__file__).parents[2] / "docs" / "record.md"


def full_record() -> RunRecord:
    return RunRecord(
        id="tiny-20260101-abcdef",
        name="tiny",
        tags=["a", "b"],
        notes="words with ümlauts\nand lines",
        status="diverged",
        reason="loss is NaN at step 3",
        seed=7,
        seeds=Seeds(1, 2, 3),
        config={"model": {"d_model": 64, "dropout": 0.1, "vocab_size": None}, "tags": ["a"], "flag": True},
        costs={"totals": {"parameters": 10**12, "training_flops_per_token": 1.5}},
        metrics={"validation": {"loss": 2.5}, "test": {}},
        baselines={"loss": 4.1},
        selection=CheckpointSelection("accuracy", "max", 20, 0.5),
        throughput={"tokens_per_second": 1000.0, "mfu": None},
        place=StudyPosition("norms", "rms", 3, None, 0.5),
        cannot={"test_2x": "the table of positions has 64 rows"},
        progress=Progress(30, 1, 4000, 1e15, 12.5),
        environment=Environment(packages={"torch": "2.13"}, git_commit="abc", git_dirty=False),
        wandb=WandbLink("tiny", "offline", None, "wandb/offline-run"),
        links={"best": "checkpoints/best.pt"},
    )


def changed(**changes: Any) -> str:
    data = json.loads(to_json(full_record()))
    return json.dumps({**data, **changes})


def test_a_record_reads_back_as_it_was_written() -> None:
    assert from_json(to_json(full_record())) == full_record()


def test_numbers_that_json_lacks_are_written_as_text_and_read_as_numbers() -> None:
    record = full_record()
    record.metrics["validation"] = {"loss": math.nan, "perplexity": math.inf, "score": -math.inf}
    record.config["limit"] = math.inf

    text = to_json(record)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    assert json.loads(text, parse_constant=refuse)["config"]["limit"] == "Infinity"
    read = from_json(text).metrics["validation"]
    assert math.isnan(read["loss"])
    assert (read["perplexity"], read["score"]) == (math.inf, -math.inf)


def test_numpy_numbers_and_paths_are_recorded_as_plain_values() -> None:
    record = full_record()
    record.config = {"a": np.float32(0.5), "b": np.int64(3), "c": Path("x/y"), "d": (1, 2), 5: "five"}  # type: ignore[dict-item]

    assert from_json(to_json(record)).config == {"a": 0.5, "b": 3, "c": "x/y", "d": [1, 2], "5": "five"}


@pytest.mark.parametrize("value", [object(), b"bytes", {1, 2}, np.zeros(2)])
def test_a_value_without_a_place_in_json_is_refused_by_its_path(value: object) -> None:
    record = full_record()
    record.config = {"model": {"odd": value}}

    with pytest.raises(RecordError, match=r"record\.config\.model\.odd"):
        to_json(record)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": "red"}, "unknown colour"),
        ({"status": "done"}, r"status is 'done'; choose from running, finished, diverged"),
        ({"seed": "3"}, r"seed is '3'; expected int"),
        ({"seed": True}, r"seed is True; expected int"),
        ({"tags": "a"}, r"tags is 'a'; expected list"),
        ({"progress": {"step": 1}}, r"progress: missing epoch, tokens, flops, seconds"),
        ({"metrics": {"test": {"loss": "low"}}}, r"metrics\.test\.loss is 'low'; expected float"),
        ({"throughput": {"mfu": "high"}}, r"throughput\.mfu is 'high'; expected float"),
        ({"wandb": None}, r"wandb is None; expected an object"),
    ],
)
def test_a_field_that_does_not_fit_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RecordError, match=message):
        from_json(changed(**changes), where="here")


def test_a_missing_field_is_named() -> None:
    data = json.loads(to_json(full_record()))
    del data["comparability"]

    with pytest.raises(RecordError, match="record: missing comparability"):
        from_json(json.dumps(data))


@pytest.mark.parametrize("text", ["", "{", "[]", "3"])
def test_text_that_is_no_record_is_refused_with_its_file(text: str) -> None:
    with pytest.raises(RecordError, match=r"outputs/x/record\.json"):
        from_json(text, where="outputs/x/record.json")


def test_a_record_of_a_newer_version_is_refused_with_the_advice_to_upgrade() -> None:
    with pytest.raises(RecordError, match=r"schema_version is 99.*newer headtohead, so upgrade"):
        from_json(changed(schema_version=99, colour="red"))


@pytest.mark.parametrize("version", [None, "1", 0, True])
def test_a_record_without_a_version_is_refused(version: object) -> None:
    with pytest.raises(RecordError, match="schema_version is"):
        from_json(changed(schema_version=version))


def test_an_older_record_is_read_through_every_migration_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_module, "SCHEMA_VERSION", 3)
    monkeypatch.setattr(
        record_module,
        "MIGRATIONS",
        {
            1: lambda data: {**data, "name": data["name"] + "+1"},
            2: lambda data: {**data, "name": data["name"] + "+2"},
        },
    )

    read = from_json(changed(schema_version=1))

    assert (read.name, read.schema_version) == ("tiny+1+2", 3)


def test_an_older_record_that_is_damaged_is_refused_with_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_module, "SCHEMA_VERSION", 2)
    monkeypatch.setattr(record_module, "MIGRATIONS", {1: lambda data: {**data, "name": data["nothing"]}})
    with pytest.raises(RecordError, match=r"runs/a is not a record of version 1, whatever it says"):
        from_json(changed(schema_version=1), where="runs/a")


def test_every_older_version_has_a_migration() -> None:
    assert sorted(record_module.MIGRATIONS) == list(range(1, record_module.SCHEMA_VERSION))


def test_secrets_in_the_config_are_masked_in_the_text_and_kept_in_the_object() -> None:
    record = full_record()
    record.config = {"tracking": {"api_key": "abc123"}, "data": {"token": "hf_xyz", "max_tokens": 5}}

    text = to_json(record)

    assert "abc123" not in text
    assert "hf_xyz" not in text
    assert from_json(text).config["data"]["max_tokens"] == 5
    assert record.config["tracking"]["api_key"] == "abc123"


def documented(section: str) -> list[str]:
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {section}\n" if section == "Fields" else f"\n### {section}\n")[
        1
    ]
    return re.findall(r"^\| `(\w+)` \|", re.split(r"\n##+ ", text)[0], re.MULTILINE)


def test_the_page_explains_every_field_of_the_record_and_no_other() -> None:
    stored = [field.name for field in fields(RunRecord) if field.metadata.get("stored", True)]
    assert documented("Fields") == stored


@pytest.mark.parametrize("part", PARTS)
def test_the_page_explains_every_field_of_each_part(part: str) -> None:
    assert documented(part) == [field.name for field in fields(PARTS[part])]


def test_the_page_tells_the_version_in_force() -> None:
    assert f"the version of this page: {record_module.SCHEMA_VERSION} |" in PAGE.read_text(encoding="utf-8")


@pytest.mark.process
def test_records_and_tables_are_read_without_torch_lightning_hydra_and_wandb() -> None:
    code = (
        "import sys, headtohead.comparison.tables.run_table, headtohead.wandb_client.wandb_tracker\n"
        "heavy = {'torch', 'pytorch_lightning', 'lightning', 'hydra', 'omegaconf', 'wandb'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_metric_comes_back_from_a_record_as_it_was() -> None:
    saved = {metric.name: replace(metric, chance=0.25) for metric in metrics().values()}
    assert from_json(to_json(RunRecord(id="a-1", scales=saved))).scales == saved


def test_the_baseline_of_a_stage_is_its_own_and_else_that_of_the_test() -> None:
    record = RunRecord(id="a-1", baselines={"loss": 3.0, "validation/loss": 3.1})
    assert (record.baseline("test", "loss"), record.baseline("validation", "loss")) == (3.0, 3.1)
    assert record.baseline("test_4x", "loss") == 3.0 and record.baseline("test", "accuracy") is None

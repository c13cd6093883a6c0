"""SQuAD, WNUT-17, CoNLL-2003 and STS-B from raw files to a metric: trained for a few steps, and measured again from the
raw rows and what the runs have written."""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch
from scipy import stats

import headtohead as h2h
from headtohead.cli import main
from headtohead.config.origins.from_weights import build_data
from headtohead.data.batches.batch import IGNORED
from headtohead.records.record import RunRecord
from published_sets import all_sets

TINY = [
    "model=encoder_only", "model.d_model=16", "model.num_layers=1", "model.num_heads=2",
    "model/position=sinusoidal", "data.batch_size=8", "data.vocab_size=300", "trainer.max_steps=6",
    "trainer.validate_every=6", "trainer.accelerator=cpu", "trainer.threads=1", "trainer.progress_bar=false",
    "optimizer.lr=0.01", "tracking=none", "probe=none", "group=published",
]  # fmt: skip
TASKS = {
    "squad": ["task=span_qa", "data.max_length=96", "data.stride=32"],
    "squad_v2": ["task=span_qa", "data.max_length=96", "data.stride=32"],
    "wnut17": ["task=tagging", "data.max_length=40"],
    "conll2003": ["task=tagging", "data.max_length=40"],
    "stsb": ["task=similarity"],
}
TEST_ROWS = {
    "squad": "plain_text/validation-00000-of-00001.parquet",
    "squad_v2": "squad_v2/validation-00000-of-00001.parquet",
    "wnut17": "wnut_17/test/0000.parquet",
    "conll2003": "data/test.parquet",
    "stsb": "stsb/validation-00000-of-00001.parquet",
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    written = {name: tmp_path_factory.mktemp(name) for name in TASKS}
    for name, folder in written.items():
        all_sets()[name](folder)
    return written


@pytest.fixture(scope="module")
def records(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunRecord]:
    outputs = tmp_path_factory.mktemp("outputs")
    return {
        name: h2h.train(
            h2h.compose(
                "train", [f"data={name}", f"data.folder={folders[name]}", *more, *TINY, f"output_dir={outputs}"]
            )
        )
        for name, more in TASKS.items()
    }


def raw_rows(name: str, folders: dict[str, Path]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = parquet.read_table(folders[name] / TEST_ROWS[name]).to_pylist()
    return rows


def written(record: RunRecord, name: str) -> Any:
    assert record.path is not None
    return json.loads((record.path / "predictions" / f"{name}.json").read_text())


def plain_words(text: str) -> list[str]:
    text = "".join(sign for sign in text.lower() if sign not in set(string.punctuation))
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def plain_f1(message: str, true: str) -> float:
    one, other = plain_words(message), plain_words(true)
    if not one or not other:
        return float(one == other)
    shared = sum((Counter(one) & Counter(other)).values())
    return 0.0 if not shared else 2 * shared / (len(one) + len(other))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["squad", "squad_v2"])
def test_predictions_score_as_the_record_says(
    name: str, records: dict[str, RunRecord], folders: dict[str, Path]
) -> None:
    record, rows = records[name], raw_rows(name, folders)
    predictions = written(record, "predictions")
    assert sorted(predictions) == sorted(row["id"] for row in rows)
    exact, f1 = [], []
    for row in rows:
        message, golds = predictions[row["id"]], row["answers"]["text"] or [""]
        assert message in row["context"]
        exact.append(max(plain_words(message) == plain_words(gold) for gold in golds))
        f1.append(max(plain_f1(message, gold) for gold in golds))
    measured = record.metrics["test"]
    assert measured["exact_match"] == pytest.approx(np.mean(exact))
    assert measured["f1"] == pytest.approx(np.mean(f1))
    windows = build_data(h2h.load_run(record.path).config).split("test")  # type: ignore[arg-type]
    assert len(windows) > len(rows), "long contexts have several windows"


@pytest.mark.slow
def test_threshold_of_the_test_is_that_of_the_selected_validation(records: dict[str, RunRecord]) -> None:
    record = records["squad_v2"]
    chosen = record.metrics["validation"]["no_answer_threshold"]
    assert record.metrics["test"]["no_answer_threshold"] == chosen
    predictions, odds = written(record, "predictions"), written(record, "null_odds")
    assert {id_ for id_, message in predictions.items() if not message} == {id_ for id_ in odds if odds[id_] > chosen}
    assert "no_answer_threshold" not in records["squad"].metrics["test"]


@pytest.mark.slow
def test_evaluation_of_a_run_applies_its_threshold_and_writes_its_predictions(
    records: dict[str, RunRecord], capsys: pytest.CaptureFixture[str]
) -> None:
    record = records["squad_v2"]
    assert record.path is not None
    assert main(["evaluate", str(record.path), "--json"]) == 0
    capsys.readouterr()
    (folder,) = [path for path in (record.path / "evaluations").iterdir() if path.is_dir()]
    assert json.loads((folder / "predictions.json").read_text()) == written(record, "predictions")


@pytest.mark.parametrize("name", ["wnut17", "conll2003"])
def test_entities_are_counted_over_the_raw_words_and_tags(
    name: str, records: dict[str, RunRecord], folders: dict[str, Path]
) -> None:
    record, rows = records[name], raw_rows(name, folders)
    assert record.path is not None
    run = h2h.load_run(record.path)
    source = build_data(run.config)
    names = source.spec().class_names
    batch = source.split("test").batch(np.arange(len(rows)))
    assert batch.targets is not None and batch.lost_tags is not None
    with torch.no_grad():
        guessed = run.model(**batch.inputs()).argmax(-1)
    right = num_predicted = there = 0
    for row, tags, position in zip(guessed.tolist(), batch.targets.tolist(), range(len(rows)), strict=True):
        true = [tag if isinstance(tag, str) else names[tag] for tag in rows[position]["ner_tags"]]
        predicted = [names[tag] for tag, target in zip(row, tags, strict=True) if target != IGNORED]
        predicted += ["O"] * (len(true) - len(predicted))
        result, expected = entities(predicted), entities(true)
        right, num_predicted, there = right + len(result & expected), num_predicted + len(result), there + len(expected)
    measured = record.metrics["test"]
    assert there == sum(
        tag.startswith("B-") if isinstance(tag, str) else names[tag][0] == "B"
        for row in rows
        for tag in row["ner_tags"]
    )
    assert measured["entity_precision"] == pytest.approx(right / num_predicted if num_predicted else 0.0)
    assert measured["entity_recall"] == pytest.approx(right / there)


def entities(tags: list[str]) -> set[tuple[str, int, int]]:
    """Return entities by seqeval's default: an I- that continues nothing of its type begins an entity."""
    result, begin, kind = set(), 0, ""
    for position, tag in enumerate([*tags, "O"]):
        goes_on = tag[:2] == "I-" and tag[2:] == kind
        if kind and not goes_on:
            result.add((kind, begin, position - 1))
        if not goes_on:
            begin, kind = position, tag[2:]
    return result


def test_published_names_of_tags_are_those_of_the_run(records: dict[str, RunRecord]) -> None:
    spec = build_data(h2h.load_run(records["wnut17"].path).config).spec()  # type: ignore[arg-type]
    assert spec.class_names[:3] == ("O", "B-corporation", "I-corporation") and len(spec.class_names) == 13


def test_correlations_are_those_of_scipy_on_the_raw_scores(
    records: dict[str, RunRecord], folders: dict[str, Path]
) -> None:
    record, rows = records["stsb"], raw_rows("stsb", folders)
    assert record.path is not None
    run = h2h.load_run(record.path)
    batch = build_data(run.config).split("test").batch(np.arange(len(rows)))
    with torch.no_grad():
        message = run.model(**batch.inputs()).double().numpy()
    true = np.array([row["label"] for row in rows])
    assert record.metrics["test"]["pearson"] == pytest.approx(stats.pearsonr(message, true).statistic, abs=1e-5)
    assert record.metrics["test"]["spearman"] == pytest.approx(stats.spearmanr(message, true).statistic, abs=1e-3)

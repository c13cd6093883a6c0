"""Samples and tables of a run: what is written where, and that training never notices."""

from __future__ import annotations

import csv
import json
import logging
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from headtohead.data.batches.batch import Batch
from headtohead.data.data_source import DataSpec, Split, SplitName
from headtohead.records.record import RunRecord
from headtohead.tasks.causal_lm import CausalLanguageModelling
from headtohead.tasks.classification import Classification
from headtohead.tasks.next_sentence import MaskedLanguageModellingWithNextSentence
from headtohead.tasks.similarity import Similarity
from headtohead.tasks.span_qa import SpanQuestionAnswering
from headtohead.tasks.tagging import Tagging
from headtohead.training.callbacks.sample_logger import shows_at
from headtohead.training.checkpoints import load, load_best
from headtohead.training.optim.optimizers import adamw
from headtohead.training.run import train
from headtohead.training.run_components import RunComponents, TrainerSettings
from run_folders import OFFLINE, history
from small_batches import (
    NEXT,
    QUESTIONS,
    SCORES,
    TAGS,
    decode,
    question_batch,
    scored_batch,
    sentence_pair_batch,
    tagged_batch,
)
from small_models import small_model
from training.runs import NUM_ROWS, TinyData, curve, parts


class Drawn(Split):
    """Rows of one of the small batches."""

    def __init__(self, name: SplitName, make: Any) -> None:
        self._batch: Batch = make(NUM_ROWS[name], seed=len(name))

    def __len__(self) -> int:
        return self._batch.num_samples

    def batch(self, rows: np.ndarray) -> Batch:
        return self._batch.chosen(torch.from_numpy(np.asarray(rows)))


class DrawnData(TinyData):
    def __init__(self, spec: DataSpec, make: Any) -> None:
        super().__init__()
        self._spec, self._make = spec, make

    def spec(self) -> DataSpec:
        return self._spec

    def split(self, name: SplitName) -> Split:
        return Drawn(name, self._make)

    def decode(self, ids: Any) -> str:
        return decode(ids)


OF_TASKS: dict[str, tuple[Any, DataSpec, Any, set[str]]] = {
    "tags": (Tagging, TAGS, tagged_batch, {"samples.csv", "entities.csv"}),
    "scores": (Similarity, SCORES, scored_batch, {"samples.csv"}),
    "questions": (SpanQuestionAnswering, QUESTIONS, question_batch, {"samples.csv"}),
    "pairs": (MaskedLanguageModellingWithNextSentence, NEXT, sentence_pair_batch, {"samples.csv"}),
    "labels": (
        Classification, NEXT, sentence_pair_batch,
        {"samples.csv", "confusion_matrix.csv", "confusion_matrix.png", "per_class.csv"},
    ),
}  # fmt: skip


def of_task(name: str, folder: Path, **changes: Any) -> RunComponents:
    task_class, spec, make, _ = OF_TASKS[name]
    task = task_class().bind(spec)

    def model() -> Any:
        return small_model("encoder_only", head=task.head, num_classes=spec.num_classes)

    return parts(folder, make_model=model, task=task, data=DrawnData(spec, make), max_steps=4, num_samples=8, **changes)


@pytest.fixture(scope="module")
def of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], RunRecord]:
    """One run of each task, where a test asks for it."""
    return cache(lambda name: train(of_task(name, tmp_path_factory.mktemp(name))))


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


def folders(record: RunRecord) -> list[str]:
    assert record.path is not None
    return sorted(folder.name for folder in (record.path / "tables").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_TASKS)
def test_every_task_trains_and_leaves_its_tables(of: Callable[[str], RunRecord], name: str) -> None:
    record = of(name)
    assert record.status == "finished", record.reason
    assert folders(record) == ["step_000004", "test"]
    for folder in ("step_000004", "test"):
        files = {file.name: file for file in (record.path / "tables" / folder).iterdir()}
        assert set(files) == OF_TASKS[name][3]
        assert len(rows_of(files["samples.csv"])) == (7 if folder == "test" else 8), "all rows of a small split"
    assert set(record.metrics["test"]) <= set(record.baselines), "every metric has its baseline"
    message = {f"validation/{metric}" for metric in record.metrics["validation"]}
    assert message <= set(record.baselines), "on the split that is shown"
    assert set(record.metrics["test"]) <= set(record.scales), "the record says what each result is"


def test_a_confusion_matrix_counts_the_rows_of_its_split_and_is_a_picture(of: Callable[[str], RunRecord]) -> None:
    record = of("labels")
    matrix = rows_of(record.path / "tables" / "test" / "confusion_matrix.csv")
    counts = [int(row[name]) for row in matrix for name in ("next", "random")]
    assert sum(counts) == NUM_ROWS["test"]
    right = int(matrix[0]["next"]) + int(matrix[1]["random"])
    assert record.metrics["test"]["accuracy"] == pytest.approx(right / NUM_ROWS["test"], abs=1e-6)
    with Image.open(record.path / "tables" / "test" / "confusion_matrix.png") as picture:
        assert picture.format == "PNG" and min(picture.size) > 200


def test_baselines_that_rows_alone_tell_are_those_of_the_test_split(of: Callable[[str], RunRecord]) -> None:
    record = of("questions")
    assert record.baselines["loss"] < np.log(QUESTIONS.max_length), "fewer places than the longest row has"
    assert 0 < record.baselines["exact_match"] < record.baselines["f1"] < 1, "the whole text is some of the answers"


@pytest.mark.slow
def test_samples_change_nothing_of_a_run(tmp_path: Path) -> None:
    """Dropout draws from the generator that samples might have drawn from."""
    with_samples = train(parts(tmp_path, max_steps=12, validate_every=3, num_samples=8))
    state = torch.get_rng_state()
    without = train(parts(tmp_path, max_steps=12, validate_every=3, num_samples=0))
    assert torch.equal(torch.get_rng_state(), state)
    assert folders(with_samples) == ["step_000003", "step_000006", "step_000009", "step_000012", "test"]
    assert not (without.path / "tables").exists()
    for name in ("train/loss", "validation/loss", "test/loss", "gradient_norm/embedding"):
        assert curve(with_samples.path, name) == curve(without.path, name), name
    assert with_samples.metrics == without.metrics


@pytest.mark.slow
def test_what_is_shown_comes_from_the_averaged_weights_where_these_are_evaluated(tmp_path: Path) -> None:
    fast = partial(adamw, lr=0.05)
    run = of_task("labels", tmp_path, weight_averaging=0.9, optimizer=fast)
    record = train(run)
    batch = run.data.split("validation").batch(np.arange(8))
    averaged = run.make_model().eval()
    averaged.load_state_dict(load_best(record.path)["model"])
    trained = run.make_model().eval()
    last = load(record.path / "checkpoints" / "last.ckpt")["state_dict"]
    trained.load_state_dict({name.removeprefix("model."): tensor for name, tensor in last.items()})
    shown = rows_of(record.path / "tables" / "step_000004" / "samples.csv")
    assert shown == run.task.samples(averaged, batch, decode) != run.task.samples(trained, batch, decode)


class Clumsy(CausalLanguageModelling):
    def samples(self, model: Any, batch: Any, decode: Any) -> list[dict[str, str]]:
        raise RuntimeError("no luck\nat all")


@pytest.mark.slow
def test_a_sample_that_fails_is_told_once_and_costs_no_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "headtohead"):
        record = train(parts(tmp_path, task=Clumsy().bind(TinyData().spec()), max_steps=10, num_samples=8))
    assert record.status == "finished"
    message = [entry.getMessage() for entry in caplog.records if "samples" in entry.getMessage()]
    assert message == ["no samples at step 5 (RuntimeError: no luck); the run continues without them"]


@pytest.mark.process
def test_wandb_has_the_samples_the_tables_and_the_picture(tmp_path: Path) -> None:
    record = train(of_task("labels", tmp_path, tracking=OFFLINE))
    directory = record.path / (record.wandb.directory or "")
    rows = [row["item"] for row in history(directory)]
    for stage, folder in (("validation", "step_000004"), ("test", "test")):
        for name in ("samples", "confusion_matrix"):
            (row,) = [row for row in rows if row.get(f"{stage}/{name}._type") == "table-file"]
            assert row["trainer/global_step"] == 4
            held = json.loads((directory / "files" / row[f"{stage}/{name}.path"]).read_text(encoding="utf-8"))
            ours = rows_of(record.path / "tables" / folder / f"{name}.csv")
            assert held["columns"] == list(ours[0])
            assert [[str(cell) for cell in cells] for cells in held["data"]] == [list(row.values()) for row in ours]
        (row,) = [row for row in rows if any(key.startswith(f"{stage}/confusion_matrix_picture") for key in row)]
        assert row["trainer/global_step"] == 4
    assert len(list(directory.rglob("confusion_matrix*.png"))) == 2


def test_a_run_shows_about_ten_validations_and_always_the_last() -> None:
    for max_steps, every in ((1000, 10), (1000, 30), (1000, 200), (7, 3), (30, 1), (15, 100)):
        settings = TrainerSettings(max_steps=max_steps, validate_every=every)
        validations = [step for step in range(1, max_steps + 1) if settings.validates_at(step)]
        shown = [step for step in validations if shows_at(step, settings)]
        assert shown[-1] == max_steps
        assert min(len(validations), 8) <= len(shown) <= 11, (max_steps, every, shown)

"""Every published set of conf/data from a small repository of its exact schema to a metric: trained for two steps with
the splits, columns and tokenizer of its YAML, and measured again from the raw rows by other people's code."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
import torch
import yaml
from rouge_score.rouge_scorer import RougeScorer
from scipy import stats
from sklearn.metrics import accuracy_score, f1_score
from torchmetrics.text import SQuAD

import headtohead as h2h
from headtohead.config.compose.choices import config_folder
from headtohead.config.origins.from_weights import build_data
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataSource, SplitName
from headtohead.finished_runs.finished_run import FinishedRun
from headtohead.records.record import RunRecord
from published_sets import all_sets
from training.published_rows import RAW, RawRows

PUBLISHED = [
    path.stem
    for path in sorted((config_folder() / "data").glob("*.yaml"))
    if yaml.safe_load(path.read_text(encoding="utf-8")).get("about")
]
SHORT = [
    "trainer.max_steps=2", "trainer.validate_every=2", "trainer.accelerator=cpu", "trainer.threads=1",
    "trainer.progress_bar=false", "trainer.num_samples=0", "optimizer.lr=0.01", "tracking=none", "probe=none",
    "data.batch_size=16",
]  # fmt: skip
TINY = ["model.d_model=16", "model.num_layers=1", "model.num_heads=2"]
ENCODER = ["model=encoder_only", "model/position=sinusoidal", *TINY]
BY_TASK = {
    "classification": ENCODER,
    "similarity": ENCODER,
    "tagging": ENCODER,
    "span_qa": ["data.max_length=96", "data.stride=32", *ENCODER],
    "seq2seq": ["model=encoder_decoder", "task.max_new_tokens=12", *TINY],
    "causal_lm": ["model=decoder_only", "data.context_length=32", *TINY],
    "image_classification": ["model=mlp", "model.d_model=16", "data.image_size=8"],
}
"""The usual overrides by the task that a set names."""
MAIN = {
    "classification": ["accuracy", "f1_macro"],
    "similarity": ["pearson", "spearman"],
    "tagging": ["token_accuracy", "entity_f1"],
    "span_qa": ["exact_match", "f1"],
    "seq2seq": ["token_accuracy", "exact_match"],
    "causal_lm": ["perplexity", "bits_per_byte"],
    "image_classification": ["accuracy", "f1_macro"],
}
STREAM = ["data.num_validation=30", "data.num_test=40", "data.num_learned=100", "data.lanes=2"]
OWN = {
    "imagenet": ["data.num_validation=12", "data.num_measured=108", "data.lanes=2", "data.shuffle_buffer=20"],
    "fineweb_edu": STREAM,
    "openwebtext": STREAM,
    "wikipedia": STREAM,
    "xsum": ["task.text_metrics=[rouge]"],
    "cnn_dailymail": ["task.text_metrics=[rouge]"],
}
CORRELATIONS = ("matthews", "pearson", "spearman")
UNBOUNDED = ("loss", "perplexity", "bits_per_byte", "no_answer_threshold")
ROUGE = ("rouge1", "rouge2", "rougeL", "rougeLsum")


@dataclass(frozen=True)
class Measured:
    """A run that has ended, and the files behind it."""

    record: RunRecord
    run: FinishedRun
    source: DataSource
    folder: Path
    raw: RawRows

    @property
    def test(self) -> dict[str, float]:
        return self.record.metrics["test"]

    def whole(self, split: SplitName) -> Batch:
        rows = self.source.split(split)
        return rows.batch(np.arange(len(rows)))

    def message(self) -> torch.Tensor:
        """Return the model's outputs for all test rows, in their order."""
        with torch.no_grad():
            message: torch.Tensor = self.run.model(**self.whole("test").inputs())
        return message

    def predictions(self, file: str) -> dict[str, Any]:
        assert self.record.path is not None
        result: dict[str, Any] = json.loads((self.record.path / f"predictions/{file}.json").read_text(encoding="utf-8"))
        return result

    def truths(self) -> list[Any]:
        """Return the targets of the raw test rows."""
        return self.raw.truths(self.folder, self.raw.test)


def trained(name: str, folder: Path) -> tuple[str, Measured]:
    """The task, and the run: composed as the command line does."""
    repository = folder / "repository"
    all_sets()[name](repository)
    chosen = [f"data={name}", f"data.folder={repository}"]
    of_itself = h2h.compose("train", chosen)
    task = of_itself["choices"]["task"]
    learned = ["data.vocab_size=300"] if of_itself["data"].get("tokenizer") == "bpe" else []
    provided = [
        f"task={task}",
        *BY_TASK[task],
        *learned,
        *SHORT,
        *OWN.get(name, []),
        f"output_dir={folder / 'outputs'}",
    ]
    record = h2h.train(h2h.compose("train", [*chosen, *provided]))
    assert record.status == "finished" and record.path is not None, record.reason
    run = h2h.load_run(record.path)
    return task, Measured(record, run, build_data(run.config), repository, RAW[name])


def test_raw_rows_are_known_of_every_published_set() -> None:
    assert sorted(RAW) == PUBLISHED, "tests/training/published_rows.py says where the raw rows of each set lie"


@pytest.mark.sampled(12)
@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_from_raw_rows_to_figures(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    task, measured = trained(name, tmp_path)
    for stage in ("validation", "test"):
        figures = measured.record.metrics[stage]
        assert {"loss", *MAIN[task]} <= set(figures)
        for figure, value in figures.items():
            assert is_possible(figure, value), f"{stage}/{figure} is {value}"
    assert set(measured.record.metrics["validation"]) <= set(measured.test)  # which may have questions of more kinds
    assert set(MAIN[task]) <= set(measured.record.baselines)
    AGAIN[task](measured)


def is_possible(figure: str, value: float) -> bool:
    if figure in UNBOUNDED:
        return math.isfinite(value) and (value > 0 or figure == "no_answer_threshold")
    return (-1 if figure in CORRELATIONS else 0) <= value <= 1


def labels_again(measured: Measured) -> None:
    """Figures of the test by scikit-learn; the baseline is the largest class of the raw train rows that
    validation left, named for every row of the test."""
    truths, guessed = measured.truths(), measured.message().argmax(1).numpy()
    assert measured.test["accuracy"] == pytest.approx(accuracy_score(truths, guessed), abs=1e-6)
    named = sorted({*truths, *guessed.tolist()})
    f1 = f1_score(truths, guessed, labels=named, average="macro", zero_division=0.0)
    assert measured.test["f1_macro"] == pytest.approx(f1, abs=1e-6)
    held_out = measured.whole("validation").targets
    assert held_out is not None
    left = Counter(measured.raw.truths(measured.folder, measured.raw.train))
    left.subtract(held_out.tolist())
    assert min(left.values()) >= 0
    largest = [label for label, count in left.items() if count == max(left.values())]
    shares = [truths.count(label) / len(truths) for label in largest]
    assert any(measured.record.baselines["accuracy"] == pytest.approx(share) for share in shares)


def scores_again(measured: Measured) -> None:
    """The model counts in deviations from the mean of the raw train rows that validation left."""
    held_out, truths = measured.whole("validation").targets, np.array(measured.truths())
    assert held_out is not None
    left: Counter[float] = Counter(
        np.array(measured.raw.truths(measured.folder, measured.raw.train), np.float32).tolist()
    )
    left.subtract(held_out.tolist())
    assert min(left.values()) >= 0
    train = np.array(list(left.elements()))
    message = train.mean() + train.std() * measured.message().double().numpy()
    assert measured.record.baselines["loss"] == pytest.approx(((train.mean() - truths) ** 2).mean(), rel=1e-4)
    assert measured.test["loss"] == pytest.approx(((message - truths) ** 2).mean(), rel=1e-4)
    assert measured.test["pearson"] == pytest.approx(stats.pearsonr(message, truths).statistic, abs=1e-4)
    assert measured.test["spearman"] == pytest.approx(stats.spearmanr(message, truths).statistic, abs=1e-3)


def tags_again(measured: Measured) -> None:
    """No word is cut off here: every raw tag has its place; the baseline gives each the most frequent tag of the
    train rows."""
    names, targets = measured.source.spec().class_names, measured.whole("test").targets
    assert targets is not None
    message = [names[tag] for tag in measured.message().argmax(-1)[targets != IGNORED].tolist()]
    truths, train = (
        [tag if isinstance(tag, str) else names[tag] for row in rows for tag in row]
        for rows in (measured.truths(), measured.raw.truths(measured.folder, measured.raw.train))
    )
    assert measured.test["token_accuracy"] == pytest.approx(accuracy_score(truths, message), abs=1e-6)
    (usual, _), *_ = Counter(train).most_common()
    assert measured.record.baselines["token_accuracy"] == pytest.approx(truths.count(usual) / len(truths))


def answers_again(measured: Measured) -> None:
    predictions, rows = measured.predictions("predictions"), measured.raw.read(measured.folder, measured.raw.test)
    predicted = [{"id": row["id"], "prediction_text": predictions[row["id"]]} for row in rows]
    expected = [
        {"id": row["id"], "answers": {**row["answers"], "text": row["answers"]["text"] or [""]}} for row in rows
    ]
    again = SQuAD()(predicted, expected)
    assert len(predictions) == len(rows)
    assert measured.test["exact_match"] == pytest.approx(float(again["exact_match"]) / 100, abs=1e-6)
    assert measured.test["f1"] == pytest.approx(float(again["f1"]) / 100, abs=1e-6)


def texts_again(measured: Measured) -> None:
    result, published = measured.predictions("written").values(), measured.truths()
    truths, written = [one["truth"] for one in result], [one["written"] for one in result]
    if measured.raw.is_shared:
        assert len(truths) == round(0.05 * len(published)) and set(truths) < set(published)
    else:
        assert truths == published
    if "bleu" in measured.test:
        bleu = sacrebleu.corpus_bleu(written, [truths], smooth_method="none", force=True)
        assert measured.test["bleu"] == pytest.approx(bleu.score / 100, abs=1e-9)
        assert measured.test["chrf"] == pytest.approx(sacrebleu.corpus_chrf(written, [truths]).score / 100, abs=1e-9)
        return
    in_lines = [[text.replace(". ", ".\n") for text in texts] for texts in (truths, written)]
    scores = [RougeScorer(ROUGE).score(*pair) for pair in zip(*in_lines, strict=True)]
    for figure in ROUGE:
        mean = sum(score[figure].fmeasure for score in scores) / len(scores)
        assert measured.test[figure] == pytest.approx(mean, abs=1e-6)


def bytes_again(measured: Measured) -> None:
    """Documents are put together again from the rows, and their bytes counted; at most a last row is left out."""
    spec, batch = measured.source.spec(), measured.whole("test")
    assert batch.tokens is not None and batch.tokens.shape[1] == 33
    stream = torch.cat([batch.tokens[:1, 0], batch.tokens[:, 1:].flatten()])
    begins = (stream == spec.bos_id).nonzero().flatten().tolist()
    documents = [
        measured.source.decode(stream[first:after].tolist())
        for first, after in zip(begins, [*begins[1:], len(stream)], strict=True)
    ]
    documents[-1] = (last := documents[-1]).rstrip("\ufffd")
    half = 3 if last != documents[-1] else 0  # bytes of a character that ends in the row left out
    read, raw = "".join(documents), published_text(measured, documents)
    assert raw.startswith(read) and begins[0] == 0
    tokens = len(stream) - 1 - (len(begins) - 1 if batch.segments is not None else 0)
    by_token = measured.test["loss"] / math.log(2) / measured.test["bits_per_byte"]
    assert -0.1 < by_token * tokens - len(read.encode()) < half + 0.1
    left_out = len(raw.encode()) - len(read.encode())
    assert left_out <= 32 * max(1.0, 3 * by_token)
    guess = measured.record.baselines["loss"]
    assert guess <= math.log(spec.vocab_size) + 1e-9
    assert measured.record.baselines["bits_per_byte"] == pytest.approx(guess / math.log(2) / by_token)


def published_text(measured: Measured, documents: list[str]) -> str:
    """All text that is published for the test, in the order of `documents` where these were drawn."""
    texts: list[str] = measured.truths()
    if "cut" in measured.run.config["data"] and (cut := measured.run.config["data"]["cut"]):
        whole = "".join(texts).encode()
        return whole[-round(len(whole) * cut[-1] / 100) :].decode()
    if not measured.raw.is_shared:
        return "".join(texts)
    if "num_test" in measured.run.config["data"]:
        return "".join(texts[: measured.run.config["data"]["num_test"]])
    drawn = [next(text for text in texts if text.startswith(document)) for document in documents]
    assert len(set(drawn)) == len(documents) == round(0.05 * len(texts))
    return "".join(drawn)


AGAIN: dict[str, Callable[[Measured], None]] = {
    "classification": labels_again,
    "similarity": scores_again,
    "tagging": tags_again,
    "span_qa": answers_again,
    "seq2seq": texts_again,
    "causal_lm": bytes_again,
    "image_classification": labels_again,
}

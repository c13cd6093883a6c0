"""Runs that write labels, entities and answers as text: what the record says is what the written texts say."""

from __future__ import annotations

import csv
import json
import re
import string
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import sacrebleu
from rouge_score.rouge_scorer import RougeScorer
from sklearn.metrics import accuracy_score, f1_score

import headtohead as h2h

SIZES = ["num_train=200", "num_validation=10", "num_test=40"]
Rows = list[tuple[str, str]]


def trained(folder: Path, *overrides: str, max_steps: int = 15) -> tuple[dict[str, float], Rows]:
    """The test's figures, and (truth, written) of all its rows; the table shows the first of them."""
    record = h2h.train(
        h2h.compose(
            "train",
            [
                "trainer.accelerator=cpu",
                "trainer.threads=1",
                f"trainer.max_steps={max_steps}",
                f"trainer.validate_every={max_steps}",
                "trainer.num_samples=8",
                "trainer.progress_bar=false",
                "trainer.keep_checkpoints=none",
                "optimizer.lr=3e-3",
                "probe=none",
                "tracking=none",
                f"output_dir={folder}",
                *overrides,
            ],
        )
    )
    assert record.status == "finished", record.reason
    assert record.path is not None
    result = json.loads((Path(record.path) / "predictions/written.json").read_text(encoding="utf-8"))
    assert list(result) == [str(row) for row in range(len(result))]
    rows = [(one["truth"], one["written"]) for one in result.values()]
    with (Path(record.path) / "tables/test/samples.csv").open(encoding="utf-8", newline="") as file:
        shown = [(row["truth"], row["written"]) for row in csv.DictReader(file)]
    assert shown == rows[: len(shown)] and len(shown) == 8
    return record.metrics["test"], rows


def text_to_text(folder: Path, source: str, *overrides: str, max_steps: int = 15) -> tuple[dict[str, float], Rows]:
    sizes = [f"data.of.{size}" for size in SIZES]
    return trained(folder, "data=text_to_text", f"data@data.of={source}", *sizes, *overrides, max_steps=max_steps)


def labels(result: dict[str, float], rows: Rows) -> None:
    truths, written = zip(*rows, strict=True)
    assert result["accuracy"] == pytest.approx(accuracy_score(truths, written))
    names = ["negative", "positive"]
    expected = f1_score(truths, written, labels=names, average="macro", zero_division=0.0)
    assert result["f1_macro"] == pytest.approx(expected)


def entities(result: dict[str, float], rows: Rows) -> None:
    right = message = there = 0
    for truth, written in rows:
        own, true = (re.findall(r"(?:^|;)\s*([^:;]*[^:;\s])\s*:\s*([^;]*[^;\s])", side) for side in (written, truth))
        right, message, there = (
            right + sum((Counter(own) & Counter(true)).values()),
            message + len(own),
            there + len(true),
        )
    assert there > 0
    assert result["entity_f1"] == pytest.approx(2 * right / max(message + there, 1))


def answers(result: dict[str, float], rows: Rows) -> None:
    """Check the answers by the rules of SQuAD's script: small letters, no punctuation, no articles, words one space
    apart."""

    def plain(text: str) -> list[str]:
        saved = "".join(sign for sign in text.lower() if sign not in string.punctuation)
        return [word for word in saved.split() if word not in ("a", "an", "the")]

    pairs = [(plain(truth), plain(written)) for truth, written in rows]
    shared = [sum((Counter(truth) & Counter(written)).values()) for truth, written in pairs]
    scores = [
        2 * both / (len(truth) + len(written)) if both else 0.0
        for both, (truth, written) in zip(shared, pairs, strict=True)
    ]
    assert result["answer_exact_match"] == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))
    assert result["answer_f1"] == pytest.approx(sum(scores) / len(pairs))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "checked", "max_steps"),
    [
        ("sentence_grammar", labels, 15),
        pytest.param("tagging_grammar", entities, 40, marks=pytest.mark.slow),
        pytest.param("qa_grammar", answers, 60, marks=pytest.mark.slow),
    ],
)
def test_a_run_that_writes_text_is_measured_by_what_it_wrote(
    source: str, checked: Callable[[dict[str, float], Rows], None], max_steps: int, tmp_path: Path
) -> None:
    result, rows = text_to_text(tmp_path, source, "task=seq2seq", "model=encoder_decoder", max_steps=max_steps)
    assert len(rows) == 40
    checked(result, rows)


WAYS = {
    "encoder_decoder": ["model=encoder_decoder", "task=seq2seq"],
    "decoder_only": ["model=decoder_only", "task=seq2seq_one_row"],
    "encoder_only": ["model=encoder_only", "task=seq2seq_at_once"],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=() if name == "decoder_only" else pytest.mark.slow) for name in WAYS]
)
def test_translations_of_every_family_are_scored_as_sacrebleu_and_rouge_score_do(family: str, tmp_path: Path) -> None:
    result, rows = trained(
        tmp_path,
        "data=number_words",
        "data.max_number=99",
        "data.num_train=70",
        "data.num_validation=10",
        "data.num_test=20",
        "task.text_metrics=[bleu,chrf,rouge]",
        "task.beams=3",
        "model/position=rotary",
        *WAYS[family],
    )
    truths, written = (list(side) for side in zip(*rows, strict=True))
    assert result["bleu"] == pytest.approx(
        sacrebleu.corpus_bleu(written, [truths], smooth_method="none").score / 100, abs=1e-9
    )
    assert result["chrf"] == pytest.approx(sacrebleu.corpus_chrf(written, [truths]).score / 100, abs=1e-9)
    assert result["chrf"] > 0
    scorer = RougeScorer(["rouge1", "rougeL"])
    for name in ("rouge1", "rougeL"):
        scores = [scorer.score(truth, text)[name].fmeasure for truth, text in rows]
        assert result[name] == pytest.approx(sum(scores) / len(scores), abs=1e-6)


@pytest.mark.whole
def test_sentences_are_classified_in_words(tmp_path: Path) -> None:
    """200 sentences, of which whoever guesses gets no more than 0.6 right by luck."""
    result, _ = text_to_text(
        tmp_path,
        "sentence_grammar",
        "data.of.num_train=4000",
        "data.of.num_validation=100",
        "data.of.num_test=200",
        "model/position=rotary",
        *WAYS["encoder_decoder"],
        max_steps=600,
    )
    assert result["accuracy"] > 0.62 and result["readable"] == 1.0

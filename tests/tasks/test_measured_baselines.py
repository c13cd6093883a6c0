"""Baselines are fitted on the train split and scored on the split that is shown, whatever its shares are."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, log_loss, precision_recall_fscore_support

from headtohead.data.batches.batch import Batch
from headtohead.data.data_source import DataSpec, Split
from headtohead.tasks.causal_lm import CausalLanguageModelling
from headtohead.tasks.classification import Classification
from headtohead.tasks.masked_lm import MaskedLanguageModelling
from headtohead.tasks.seq2seq_one_stack import SequenceToSequenceInOneRow
from headtohead.tasks.tagging import Tagging
from headtohead.tasks.task import Task
from headtohead.tasks.text_overlap import Bleu
from small_batches import PAIRS, TAGS, answered_batch, decode, pair_batch, tagged_batch
from small_models import VOCAB_SIZE, small_model

TEXT = DataSpec(kind="labelled_text", vocab_size=VOCAB_SIZE, num_classes=2, max_length=6)
LANGUAGE = DataSpec(kind="language", vocab_size=VOCAB_SIZE, max_length=8)


class Rows(Split):
    """One batch as a split."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def __len__(self) -> int:
        return self._batch.num_samples

    def batch(self, rows: np.ndarray) -> Batch:
        return self._batch.chosen(torch.from_numpy(rows))


def learning_from(train: Batch, spec: DataSpec) -> DataSpec:
    return replace(spec, open_train=lambda: Rows(train))


def measured(task: Task, head: str, family: str, batch: Batch) -> dict[str, float]:
    model = small_model(family, head=head, num_classes=max(task.spec.num_classes, 1)).eval()
    task.measure("test", model, task.view(batch, seed=0, epoch=0))
    results = task.results("test")
    result = task.measured_baseline("test")
    assert results.keys() == result.keys(), "every metric has its baseline"
    assert task.measured_baseline("validation") == {}, "each split has its own"
    return result


def labelled(labels: list[int]) -> Batch:
    tokens = torch.randint(5, VOCAB_SIZE, (len(labels), 6), generator=torch.Generator().manual_seed(0))
    return Batch(torch.arange(len(labels)), tokens, targets=torch.tensor(labels))


@pytest.mark.parametrize("shares", [(0.478, 0.522), (0.522, 0.478)])
def test_naming_the_train_splits_largest_class_gets_what_it_gets_on_the_rows_shown(shares: tuple[float, float]) -> None:
    truth = [0] * 7 + [1] * 5
    named = [int(np.argmax(shares))] * len(truth)
    task = Classification().bind(replace(TEXT, class_shares=shares))
    result = measured(task, "classifier", "encoder_only", labelled(truth))
    precision, recall, f1, _ = precision_recall_fscore_support(truth, named, average="macro", zero_division=0)
    assert result == pytest.approx(
        {
            "loss": min(log_loss(truth, [shares] * len(truth)), math.log(2)),
            "accuracy": np.mean(np.array(truth) == named),
            "precision_macro": precision,
            "recall_macro": recall,
            "f1_macro": f1,
            "matthews": 0.0,
            "f1_second_class": f1_score(truth, named, zero_division=0.0),
        }
    )


def test_a_class_that_the_train_split_has_not_costs_no_more_than_chance() -> None:
    task = Classification().bind(replace(TEXT, class_shares=(1.0, 0.0)))
    result = measured(task, "classifier", "encoder_only", labelled([0, 1, 1]))
    assert (result["loss"], result["accuracy"]) == (pytest.approx(math.log(2)), pytest.approx(1 / 3))


def test_the_next_token_is_guessed_by_its_frequency_in_the_train_split() -> None:
    drawn = torch.Generator().manual_seed(0)
    train, shown = (Batch(torch.arange(6), torch.randint(5, 9, (6, 8), generator=drawn)) for _ in range(2))
    task = CausalLanguageModelling().bind(learning_from(train, LANGUAGE))
    result = measured(task, "language_model", "decoder_only", shown)
    counts = np.bincount(train.tokens[:, 1:].flatten(), minlength=VOCAB_SIZE) + 1
    targets = shown.tokens[:, 1:].flatten().numpy()
    loss = -np.log(counts / counts.sum())[targets].mean()
    assert result["loss"] == pytest.approx(loss) and result["perplexity"] == pytest.approx(math.exp(loss))
    assert result["token_accuracy"] == pytest.approx((targets == counts.argmax()).mean())


def test_answers_are_guessed_by_the_most_frequent_one_and_the_last_by_the_most_frequent_last() -> None:
    train, shown = answered_batch(40), answered_batch(12)
    spec = DataSpec(kind="language", vocab_size=29, num_scored=2)
    task = CausalLanguageModelling().bind(learning_from(train, spec))
    result = measured(task, "language_model", "decoder_only", shown)
    answers, own = ([row[row >= 0].tolist() for row in batch.targets] for batch in (train, shown))
    usual = np.bincount([one for row in answers for one in row]).argmax()
    last = np.bincount([row[-1] for row in answers]).argmax()
    assert result["token_accuracy"] == pytest.approx(np.mean([one == usual for row in own for one in row]))
    assert result["last_accuracy"] == pytest.approx(np.mean([row[-1] == last for row in own]))
    assert result["exact_match"] == pytest.approx(np.mean([set(row) == {usual} for row in own]))


def test_hidden_tokens_are_guessed_by_their_frequency() -> None:
    batch = Batch(torch.arange(30), torch.randint(5, 8, (30, 8), generator=torch.Generator().manual_seed(0)))
    task = MaskedLanguageModelling().bind(learning_from(batch, LANGUAGE))
    result = measured(task, "masked_language_model", "encoder_only", batch)
    assert result["loss"] < 0.7 * math.log(VOCAB_SIZE) and result["masked_accuracy"] > 0.25


def test_a_target_that_rows_share_is_written_always_and_measured_as_any_text() -> None:
    rows = pair_batch(6)
    usual = {name: getattr(rows, name)[:1].expand(6, -1) for name in ("decoder_tokens", "targets")}
    train = replace(rows, **usual)
    texts = replace(PAIRS, decode=decode)
    task = SequenceToSequenceInOneRow(text_metrics=["bleu"]).bind(learning_from(train, texts))
    result = measured(task, "language_model", "decoder_only", rows)
    truths = [decode([token for token in row if token >= 0]) for row in rows.targets.tolist()]
    measure = Bleu()
    sums = {name: value.tolist() for name, value in measure.sums([truths[0]] * 6, truths).items()}
    assert result["bleu"] == pytest.approx(measure.figures(sums)["bleu"])
    assert (
        result["exact_match"] == pytest.approx(np.mean([text == truths[0] for text in truths])) and result["loss"] > 0
    )


def test_without_a_target_that_rows_share_nothing_is_written() -> None:
    task = SequenceToSequenceInOneRow(text_metrics=["bleu"]).bind(replace(PAIRS, decode=decode))
    result = measured(task, "language_model", "decoder_only", pair_batch(6))
    assert (result["bleu"], result["exact_match"]) == (0.0, 0.0)


def test_the_train_splits_usual_tag_is_counted_among_the_words_shown() -> None:
    task, batch = Tagging().bind(TAGS), tagged_batch(8)
    result = measured(task, "tagger", "encoder_only", batch)
    tags = batch.targets[batch.targets >= 0].numpy()
    words = len(tags) + (0 if batch.lost_tags is None else int((batch.lost_tags >= 0).sum()))
    assert result["token_accuracy"] == pytest.approx((tags == np.argmax(TAGS.class_shares)).sum() / words)
    assert result["loss"] == pytest.approx(min(-np.log(np.array(TAGS.class_shares))[tags].mean(), math.log(5)))

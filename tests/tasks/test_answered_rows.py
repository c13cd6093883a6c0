"""Answers within rows of a language: all of a row right, and the last one, against a loop over rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataSpec
from headtohead.tasks.causal_lm import CausalLanguageModelling
from small_batches import LANGUAGE, answered_batch, decode, head, language_batch, tail
from small_models import VOCAB_SIZE, exact_model

ANSWERS = DataSpec(kind="language", vocab_size=VOCAB_SIZE, max_length=9, num_scored=2)


def half_right() -> tuple[CausalLanguageModelling, torch.nn.Module, Batch, np.ndarray]:
    """Return the model's own predictions as the answers, some of which are then made wrong: first, last, or both."""
    model, batch = exact_model("decoder_only").eval(), answered_batch(60)
    with torch.no_grad():
        predicted = model(**batch.inputs()).argmax(-1)
    options = batch.targets != IGNORED
    targets = torch.where(options, predicted, IGNORED)
    for row in range(60):
        indices = options[row].nonzero().squeeze(1)
        if row % 4 in (1, 3):
            targets[row, indices[0]] = (targets[row, indices[0]] + 1) % VOCAB_SIZE
        if row % 4 in (2, 3):
            targets[row, indices[-1]] = (targets[row, indices[-1]] + 1) % VOCAB_SIZE
    task = CausalLanguageModelling().bind(ANSWERS)
    assert isinstance(task, CausalLanguageModelling)
    return task, model, Batch(rows=batch.rows, tokens=batch.tokens, targets=targets), predicted.numpy()


def test_exact_match_and_last_accuracy_equal_a_loop_over_rows_and_ragged_batches() -> None:
    task, model, batch, message = half_right()
    task.measure("test", model, head(batch, 37))
    task.measure("test", model, tail(batch, 37))
    results = task.results("test")
    exact, last, tokens = [], [], []
    for predicted, targets in zip(message, batch.targets.numpy(), strict=True):
        indices = np.flatnonzero(targets != IGNORED)
        hits = predicted[indices] == targets[indices]
        exact.append(hits.all())
        last.append(hits[-1])
        tokens += hits.tolist()
    assert 0 < np.mean(exact) < np.mean(last) < 1
    assert results["exact_match"] == pytest.approx(np.mean(exact), abs=1e-12)
    assert results["last_accuracy"] == pytest.approx(np.mean(last), abs=1e-12)
    assert results["token_accuracy"] == pytest.approx(np.mean(tokens), abs=1e-12)


def test_a_row_without_answers_counts_in_no_share() -> None:
    task, model, batch, _ = half_right()
    task.measure("test", model, head(batch, 37))
    expected = task.results("test")
    targets = torch.cat([batch.targets[:37], torch.full_like(batch.targets[37:], IGNORED)])
    task.measure("test", model, Batch(rows=batch.rows, tokens=batch.tokens, targets=targets))
    assert task.results("test") == pytest.approx(expected)


def test_plain_text_has_no_answers_to_match() -> None:
    task, model = CausalLanguageModelling().bind(LANGUAGE), exact_model("decoder_only").eval()
    task.measure("test", model, task.view(language_batch(), seed=0, epoch=0))
    assert not {"exact_match", "last_accuracy"} & set(task.results("test"))
    assert not {"exact_match", "last_accuracy"} & set(task.baseline(LANGUAGE))


def test_baselines_are_of_every_token_alike_where_no_shares_are_known() -> None:
    baseline = CausalLanguageModelling().baseline(ANSWERS)
    assert baseline["last_accuracy"] == 1 / VOCAB_SIZE
    assert baseline["exact_match"] == pytest.approx(1 / VOCAB_SIZE**2)


def test_baselines_are_of_the_most_frequent_answer_and_not_of_tokens_that_answer_nothing() -> None:
    coins = replace(ANSWERS, answer_shares=(0.5, 0.5), last_answer_shares=(0.75, 0.25))
    assert CausalLanguageModelling().baseline(coins) == pytest.approx(
        {"loss": np.log(2), "perplexity": 2, "token_accuracy": 0.5, "exact_match": 0.25, "last_accuracy": 0.75}
    )


@pytest.mark.parametrize("monitor", ["exact_match", "last_accuracy"])
def test_answers_cannot_select_a_checkpoint_where_data_brings_none(monitor: str) -> None:
    with pytest.raises(ValueError, match=rf"task\.monitor={monitor} judges answers, and this data brings none"):
        CausalLanguageModelling(monitor=monitor).bind(LANGUAGE)
    CausalLanguageModelling(monitor=monitor).bind(ANSWERS)


def test_bytes_cannot_select_a_checkpoint_where_answers_are_no_text() -> None:
    with pytest.raises(ValueError, match=r"task\.monitor=bits_per_byte measures text, and the answers of this data"):
        CausalLanguageModelling(monitor="bits_per_byte").bind(ANSWERS)
    CausalLanguageModelling(monitor="bits_per_byte").bind(LANGUAGE)


def test_samples_show_the_answers_beside_the_models_predictions() -> None:
    task, model, batch, predicted = half_right()
    for row, sample in enumerate(task.samples(model, batch, decode)):
        options = (batch.targets[row] != IGNORED).numpy()
        assert sample["text"] == decode(batch.tokens[row].tolist())
        assert sample["answers"] == decode(batch.targets[row].numpy()[options].tolist())
        assert sample["said"] == decode(predicted[row][options].tolist())

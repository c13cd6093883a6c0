"""Scores of texts: error and correlations against scipy on the same predictions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from headtohead.architectures.architecture import Architecture
from headtohead.data.batches.batch import Batch
from headtohead.tasks.similarity import Similarity, pearson, ranks, spearman
from small_batches import NEXT, SCORES, decode, head, language_batch, scored_batch, sentence_pair_batch, tail
from small_models import redraw, small_model


def case(family: str = "encoder_only") -> tuple[Similarity, Architecture, Batch]:
    task = Similarity().bind(SCORES)
    assert isinstance(task, Similarity)
    return task, redraw(small_model(family, head="regressor").double(), std=0.5).eval(), scored_batch(40)


def message(model: Architecture, batch: Batch) -> np.ndarray:
    with torch.no_grad():
        return SCORES.score_mean + SCORES.score_deviation * model(**batch.inputs()).numpy()


@pytest.mark.parametrize("family", ["encoder_only", "decoder_only"])
def test_metrics_equal_those_of_scipy_over_ragged_batches(family: str) -> None:
    task, model, batch = case(family)
    predicted, true = message(model, batch), batch.targets.numpy()
    task.measure("test", model, head(batch, 17))
    task.measure("test", model, tail(batch, 17))
    results = task.results("test")
    assert len(set(true.tolist())) < 40, "equal scores must occur"
    assert results == pytest.approx(
        {
            "loss": float(((predicted - true) ** 2).mean()),
            "pearson": stats.pearsonr(predicted, true).statistic,
            "spearman": stats.spearmanr(predicted, true).statistic,
        },
        abs=1e-12,
    )
    assert set(results) == {metric.name for metric in task.metrics} == set(task.baseline(SCORES))


@pytest.mark.parametrize("seed", range(5))
def test_ranks_and_correlations_of_many_equal_values_are_those_of_scipy(seed: int) -> None:
    generator = np.random.default_rng(seed)
    one, other = generator.integers(5, size=(2, 30)).astype(float)
    assert ranks(one).tolist() == stats.rankdata(one).tolist()
    assert spearman(one, other) == pytest.approx(stats.spearmanr(one, other).statistic)
    assert pearson(one, other) == pytest.approx(stats.pearsonr(one, other).statistic)


def test_values_that_are_all_alike_correlate_with_nothing() -> None:
    assert pearson(np.full(9, 0.1), np.arange(9.0)) == spearman(np.arange(9.0), np.full(9, 0.1)) == 0.0


def test_loss_is_the_squared_error_and_counts_each_text_once() -> None:
    task, model, batch = case()
    loss = task.loss(model, batch)
    assert int(loss.count) == 40 == int((batch.targets != -100).sum())
    assert float(loss.total.detach()) == pytest.approx(
        float(((message(model, batch) - batch.targets.numpy()) ** 2).sum())
    )


@pytest.mark.parametrize("factor", [1.0, 1000.0])
def test_an_untrained_model_predicts_about_the_mean_in_any_units(factor: float) -> None:
    batch = scored_batch(40)
    scaled = replace(batch, targets=batch.targets * factor)
    spec = replace(SCORES, score_mean=2.5 * factor, score_deviation=1.4 * factor)
    task = Similarity().bind(spec)
    task.measure("test", small_model("encoder_only", head="regressor").eval(), scaled)
    loss = task.results("test")["loss"]
    assert loss == pytest.approx(task.measured_baseline("test")["loss"], rel=0.05)
    assert task.measured_baseline("test")["loss"] == pytest.approx(float(((scaled.targets - 2.5 * factor) ** 2).mean()))
    assert task.baseline(spec) == {"loss": pytest.approx((1.4 * factor) ** 2), "pearson": 0.0, "spearman": 0.0}


def test_samples_show_both_numbers() -> None:
    task, model, batch = case()
    for row, sample in enumerate(task.samples(model, batch, decode)):
        assert sample["truth"] == f"{float(batch.targets[row]):.2f}"
        assert sample["predicted"] == f"{message(model, batch)[row]:.2f}"


def test_what_has_no_scores_is_refused_with_what_to_choose() -> None:
    task = Similarity().bind(SCORES)
    for batch in (language_batch(), sentence_pair_batch()):
        with pytest.raises(ValueError, match="choose data of kind scored_text"):
            task.view(batch, seed=0, epoch=0)
    with pytest.raises(ValueError, match="head=MaskedLanguageModel says no number"):
        task.loss(small_model("encoder_only"), scored_batch())
    with pytest.raises(ValueError, match="all of the train split are the same"):
        Similarity().bind(replace(NEXT, score_deviation=0.0))
    with pytest.raises(ValueError, match=r"task\.monitor='f1' is not a metric"):
        Similarity(monitor="f1")

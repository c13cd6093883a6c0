"""Answers by spans: the best span by brute force, exact match and F1 against a plain writing of SQuAD's script."""

from __future__ import annotations

import collections
import math
import re
import string
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from headtohead.architectures.contracts import Architecture
from headtohead.data.batch import Batch
from headtohead.tasks import squad
from headtohead.tasks.span_qa import SpanQuestionAnswering, best_spans
from small_batches import QUESTIONS, decode, head, language_batch, question_batch, tail
from small_models import redraw, small_model


def normalize_answer(text: str) -> str:
    """The steps of the official evaluate-v1.1.py, one after another."""
    text = text.lower()
    text = "".join(character for character in text if character not in set(string.punctuation))
    text = re.sub(r"\b(a|an|the)\b", " ", text)
    return " ".join(text.split())


def f1_score(prediction: str, truth: str) -> float:
    prediction_tokens, truth_tokens = normalize_answer(prediction).split(), normalize_answer(truth).split()
    common = collections.Counter(prediction_tokens) & collections.Counter(truth_tokens)
    num_same = sum(common.values())
    if num_same == 0:
        return 0
    precision, recall = num_same / len(prediction_tokens), num_same / len(truth_tokens)
    return (2 * precision * recall) / (precision + recall)


def brute_force(logits: Tensor, allowed: Tensor, max_length: int) -> tuple[int, int]:
    spans = [
        (float(logits[first, 0] + logits[last, 1]), first, last)
        for first in range(len(logits))
        for last in range(first, min(first + max_length, len(logits)))
        if allowed[first] and allowed[last]
    ]
    _, first, last = max(spans)
    return first, last


def case(family: str = "encoder_only", max_answer_length: int = 3) -> tuple[SpanQuestionAnswering, Architecture, Batch]:
    task = SpanQuestionAnswering(max_answer_length=max_answer_length).bind(QUESTIONS)
    assert isinstance(task, SpanQuestionAnswering)
    return task, redraw(small_model(family, head="span").double(), std=0.5).eval(), question_batch(40)


def plain(model: Architecture, batch: Batch, max_length: int) -> list[tuple[str, str]]:
    """The model's answer and the true one of every question."""
    with torch.no_grad():
        logits = model(**batch.inputs())
    allowed = batch.valid & (batch.token_types == 1)
    answers = []
    for row, (first, last) in enumerate(batch.targets.tolist()):
        start, end = brute_force(logits[row], allowed[row], max_length)
        tokens = batch.tokens[row].tolist()
        answers.append((decode(tokens[start : end + 1]), decode(tokens[first : last + 1])))
    return answers


class TestTexts:
    TEXTS = (
        *("the cat", "Cat!", "a cat's mat", "cats mat", "an", "The", "", "the the cat cat", "cat cat cat"),
        *("U.S.", "us", "forty-two", "forty two", "42", "athe cat", "on  the\nmat", "I saw the cat, the mat."),
    )

    def test_every_pair_is_scored_as_the_official_script_does(self) -> None:
        for one in self.TEXTS:
            for other in self.TEXTS:
                assert squad.f1(one, other) == pytest.approx(f1_score(one, other)), (one, other)
                assert squad.exact_match(one, other) == (normalize_answer(one) == normalize_answer(other))

    def test_case_articles_and_punctuation_make_no_difference_but_words_do(self) -> None:
        assert squad.exact_match("The Cat!", "a cat") and not squad.exact_match("cat mat", "mat cat")
        assert squad.f1("the red cat", "a Cat.") == pytest.approx(2 / 3)
        assert squad.f1("cat cat", "cat") == pytest.approx(2 / 3), "a word counts as often as both have it"


class TestBestSpans:
    @pytest.mark.parametrize("max_length", [1, 2, 5, 100])
    def test_they_are_those_of_brute_force(self, max_length: int) -> None:
        logits = torch.randn(50, 7, 2, generator=torch.Generator().manual_seed(0))
        everywhere = torch.ones(7, dtype=torch.bool)
        expected = [list(brute_force(row, everywhere, max_length)) for row in logits]
        assert best_spans(logits, max_length).tolist() == expected

    def test_the_last_token_never_comes_before_the_first(self) -> None:
        logits = torch.zeros(1, 6, 2)
        logits[0, 5, 0] = logits[0, 0, 1] = 9.0
        first, last = best_spans(logits, 30)[0].tolist()
        assert first <= last

    def test_half_precision_ranks_sums_as_full_precision_does(self) -> None:
        logits = torch.zeros(1, 4, 2, dtype=torch.bfloat16)
        logits[0, 1, 0], logits[0, 2, 0], logits[0, 2, 1] = 256.0, 255.0, 1.5
        assert best_spans(logits, 1).tolist() == [[2, 2]], "256.5 beats 256, which bfloat16 cannot tell"


@pytest.mark.parametrize("family", ["encoder_only", "decoder_only"])
def test_metrics_equal_a_plain_writing_of_the_script_over_ragged_batches(family: str) -> None:
    task, model, batch = case(family)
    answers = plain(model, batch, 3)
    task.measure("test", model, head(batch, 17))
    task.measure("test", model, tail(batch, 17))
    results = task.results("test")
    logits = model(**batch.inputs())
    ends = F.cross_entropy(logits[..., 0], batch.targets[:, 0]) + F.cross_entropy(logits[..., 1], batch.targets[:, 1])
    expected = {
        "loss": ends.item() / 2,
        "exact_match": sum(normalize_answer(said) == normalize_answer(true) for said, true in answers) / 40,
        "f1": sum(f1_score(said, true) for said, true in answers) / 40,
    }
    assert 0 < expected["exact_match"] < expected["f1"] < 1, "a model that is always right or wrong would test little"
    assert results == pytest.approx(expected, abs=1e-12)
    assert set(results) == set(task.metrics) == set(task.baseline(QUESTIONS))


def test_the_question_and_padding_change_no_probability_of_an_answer() -> None:
    """The loss is over the places of the second text alone."""
    task, model, batch = case()
    with torch.no_grad():
        free = model.head.linear(model.features(**batch.inputs()))
    total = 0.0
    for row, (first, last) in enumerate(batch.targets.tolist()):
        places = (batch.valid[row] & (batch.token_types[row] == 1)).nonzero().squeeze(1)
        offset = int(places[0])
        for end, target in enumerate((first, last)):
            total -= float(free[row, places, end].log_softmax(0)[target - offset])
    loss = task.loss(model, batch)
    assert loss.count == 80
    assert abs(loss.total - total) < 1e-9


def test_measured_baselines_are_of_places_alike_and_of_the_whole_text_as_the_answer() -> None:
    task, model, batch = case()
    task.measure("test", model, head(batch, 11))
    task.measure("test", model, tail(batch, 11))
    assert task.measured_baseline("test") == {}, "before results"
    task.results("test")
    places = (batch.valid & (batch.token_types == 1)).sum(1)
    texts = [
        (decode(tokens[valid & (types == 1)].tolist()), decode(tokens[first : last + 1].tolist()))
        for tokens, valid, types, (first, last) in zip(
            batch.tokens, batch.valid, batch.token_types, batch.targets.tolist(), strict=True
        )
    ]
    assert task.measured_baseline("test") == pytest.approx(
        {
            "loss": sum(math.log(count) for count in places.tolist()) / 40,
            "f1": sum(f1_score(whole, true) for whole, true in texts) / 40,
        }
    )
    assert task.measured_baseline("test").keys() <= task.baseline(QUESTIONS).keys()


def test_an_untrained_model_is_near_the_measured_baseline_loss() -> None:
    task, _, batch = case()
    model = small_model("encoder_only", head="span").eval()
    task.measure("test", model, batch)
    assert abs(task.results("test")["loss"] - task.measured_baseline("test")["loss"]) < 0.1


def test_samples_show_question_text_and_both_answers() -> None:
    task, model, batch = case()
    answers = plain(model, batch, 3)
    for row, sample in enumerate(task.samples(model, batch, decode)):
        tokens, second = batch.tokens[row], batch.token_types[row] == 1
        assert (sample["predicted"], sample["truth"]) == answers[row]
        assert sample["text"] == decode(tokens[second].tolist())
        assert sample["question"] == decode(tokens[batch.valid[row] & ~second].tolist())


def test_a_padded_row_without_room_for_an_answer_makes_no_nan() -> None:
    task, model, batch = case()
    empty = replace(batch, token_types=torch.zeros_like(batch.token_types))
    assert task.loss(model, empty).total.isfinite()
    task.loss(model.train(), empty).total.backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


def test_what_holds_no_questions_is_refused_with_what_to_choose() -> None:
    task = SpanQuestionAnswering().bind(QUESTIONS)
    with pytest.raises(ValueError, match="choose data of kind questions"):
        task.view(language_batch(), seed=0, epoch=0)
    with pytest.raises(ValueError, match="head=MaskedLanguageModel points at no answer"):
        task.loss(small_model("encoder_only"), question_batch())
    with pytest.raises(ValueError, match=r"task\.max_answer_length=0 must be at least 1"):
        SpanQuestionAnswering(max_answer_length=0)
    with pytest.raises(ValueError, match="this data has no decode"):
        SpanQuestionAnswering().bind(replace(QUESTIONS, decode=None))

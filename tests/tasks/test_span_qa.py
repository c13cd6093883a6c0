"""Answers by spans: the best spans by brute force; windows joined, scores and the threshold of no answer against a
plain writing of SQuAD's two scripts."""

from __future__ import annotations

import collections
import json
import math
import re
import string
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from headtohead.architectures.architecture import Architecture
from headtohead.data.batches.batch import Batch
from headtohead.tasks import span_answers
from headtohead.tasks.span_answers import AnsweredQuestions, Candidate, SpanScores, joined_windows, top_spans
from headtohead.tasks.span_qa import NO_ANSWER, SpanQuestionAnswering
from small_batches import QUESTIONS, decode, head, language_batch, question_batch, tail
from small_models import redraw, small_model

UNANSWERABLE = replace(QUESTIONS, has_unanswerable=True)


def normalize_answer(text: str) -> str:
    """Normalise in the steps of the official evaluate-v1.1.py, one after another."""
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


def f1_of_version_2(prediction: str, truth: str) -> float:
    """Return the F1 of evaluate-v2.0.py: if either is not an answer, F1 is 1 where they agree, else 0."""
    prediction_tokens, truth_tokens = normalize_answer(prediction).split(), normalize_answer(truth).split()
    if len(prediction_tokens) == 0 or len(truth_tokens) == 0:
        return int(prediction_tokens == truth_tokens)
    return f1_score(prediction, truth)


def raw_scores(gold: dict[str, list[str]], predictions: dict[str, str]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the scores of evaluate-v2.0.py, by question, before any threshold."""
    exact: dict[str, float] = {}
    f1: dict[str, float] = {}
    for id_, answers in gold.items():
        message = [answer for answer in answers if normalize_answer(answer)]
        if not message:
            message = [""]
        exact[id_] = max(int(normalize_answer(predictions[id_]) == normalize_answer(answer)) for answer in message)
        f1[id_] = max(f1_of_version_2(predictions[id_], answer) for answer in message)
    return exact, f1


def thresholded(
    scores: dict[str, float], odds: dict[str, float], has_answer: dict[str, bool], threshold: float
) -> dict[str, float]:
    return {id_: float(not has_answer[id_]) if odds[id_] > threshold else score for id_, score in scores.items()}


def best_f1(
    predictions: dict[str, str], f1: dict[str, float], odds: dict[str, float], has_answer: dict[str, bool]
) -> float:
    """Return find_best_thresh of evaluate-v2.0.py: walk up the odds, answering one more question each time."""
    current = best = sum(not has for has in has_answer.values())
    for id_ in sorted(odds, key=lambda id_: odds[id_]):
        current += f1[id_] if has_answer[id_] else (-1 if predictions[id_] else 0)
        best = max(best, current)
    return best / len(f1)


def brute_force(logits: Tensor, allowed: Tensor, max_length: int) -> list[tuple[float, int, int]]:
    """Return all spans, the best first."""
    spans = [
        (float(logits[first, 0] + logits[last, 1]), first, last)
        for first in range(len(logits))
        for last in range(first, min(first + max_length, len(logits)))
        if allowed[first] and allowed[last]
    ]
    return sorted(spans, key=lambda span: -span[0])


def case(family: str = "encoder_only", max_answer_length: int = 3) -> tuple[SpanQuestionAnswering, Architecture, Batch]:
    task = SpanQuestionAnswering(max_answer_length=max_answer_length).bind(QUESTIONS)
    assert isinstance(task, SpanQuestionAnswering)
    return task, redraw(small_model(family, head="span").double(), std=0.5).eval(), question_batch(40)


def open_places(batch: Batch) -> Tensor:
    """Return where an answer may be: in the second text, before its end."""
    inside = (batch.valid & (batch.token_types == 1)).clone()
    inside[torch.arange(len(inside)), batch.valid.sum(1) - 1] = False
    return inside


def plain(model: Architecture, batch: Batch, max_length: int) -> dict[str, str]:
    """Return the model's answer to every question that fits into one row, by its id."""
    with torch.no_grad():
        logits = model(**batch.inputs())
    predicted = {}
    for row, allowed in enumerate(open_places(batch)):
        tokens = batch.tokens[row].tolist()
        spans = brute_force(logits[row], allowed, max_length)
        texts = [(-logit, decode(tokens[first : last + 1])) for logit, first, last in spans]
        ranked = sorted(texts, key=lambda item: (item[0], len(item[1]), item[1]))
        predicted[batch.questions[row].id] = next(text for _, text in ranked if text)
    return predicted


class TestTexts:
    TEXTS = (
        *("the cat", "Cat!", "a cat's mat", "cats mat", "an", "The", "", "the the cat cat", "cat cat cat"),
        *("U.S.", "us", "forty-two", "forty two", "42", "athe cat", "on  the\nmat", "I saw the cat, the mat."),
    )

    def test_every_pair_is_scored_as_the_official_script_does(self) -> None:
        for one in self.TEXTS:
            for other in self.TEXTS:
                assert span_answers.f1(one, other) == pytest.approx(f1_score(one, other)), (one, other)
                assert span_answers.exact_match(one, other) == (normalize_answer(one) == normalize_answer(other))

    def test_case_articles_and_punctuation_make_no_difference_but_words_do(self) -> None:
        assert span_answers.exact_match("The Cat!", "a cat") and not span_answers.exact_match("cat mat", "mat cat")
        assert span_answers.f1("the red cat", "a Cat.") == pytest.approx(2 / 3)
        assert span_answers.f1("cat cat", "cat") == pytest.approx(2 / 3), "a word counts as often as both have it"

    GOLDS = ((), ("",), ("the",), ("cat",), ("Cat!", "forty two"), ("a", "on the mat"), ("U.S.", "us", "it"))

    @pytest.mark.parametrize("gold", GOLDS)
    def test_every_prediction_is_scored_over_all_answers_as_the_scripts_do(self, gold: tuple[str, ...]) -> None:
        for predicted in self.TEXTS:
            exact, f1 = raw_scores({"q": list(gold)}, {"q": predicted})
            assert span_answers.score_or_nothing(predicted, gold) == span_answers.Score(
                exact["q"], pytest.approx(f1["q"])
            )
            if gold:
                of_version_1 = span_answers.score(predicted, gold)
                assert of_version_1.f1 == pytest.approx(max(f1_score(predicted, true) for true in gold))
                assert of_version_1.exact_match == max(normalize_answer(predicted) == normalize_answer(g) for g in gold)


class TestTopSpans:
    @pytest.mark.parametrize("max_length", [1, 2, 5, 100])
    def test_they_are_those_of_brute_force_in_order(self, max_length: int) -> None:
        generator = torch.Generator().manual_seed(0)
        logits = torch.randn(50, 7, 2, generator=generator)
        allowed = torch.rand(50, 7, generator=generator) < 0.7
        sums, spans = top_spans(logits, allowed, max_length=max_length, count=6)
        for row in range(50):
            expected = brute_force(logits[row], allowed[row], max_length)[:6]
            result = [
                (s, *span) for s, span in zip(sums[row].tolist(), spans[row].tolist(), strict=True) if s > -math.inf
            ]
            assert [span[1:] for span in result] == [span[1:] for span in expected]
            assert [span[0] for span in result] == pytest.approx([span[0] for span in expected])

    def test_the_last_token_never_comes_before_the_first(self) -> None:
        logits = torch.zeros(1, 6, 2)
        logits[0, 5, 0] = logits[0, 0, 1] = 9.0
        _, spans = top_spans(logits, torch.ones(1, 6, dtype=torch.bool), max_length=30, count=21)
        assert all(first <= last for first, last in spans[0].tolist())

    def test_half_precision_ranks_sums_as_full_precision_does(self) -> None:
        logits = torch.zeros(1, 4, 2, dtype=torch.bfloat16)
        logits[0, 1, 0], logits[0, 2, 0], logits[0, 2, 1] = 256.0, 255.0, 1.5
        _, spans = top_spans(logits, torch.ones(1, 4, dtype=torch.bool), max_length=1, count=1)
        assert spans[0].tolist() == [[2, 2]], "256.5 beats 256, which bfloat16 cannot tell"


@pytest.mark.parametrize("family", ["encoder_only", "decoder_only"])
def test_metrics_equal_a_plain_writing_of_the_script_over_ragged_batches(family: str) -> None:
    task, model, batch = case(family)
    predicted = plain(model, batch, 3)
    task.measure("test", model, head(batch, 17))
    task.measure("test", model, tail(batch, 17))
    results = task.results("test")
    logits = model(**batch.inputs())
    ends = F.cross_entropy(logits[..., 0], batch.targets[:, 0]) + F.cross_entropy(logits[..., 1], batch.targets[:, 1])
    exact = [
        max(normalize_answer(predicted[one.id]) == normalize_answer(a) for a in one.answers) for one in batch.questions
    ]
    expected = {
        "loss": ends.item() / 2,
        "exact_match": sum(exact) / 40,
        "f1": sum(max(f1_score(predicted[one.id], answer) for answer in one.answers) for one in batch.questions) / 40,
    }
    assert 0 < expected["exact_match"] < expected["f1"] < 1, "a model that is always right or wrong would test little"
    assert results == pytest.approx(expected, abs=1e-12)
    assert set(results) == set(task.baseline(QUESTIONS)) <= {metric.name for metric in task.metrics}
    assert task.files("test")["predictions"] == predicted and task.files("validation") == {}


def windows(seed: int = 0, num: int = 60) -> list[SpanScores]:
    """Return questions with one to three windows, a third of them without an answer, as some model might see them."""
    generator = torch.Generator().manual_seed(seed)
    words = [*"abcdefgh", "the cat", "cat", "Cat.", "on a mat", "mat"]
    seen = []
    for number in range(num):
        draw = lambda count: torch.randint(0, len(words), (count,), generator=generator).tolist()  # noqa: E731
        answers = () if number % 3 == 0 else tuple(words[index] for index in draw(1 + number % 2))
        for _ in range(1 + number % 3):
            texts = dict.fromkeys(words[index] for index in draw(4))
            logits = sorted(torch.randn(len(texts), generator=generator).tolist(), reverse=True)
            candidates = [Candidate(text, logit) for text, logit in zip(texts, logits, strict=True)]
            if answers and answers[0] in texts:
                candidates[0] = Candidate(answers[0], candidates[0].logit + 1)
            nothing = float(torch.randn((), generator=generator)) + (2.0 if not answers else 0.0)
            seen.append(
                SpanScores(number, f"id{number}", "the cat on a mat", answers, tuple(candidates), round(nothing, 1))
            )
    return seen


def by_hand(seen: list[SpanScores]) -> tuple[dict[str, list[str]], dict[str, str], dict[str, float]]:
    """Return answers, the best prediction, and the odds of none, over the windows of each question."""
    gold: dict[str, list[str]] = {}
    best: dict[str, tuple[float, str]] = {}
    null: dict[str, float] = {}
    for window in seen:
        gold[window.id] = list(window.answers)
        best[window.id] = max(best.get(window.id, (-math.inf, "")), *((c.logit, c.text) for c in window.candidates))
        null[window.id] = min(null.get(window.id, math.inf), window.nothing)
    odds = {id_: null[id_] - best[id_][0] for id_ in gold}
    return gold, {id_: text for id_, (_, text) in best.items()}, odds


class TestWindows:
    def test_the_answer_is_the_best_over_all_windows_wherever_they_were_seen(self) -> None:
        seen = windows()
        _, predictions, odds = by_hand(seen)
        shuffled = [seen[index] for index in torch.randperm(len(seen)).tolist()]
        for order in (seen, shuffled):
            questions = joined_windows(order, 20)
            assert {question.id: question.candidates[0].text for question in questions} == predictions
            assert {question.id: question.odds for question in questions} == pytest.approx(odds)
            assert [question.number for question in questions] == list(range(60))

    def test_candidates_are_ranked_without_repeats_and_no_more_than_requested(self) -> None:
        for question in joined_windows(windows(), 3):
            texts, logits = [c.text for c in question.candidates], [c.logit for c in question.candidates]
            assert len(set(texts)) == len(texts) <= 3 and logits == sorted(logits, reverse=True)


class TestNoAnswer:
    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize("threshold", [-1.5, 0.0, 0.7, "best"])
    def test_scores_are_those_of_the_script_at_any_threshold(self, seed: int, threshold: float | str) -> None:
        seen = windows(seed)
        gold, predictions, odds = by_hand(seen)
        has_answer = {id_: bool(answers) for id_, answers in gold.items()}
        result = AnsweredQuestions(joined_windows(seen, 20), has_unanswerable=True)
        chosen = result.threshold() if threshold == "best" else float(threshold)
        exact, f1 = (thresholded(s, odds, has_answer, chosen) for s in raw_scores(gold, predictions))
        with_answer = [id_ for id_ in gold if has_answer[id_]]
        without = [id_ for id_ in gold if not has_answer[id_]]
        expected = {
            "exact_match": sum(exact.values()) / 60,
            "f1": sum(f1.values()) / 60,
            "has_answer_exact_match": sum(exact[id_] for id_ in with_answer) / len(with_answer),
            "has_answer_f1": sum(f1[id_] for id_ in with_answer) / len(with_answer),
            "no_answer_accuracy": sum(exact[id_] for id_ in without) / len(without),
        }
        assert result.metrics(chosen) == pytest.approx(expected)

    @pytest.mark.parametrize("seed", range(5))
    def test_the_threshold_is_the_best_there_is(self, seed: int) -> None:
        seen = windows(seed)
        gold, predictions, odds = by_hand(seen)
        has_answer = {id_: bool(answers) for id_, answers in gold.items()}
        result = AnsweredQuestions(joined_windows(seen, 20), has_unanswerable=True)
        f1 = raw_scores(gold, predictions)[1]
        reached = result.metrics(result.threshold())["f1"]
        everywhere = max(
            sum(thresholded(f1, odds, has_answer, chosen).values()) / 60 for chosen in (*odds.values(), -99.0)
        )
        assert reached == pytest.approx(everywhere)
        if len(set(odds.values())) == 60:
            assert reached == pytest.approx(best_f1(predictions, f1, odds, has_answer))

    def test_never_to_answer_is_a_threshold_too(self) -> None:
        seen = [SpanScores(n, str(n), "x", (), (Candidate("x", 5.0 - n),), 0.0) for n in range(3)]
        result = AnsweredQuestions(joined_windows(seen, 5), has_unanswerable=True)
        assert result.metrics(result.threshold()) == {"exact_match": 1.0, "f1": 1.0, "no_answer_accuracy": 1.0}

    def test_files_are_by_id_and_give_what_the_threshold_leaves(self) -> None:
        seen = windows()
        _, predictions, odds = by_hand(seen)
        files = json.loads(json.dumps(AnsweredQuestions(joined_windows(seen, 20), has_unanswerable=True).files(0.3)))
        assert files["predictions"] == {
            id_: "" if odds[id_] > 0.3 else predicted for id_, predicted in predictions.items()
        }
        assert files["null_odds"] == pytest.approx(odds)
        for id_, ranked in files["nbest_predictions"].items():
            assert sum(one["probability"] for one in ranked) == pytest.approx(1) and "" in [r["text"] for r in ranked]
            assert next(one["text"] for one in ranked if one["text"]) == predictions[id_]

    def test_validation_chooses_the_threshold_that_the_test_has(self) -> None:
        """Neither the test itself nor a later validation than that of the selected weights chooses the threshold."""
        _, model, batch = case()
        gone = {0, 3, 5, 11, 17, 21, 30}
        batch = replace(
            batch, questions=tuple(replace(one, answers=()) if one.number in gone else one for one in batch.questions)
        )
        task = SpanQuestionAnswering(max_answer_length=3).bind(UNANSWERABLE)
        task.measure("validation", model, head(batch, 20))
        chosen = task.results("validation")
        task.measure("validation", model, tail(batch, 20))
        assert task.results("validation")["no_answer_threshold"] != chosen["no_answer_threshold"]
        task.use_selected(chosen)
        task.measure("test", model, tail(batch, 20))
        results = task.results("test")
        assert results["no_answer_threshold"] == chosen["no_answer_threshold"]
        predictions, odds = plain(model, tail(batch, 20), 3), task.files("test")["null_odds"]
        gold = {one.id: list(one.answers) for one in batch.questions[20:]}
        has_answer = {id_: bool(answers) for id_, answers in gold.items()}
        exact, f1 = (
            thresholded(s, odds, has_answer, chosen["no_answer_threshold"]) for s in raw_scores(gold, predictions)
        )
        assert results["exact_match"] == pytest.approx(sum(exact.values()) / 20)
        assert results["f1"] == pytest.approx(sum(f1.values()) / 20)
        with torch.no_grad():
            logits = model(**tail(batch, 20).inputs())
        for row, one in enumerate(batch.questions[20:]):
            end = int(batch.valid[20 + row].sum()) - 1
            best = brute_force(logits[row], open_places(tail(batch, 20))[row], 3)[0][0]
            assert odds[one.id] == pytest.approx(float(logits[row, end].sum()) - best)

    def test_a_run_without_a_threshold_of_its_own_takes_zero(self) -> None:
        task = SpanQuestionAnswering().bind(UNANSWERABLE)
        task.threshold = 5.0
        task.use_selected({"loss": 1.0})
        assert task.threshold == 0.0

    def test_baselines_are_to_answer_never_or_always_with_the_whole_context(self) -> None:
        result = AnsweredQuestions(joined_windows(windows(), 20), has_unanswerable=True)
        blind = result.blind()
        assert (blind["exact_match"], blind["f1"]) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
        assert blind["no_answer_accuracy"] == 1.0, "never to answer"
        assert blind.keys() == result.metrics(0.0).keys()


def test_the_question_and_padding_change_no_probability_of_an_answer() -> None:
    """The loss is over the places of the second text alone."""
    task, model, batch = case()
    with torch.no_grad():
        free = model.head.linear(model.features(**batch.inputs()))
    total = 0.0
    for row, (first, last) in enumerate(batch.targets.tolist()):
        indices = (batch.valid[row] & (batch.token_types[row] == 1)).nonzero().squeeze(1)
        offset = int(indices[0])
        for end, target in enumerate((first, last)):
            total -= float(free[row, indices, end].log_softmax(0)[target - offset])
    loss = task.loss(model, batch)
    assert loss.count == 80
    assert abs(loss.total - total) < 1e-9


def test_measured_baselines_are_of_uniform_positions_and_of_the_whole_text_as_the_answer() -> None:
    task, model, batch = case()
    task.measure("test", model, head(batch, 11))
    task.measure("test", model, tail(batch, 11))
    assert task.measured_baseline("test") == {}, "before results"
    task.results("test")
    indices = (batch.valid & (batch.token_types == 1)).sum(1)
    whole = {
        one.id: decode(tokens[inside].tolist())
        for one, tokens, inside in zip(batch.questions, batch.tokens, open_places(batch), strict=True)
    }
    assert task.measured_baseline("test") == pytest.approx(
        {
            "loss": sum(math.log(count) for count in indices.tolist()) / 40,
            "f1": sum(max(f1_score(whole[one.id], answer) for answer in one.answers) for one in batch.questions) / 40,
            "exact_match": sum(
                any(span_answers.exact_match(whole[one.id], a) for a in one.answers) for one in batch.questions
            )
            / 40,
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
    predicted = plain(model, batch, 3)
    for row, sample in enumerate(task.samples(model, batch, decode)):
        tokens, second = batch.tokens[row], open_places(batch)[row]
        first, last = batch.targets[row].tolist()
        assert sample["predicted"] == predicted[batch.questions[row].id]
        assert sample["truth"] == decode(tokens[first : last + 1].tolist())
        assert sample["text"] == decode(tokens[second].tolist())
        assert sample["question"] == decode(tokens[batch.valid[row] & (batch.token_types[row] == 0)].tolist())


def test_samples_tell_a_window_without_an_answer_and_a_model_that_gives_none() -> None:
    _, model, batch = case()
    ends = (batch.valid.sum(1) - 1)[:, None].expand(-1, 2)
    task = SpanQuestionAnswering().bind(UNANSWERABLE)
    task.threshold = -1e9
    for sample in task.samples(model, replace(batch, targets=ends), decode):
        assert sample["truth"] == sample["predicted"] == NO_ANSWER


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
    with pytest.raises(ValueError, match=r"task\.num_candidates=0 must be at least 1"):
        SpanQuestionAnswering(num_candidates=0)
    with pytest.raises(ValueError, match=r"give Batch\.questions"):
        task.view(replace(question_batch(), questions=None), seed=0, epoch=0)

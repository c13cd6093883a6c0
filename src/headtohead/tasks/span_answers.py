"""Windows of contexts yield one answer per question: the candidates of all windows together, and whether to answer at
all (Devlin et al. 2019, https://arxiv.org/abs/1810.04805, section 4.3)."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.metrics.generated_texts import (
    EXACT_MATCH_OF_QUESTIONS,
    F1,
    HAS_ANSWER_EXACT_MATCH,
    HAS_ANSWER_F1,
    NO_ANSWER_ACCURACY,
)
from headtohead.tasks.class_metrics import wide

# Exact match and F1 of texts, as the official scripts of SQuAD compute them: version 1.1 where every question has an
# answer (Rajpurkar et al. 2016, https://arxiv.org/abs/1606.05250), version 2.0 where some have none (Rajpurkar et al.
# 2018, https://arxiv.org/abs/1806.03822).


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> str:
    """Return the text in lower case, without punctuation and articles, its words one space apart."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(predicted: str, truth: str) -> bool:
    return normalised(predicted) == normalised(truth)


def f1(predicted: str, truth: str) -> float:
    """Return the F1 of the words that both texts share, with multiplicity."""
    words, true_words = normalised(predicted).split(), normalised(truth).split()
    shared = (Counter(words) & Counter(true_words)).total()
    return 2 * shared / (len(words) + len(true_words)) if shared else 0.0


def f1_or_nothing(predicted: str, truth: str) -> float:
    """Return the F1, where two empty texts agree."""
    if not normalised(predicted) or not normalised(truth):
        return float(exact_match(predicted, truth))
    return f1(predicted, truth)


@dataclass(frozen=True)
class Score:
    exact_match: float
    f1: float


def score(predicted: str, answers: Sequence[str]) -> Score:
    """Score a question that has an answer: the best over all that count as right."""
    return Score(float(any(exact_match(predicted, true) for true in answers)), max(f1(predicted, t) for t in answers))


def score_or_nothing(predicted: str, answers: Sequence[str]) -> Score:
    """Score a question that may have no answer: then only an empty answer is right."""
    valid_answers = [answer for answer in answers if normalised(answer)] or [""]
    return Score(
        float(any(exact_match(predicted, true) for true in valid_answers)),
        max(f1_or_nothing(predicted, t) for t in valid_answers),
    )


def top_spans(
    logits: Float[Tensor, "B L 2"], allowed: Bool[Tensor, "B L"], *, max_length: int, count: int
) -> tuple[Float[Tensor, "B K"], Int[Tensor, "B K 2"]]:
    """Return the best spans of at most `max_length` tokens that begin and end where it is allowed, the best first:
    their sums (minus infinity where there are no more) and their first and last tokens."""
    starts, ends = wide(logits).masked_fill(~allowed.unsqueeze(-1), -math.inf).unbind(-1)
    length = starts.shape[1]
    sums = starts.new_full((len(starts), min(max_length, length), length), -math.inf)
    for further in range(sums.shape[1]):
        sums[:, further, : length - further] = starts[:, : length - further] + ends[:, further:]
    flat = sums.flatten(1)
    best, indices = flat.topk(min(count, flat.shape[1]), dim=1)
    first, further_ = indices % length, indices // length
    return best, torch.stack([first, first + further_], dim=2)


@dataclass(frozen=True)
class Candidate:
    text: str
    logit: float
    """The sum of its first token's and its last token's."""


@dataclass(frozen=True)
class SpanScores:
    """The scores of a question's candidate answers in one window, or, joined, in all."""

    number: int
    id: str
    context: str
    answers: tuple[str, ...]
    """All that count as right; none where the context does not answer the question."""
    candidates: tuple[Candidate, ...]
    """The best first, no two alike."""
    nothing: float
    """The logit of giving no answer."""

    @property
    def odds(self) -> float:
        """Return how much likelier no answer is than the best candidate, as a difference of logits."""
        return self.nothing - self.candidates[0].logit if self.candidates else math.inf


def best_of(candidates: Iterable[Candidate], count: int) -> tuple[Candidate, ...]:
    """Return the best of the candidates with the same text, and shorter texts first among equals, without empty
    ones."""
    best: dict[str, float] = {}
    for candidate in candidates:
        if candidate.text:
            best[candidate.text] = max(candidate.logit, best.get(candidate.text, -math.inf))
    ranked = sorted(best.items(), key=lambda item: (-item[1], len(item[0]), item[0]))
    return tuple(Candidate(text, logit) for text, logit in ranked[:count])


def joined_windows(windows: Iterable[SpanScores], count: int) -> list[SpanScores]:
    """Join the windows of each question, in order. A question counts as unanswerable as far as the window says so in
    which an answer is most likely."""
    of: dict[int, list[SpanScores]] = {}
    for window in windows:
        of.setdefault(window.number, []).append(window)
    return [
        replace(
            parts[0],
            candidates=best_of((candidate for part in parts for candidate in part.candidates), count),
            nothing=min(part.nothing for part in parts),
        )
        for _, parts in sorted(of.items())
    ]


class AnsweredQuestions:
    """The questions of a split with a model's answers."""

    def __init__(self, questions: Sequence[SpanScores], *, has_unanswerable: bool) -> None:
        self.questions, self.has_unanswerable = questions, has_unanswerable
        rule = score_or_nothing if has_unanswerable else score
        self._best = [question.candidates[0].text if question.candidates else "" for question in questions]
        self._of_best = [rule(text, question.answers) for text, question in zip(self._best, questions, strict=True)]

    def threshold(self) -> float:
        """Return the odds above which no answer is given, chosen so that F1 is largest on these very questions; the
        lowest where several do as well. Questions with equal odds are all answered or none."""
        gains: dict[float, float] = {}
        for question, of_best in zip(self.questions, self._of_best, strict=True):
            gains[question.odds] = gains.get(question.odds, 0.0) + of_best.f1 - (not question.answers)
        ranked = sorted(odds for odds in gains if odds < math.inf)
        best, total, chosen = 0.0, 0.0, (ranked[0] if ranked else 0.0) - 1.0
        for odds in ranked:
            total += gains[odds]
            if total > best + 1e-9:
                best, chosen = total, odds
        return chosen

    def final_answers(self, threshold: float) -> list[str]:
        """Return the final answer to each question."""
        pairs = zip(self._best, self.questions, strict=True)
        return ["" if self._is_silent(question, threshold) else best for best, question in pairs]

    def scores(self, threshold: float) -> list[Score]:
        """Return the score of each question: an empty answer is right where there is none, and wrong elsewhere,
        whatever the answer consists of."""
        pairs = zip(self._of_best, self.questions, strict=True)
        return [
            Score(float(not question.answers), float(not question.answers))
            if self._is_silent(question, threshold)
            else of_best
            for of_best, question in pairs
        ]

    def _is_silent(self, question: SpanScores, threshold: float) -> bool:
        return self.has_unanswerable and question.odds > threshold

    def metrics(self, threshold: float) -> dict[str, float]:
        """Return the metrics over all questions, and separately over those with an answer and those without."""
        scores = self.scores(threshold)
        result = {"exact_match": _mean(scores, "exact_match"), "f1": _mean(scores, "f1")}
        if not self.has_unanswerable:
            return result
        pairs = list(zip(scores, self.questions, strict=True))
        with_answer = [one for one, question in pairs if question.answers]
        without = [one for one, question in pairs if not question.answers]
        if with_answer:
            result["has_answer_exact_match"] = _mean(with_answer, "exact_match")
            result["has_answer_f1"] = _mean(with_answer, "f1")
        if without:
            result["no_answer_accuracy"] = _mean(without, "exact_match")
        return result

    def blind(self) -> dict[str, float]:
        """Return the metrics of always answering with the whole context or, where that may be right, of never
        answering."""
        rule = score_or_nothing if self.has_unanswerable else score
        scores = [rule(question.context, question.answers) for question in self.questions]
        metrics = {name: _mean(scores, name) for name in (EXACT_MATCH_OF_QUESTIONS.name, F1.name)}
        if not self.has_unanswerable:
            return metrics
        with_answer = [one for one, question in zip(scores, self.questions, strict=True) if question.answers]
        silent = 1 - len(with_answer) / len(self.questions)
        best = {name: max(value, silent) for name, value in metrics.items()}
        if with_answer:
            best[HAS_ANSWER_EXACT_MATCH.name] = _mean(with_answer, EXACT_MATCH_OF_QUESTIONS.name)
            best[HAS_ANSWER_F1.name] = _mean(with_answer, F1.name)
        return best | ({NO_ANSWER_ACCURACY.name: 1.0} if silent else {})

    def files(self, threshold: float) -> Mapping[str, object]:
        """Return the files that SQuAD's scripts read, by the id of each question."""
        result: dict[str, Any] = {
            "predictions": dict(
                zip((question.id for question in self.questions), self.final_answers(threshold), strict=True)
            ),
            "nbest_predictions": {question.id: self._ranked(question) for question in self.questions},
        }
        if self.has_unanswerable:
            result["null_odds"] = {question.id: question.odds for question in self.questions if question.candidates}
        return result

    def _ranked(self, question: SpanScores) -> list[dict[str, Any]]:
        """Return the candidates with their probabilities among each other."""
        nothing = [Candidate("", question.nothing)] if self.has_unanswerable else []
        ranked = sorted((*question.candidates, *nothing), key=lambda candidate: -candidate.logit)
        weights = [math.exp(candidate.logit - ranked[0].logit) for candidate in ranked]
        return [
            {"text": candidate.text, "probability": weight / sum(weights), "logit": candidate.logit}
            for candidate, weight in zip(ranked, weights, strict=True)
        ]


def _mean(scores: Sequence[Score], name: str) -> float:
    value: float = sum(getattr(one, name) for one in scores) / len(scores)
    return value

"""From windows of contexts to one answer a question: candidates of all windows together, and whether to answer at all
(Devlin et al. 2019, https://arxiv.org/abs/1810.04805, section 4.3)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headtohead.metrics.exact_match import OF_QUESTIONS
from headtohead.metrics.f1 import F1
from headtohead.metrics.has_answer_exact_match import HAS_ANSWER_EXACT_MATCH
from headtohead.metrics.has_answer_f1 import HAS_ANSWER_F1
from headtohead.metrics.no_answer_accuracy import NO_ANSWER_ACCURACY
from headtohead.tasks.squad import Score, score, score_or_nothing


@dataclass(frozen=True)
class Candidate:
    text: str
    logit: float
    """The sum of its first token's and its last token's."""


@dataclass(frozen=True)
class Seen:
    """What a model says to a question in one window, or, joined, in all."""

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
        """How much likelier than the best candidate no answer is, as a difference of logits."""
        return self.nothing - self.candidates[0].logit if self.candidates else math.inf


def best_of(candidates: Iterable[Candidate], count: int) -> tuple[Candidate, ...]:
    """Of candidates with the same text the best alone, of equally good ones the shorter first; those that say nothing
    are none."""
    best: dict[str, float] = {}
    for candidate in candidates:
        if candidate.text:
            best[candidate.text] = max(candidate.logit, best.get(candidate.text, -math.inf))
    ranked = sorted(best.items(), key=lambda item: (-item[1], len(item[0]), item[0]))
    return tuple(Candidate(text, logit) for text, logit in ranked[:count])


def joined(windows: Iterable[Seen], count: int) -> list[Seen]:
    """One for each question, in order. A question is unanswerable as far as the window says so in which an answer is
    likeliest."""
    of: dict[int, list[Seen]] = {}
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


class Answered:
    """The questions of a split with what a model says to them."""

    def __init__(self, questions: Sequence[Seen], *, may_say_nothing: bool) -> None:
        self.questions, self.may_say_nothing = questions, may_say_nothing
        rule = score_or_nothing if may_say_nothing else score
        self._best = [question.candidates[0].text if question.candidates else "" for question in questions]
        self._of_best = [rule(text, question.answers) for text, question in zip(self._best, questions, strict=True)]

    def threshold(self) -> float:
        """Odds above which no answer is given, so that F1 is largest on these very questions; the lowest of all that
        do as well. Of odds that are equal, all are answered or none."""
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

    def said(self, threshold: float) -> list[str]:
        """What is answered to each question in the end."""
        pairs = zip(self._best, self.questions, strict=True)
        return ["" if self._is_silent(question, threshold) else best for best, question in pairs]

    def scores(self, threshold: float) -> list[Score]:
        """No answer is right where there is none, and wrong elsewhere, whatever the answer is made of."""
        pairs = zip(self._of_best, self.questions, strict=True)
        return [
            Score(float(not question.answers), float(not question.answers))
            if self._is_silent(question, threshold)
            else of_best
            for of_best, question in pairs
        ]

    def _is_silent(self, question: Seen, threshold: float) -> bool:
        return self.may_say_nothing and question.odds > threshold

    def metrics(self, threshold: float) -> dict[str, float]:
        """Over all questions, and apart over those with an answer and those without."""
        scores = self.scores(threshold)
        found = {"exact_match": _mean(scores, "exact_match"), "f1": _mean(scores, "f1")}
        if not self.may_say_nothing:
            return found
        pairs = list(zip(scores, self.questions, strict=True))
        with_answer = [one for one, question in pairs if question.answers]
        without = [one for one, question in pairs if not question.answers]
        if with_answer:
            found["has_answer_exact_match"] = _mean(with_answer, "exact_match")
            found["has_answer_f1"] = _mean(with_answer, "f1")
        if without:
            found["no_answer_accuracy"] = _mean(without, "exact_match")
        return found

    def blind(self) -> dict[str, float]:
        """What one gets who gives the whole context each time or, where that may be right, never an answer."""
        rule = score_or_nothing if self.may_say_nothing else score
        scores = [rule(question.context, question.answers) for question in self.questions]
        whole = {name: _mean(scores, name) for name in (OF_QUESTIONS.name, F1.name)}
        if not self.may_say_nothing:
            return whole
        with_answer = [one for one, question in zip(scores, self.questions, strict=True) if question.answers]
        silent = 1 - len(with_answer) / len(self.questions)
        found = {name: max(value, silent) for name, value in whole.items()}
        if with_answer:
            found[HAS_ANSWER_EXACT_MATCH.name] = _mean(with_answer, OF_QUESTIONS.name)
            found[HAS_ANSWER_F1.name] = _mean(with_answer, F1.name)
        return found | ({NO_ANSWER_ACCURACY.name: 1.0} if silent else {})

    def files(self, threshold: float) -> Mapping[str, Any]:
        """In the form that SQuAD's scripts read, by the id of each question."""
        found: dict[str, Any] = {
            "predictions": dict(zip((question.id for question in self.questions), self.said(threshold), strict=True)),
            "nbest_predictions": {question.id: self._ranked(question) for question in self.questions},
        }
        if self.may_say_nothing:
            found["null_odds"] = {question.id: question.odds for question in self.questions if question.candidates}
        return found

    def _ranked(self, question: Seen) -> list[dict[str, Any]]:
        """With their shares among each other."""
        nothing = [Candidate("", question.nothing)] if self.may_say_nothing else []
        ranked = sorted((*question.candidates, *nothing), key=lambda candidate: -candidate.logit)
        weights = [math.exp(candidate.logit - ranked[0].logit) for candidate in ranked]
        return [
            {"text": candidate.text, "probability": weight / sum(weights), "logit": candidate.logit}
            for candidate, weight in zip(ranked, weights, strict=True)
        ]


def _mean(scores: Sequence[Score], name: str) -> float:
    value: float = sum(getattr(one, name) for one in scores) / len(scores)
    return value

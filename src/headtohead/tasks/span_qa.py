"""Find the answer to a question in a text: its first and last token (Rajpurkar et al. 2016,
https://arxiv.org/abs/1606.05250), or that the text has none (Rajpurkar et al. 2018,
https://arxiv.org/abs/1806.03822)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.heads import Span
from headtohead.data.batches.batch import Batch, QuestionText
from headtohead.data.data_source import DataSpec
from headtohead.errors import UsageError
from headtohead.metrics.generated_texts import (
    EXACT_MATCH_OF_QUESTIONS,
    F1,
    HAS_ANSWER_EXACT_MATCH,
    HAS_ANSWER_F1,
    NO_ANSWER_ACCURACY,
    NO_ANSWER_THRESHOLD,
)
from headtohead.metrics.language_modelling import LOSS
from headtohead.metrics.metric import Metric
from headtohead.ranges import Count, Length
from headtohead.tasks.class_metrics import class_loss, wide
from headtohead.tasks.metric_sums import CollectedPerStage, MetricSums, PerStage
from headtohead.tasks.span_answers import AnsweredQuestions, Candidate, SpanScores, best_of, joined_windows, top_spans
from headtohead.tasks.task import Decode, Loss, Task, direction_of
from headtohead.tasks.token_prediction import targets_of
from headtohead.tasks.vocabulary_loss import mean

THRESHOLD = NO_ANSWER_THRESHOLD.name
NO_ANSWER = "(no answer)"


class SpanQuestionAnswering(Task):
    """`loss` is the mean over both ends of every window; `exact_match` and `f1` are of questions, and compare texts, as
    SQuAD's own scripts do.

    No answer is the row's last token, which sees all of it in models of either direction. A question is answered unless
    no answer is likelier than the best candidate by more than a threshold, which validation chooses.
    """

    head = "span"
    families: ClassVar[tuple[str, ...]] = ("encoder_only", "decoder_only")
    data_kinds: ClassVar[tuple[str, ...]] = ("questions",)
    metrics: ClassVar[tuple[Metric, ...]] = (
        LOSS,
        EXACT_MATCH_OF_QUESTIONS,
        F1,
        HAS_ANSWER_EXACT_MATCH,
        HAS_ANSWER_F1,
        NO_ANSWER_ACCURACY,
        NO_ANSWER_THRESHOLD,
    )
    row_ratios: ClassVar[Mapping[str, tuple[str, str]]] = {
        "exact_match": ("exact", "questions"),
        "f1": ("f1", "questions"),
    }

    def __init__(self, max_answer_length: Length = 30, num_candidates: Count = 20, monitor: str = "loss") -> None:
        super().__init__()
        for name, value, what in (
            ("max_answer_length", max_answer_length, "token"),
            ("num_candidates", num_candidates, "answer"),
        ):
            if value < 1:
                raise UsageError(f"task.{name}={value} must be at least 1 {what}.")
        self.max_answer_length, self.num_candidates = max_answer_length, num_candidates
        self.monitor, self.direction = monitor, direction_of(monitor, (LOSS, EXACT_MATCH_OF_QUESTIONS, F1))
        self.sums = PerStage(lambda: MetricSums("loss", "ends", "places", "windows"))
        self.seen = CollectedPerStage()
        self.threshold = 0.0
        """Odds of no answer above which none is given."""
        self._results: dict[str, AnsweredQuestions] = {}
        self._uniform_loss: dict[str, float] = {}

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        del seed, epoch
        if batch.tokens is None or batch.targets is None or batch.targets.shape != (len(batch.tokens), 2):
            raise UsageError(
                "task=span_qa reads questions with the place of the answer: choose data of kind questions."
            )
        if batch.questions is None:
            raise UsageError("task=span_qa compares texts, and these rows bring none: give Batch.questions.")
        return batch

    def num_scored(self, length: int) -> int:
        """Return the number of positions, since any might be the end of the answer."""
        return length

    def loss(self, model: Architecture, batch: Batch) -> Loss:
        return _loss_of(self._logits(model, batch), batch)

    @torch.no_grad()
    def measure(self, stage: Literal["validation", "test"], model: Architecture, batch: Batch) -> None:
        logits = self._logits(model, batch)
        loss, indices = _loss_of(logits, batch), _context(batch).sum(1) + 1
        self.sums.add(
            stage,
            loss=loss.total,
            ends=loss.count,
            places=indices.double().log().sum(),
            windows=float(batch.num_samples),
        )
        self.seen.add(stage, *self._seen(logits, batch))

    def results(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        sums, windows = self.sums.read(stage), self.seen.items(stage)
        loss = mean(sums["loss"], sums["ends"], "question")
        answered = AnsweredQuestions(
            joined_windows(windows, self.num_candidates), has_unanswerable=self.spec.has_unanswerable
        )
        if stage == "validation" and self.spec.has_unanswerable:
            self.threshold = answered.threshold()
        metrics = answered.metrics(self.threshold)
        self._results[stage], self._uniform_loss[stage] = answered, sums["places"] / sums["windows"]
        if stage == "test" and self.rows.enabled:
            self._keep_questions(answered)
        threshold = {THRESHOLD: self.threshold} if self.spec.has_unanswerable else {}
        return {"loss": loss, **metrics, **threshold}

    def _keep_questions(self, answered: AnsweredQuestions) -> None:
        """Record one row per question, whatever the number of its windows."""
        scores = answered.scores(self.threshold)
        self.rows.add(
            torch.tensor([question.number for question in answered.questions]),
            exact=torch.tensor([score.exact_match for score in scores]),
            f1=torch.tensor([score.f1 for score in scores]),
            questions=torch.ones(len(scores)),
        )

    def use_selected(self, selected: Mapping[str, float]) -> None:
        self.threshold = selected.get(THRESHOLD, 0.0)

    def baseline(self, spec: DataSpec) -> dict[str, float]:
        """Return the metrics of a uniform guess over the positions of the longest row, which finds no answer."""
        return {"loss": math.log(spec.max_length), "exact_match": 0.0, "f1": 0.0}

    def measured_baseline(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        """Return the loss of a uniform guess over each row's own text, and the F1 of the whole context as the answer;
        where some questions have no answer, of never answering."""
        return {"loss": self._uniform_loss[stage], **self._results[stage].blind()} if stage in self._results else {}

    def files(self, stage: Literal["validation", "test"]) -> Mapping[str, object]:
        """Return predictions as SQuAD's scripts read them, the candidates behind them, and the odds of no answer."""
        return self._results[stage].files(self.threshold) if stage in self._results else {}

    def samples(self, model: Architecture, batch: Batch, decode: Decode) -> list[dict[str, str]]:
        assert batch.tokens is not None, "view checks the tokens"
        with torch.no_grad():
            windows = self._seen(self._logits(model, batch), batch)
        samples, context = [], _context(batch)
        for row, (tokens, window) in enumerate(zip(batch.tokens, windows, strict=True)):
            real = torch.ones_like(context[row]) if batch.valid is None else batch.valid[row]
            before = (real & ~context[row]).nonzero().squeeze(1)[:-1]  # the last one is the end
            question = _questions_of(batch)[row]
            odds = {"odds of no answer": f"{window.odds:.3f}"} if self.spec.has_unanswerable else {}
            samples.append(
                {
                    "question": decode(tokens[before].tolist()).strip(),
                    "text": decode(tokens[context[row]].tolist()).strip(),
                    "truth": _truth(question, targets_of(batch)[row].tolist(), int(real.sum()) - 1),
                    "predicted": self._answer(window),
                    **odds,
                }
            )
        return samples

    def _answer(self, window: SpanScores) -> str:
        is_none = not window.candidates or (self.spec.has_unanswerable and window.odds > self.threshold)
        return NO_ANSWER if is_none else window.candidates[0].text

    def _seen(self, logits: Float[Tensor, "B L 2"], batch: Batch) -> Iterator[SpanScores]:
        """Yield the span scores of each row for its question."""
        context = _context(batch)
        sums, spans = top_spans(logits, context, max_length=self.max_answer_length, count=self.num_candidates)
        nothing = wide(logits)[torch.arange(len(logits), device=logits.device), _last(batch)].sum(1)
        rows = zip(_questions_of(batch), sums.tolist(), spans.tolist(), nothing.tolist(), strict=True)
        return (
            SpanScores(
                question.number,
                question.id,
                question.context,
                question.answers,
                self._candidates(question, of_row, indices),
                none,
            )
            for question, of_row, indices, none in rows
        )

    def _candidates(self, question: QuestionText, sums: list[float], spans: list[list[int]]) -> tuple[Candidate, ...]:
        pairs = zip(sums, spans, strict=True)
        candidates = (Candidate(question.text(*span), logit) for logit, span in pairs if logit > -math.inf)
        return best_of(candidates, self.num_candidates)

    def _logits(self, model: Architecture, batch: Batch) -> Float[Tensor, "B L 2"]:
        if not isinstance(model.head, Span):
            raise UsageError(
                f"head={type(model.head).__name__} points at no answer: build the model with the head that the task "
                "names."
            )
        y: Tensor = model(**batch.inputs())
        return y


def _loss_of(logits: Float[Tensor, "B L 2"], batch: Batch) -> Loss:
    """Return the loss of both ends separately, each over the positions of the row."""
    return class_loss(logits.transpose(1, 2).flatten(0, 1), targets_of(batch).flatten())


def _last(batch: Batch) -> Int[Tensor, " B"]:
    """Return the position of each row's last token."""
    assert batch.tokens is not None, "view checks the tokens"
    if batch.valid is None:
        return torch.full_like(batch.rows, batch.tokens.shape[1] - 1)
    return batch.valid.sum(1) - 1


def _context(batch: Batch) -> Bool[Tensor, "B L"]:
    """Return a mask of the positions where an answer may lie."""
    assert batch.tokens is not None, "view checks the tokens"
    indices = torch.arange(batch.tokens.shape[1], device=batch.tokens.device)
    before = indices < _last(batch)[:, None]
    return before if batch.token_types is None else before & (batch.token_types == 1)


def _questions_of(batch: Batch) -> tuple[QuestionText, ...]:
    assert batch.questions is not None, "view checks it"
    return batch.questions


def _truth(question: QuestionText, span: list[int], end: int) -> str:
    first, last = span
    return NO_ANSWER if first == end else question.text(first, last)

"""Find the answer to a question in a text: its first and last token (Rajpurkar et al. 2016,
https://arxiv.org/abs/1606.05250), or that the text has none (Rajpurkar et al. 2018, https://arxiv.org/abs/1806.03822)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.architectures.contracts import Architecture
from headtohead.architectures.heads import Span
from headtohead.data.asked import Asked
from headtohead.data.batch import Batch
from headtohead.data.contracts import DataSpec
from headtohead.errors import UsageError
from headtohead.metrics.exact_match import OF_QUESTIONS
from headtohead.metrics.f1 import F1
from headtohead.metrics.has_answer_exact_match import HAS_ANSWER_EXACT_MATCH
from headtohead.metrics.has_answer_f1 import HAS_ANSWER_F1
from headtohead.metrics.loss import LOSS
from headtohead.metrics.metric import Metric
from headtohead.metrics.no_answer_accuracy import NO_ANSWER_ACCURACY
from headtohead.metrics.no_answer_threshold import NO_ANSWER_THRESHOLD
from headtohead.ranges import Count, Length
from headtohead.tasks.answering import Answered, Candidate, Seen, best_of, joined
from headtohead.tasks.class_labels import class_loss, wide
from headtohead.tasks.collecting import CollectedPerStage
from headtohead.tasks.contracts import Decode, Loss, Task
from headtohead.tasks.monitoring import direction_of
from headtohead.tasks.spans import top_spans
from headtohead.tasks.sums import PerStage, Sums
from headtohead.tasks.token_prediction import targets_of
from headtohead.tasks.vocabulary import mean

THRESHOLD = NO_ANSWER_THRESHOLD.name
NO_ANSWER = "(no answer)"


class SpanQuestionAnswering(Task):
    """`loss` is the mean over both ends of every window; `exact_match` and `f1` are of questions, and compare texts, as
    SQuAD's own scripts do.

    No answer is the row's last token, which sees all of it in models of either direction. A question is answered unless
    no answer is likelier than the best candidate by more than a threshold, which validation chooses.
    """

    head = "span"
    families: ClassVar[tuple[str, ...]] = ("encoder_only", "decoder_only", "recurrent")
    data_kinds: ClassVar[tuple[str, ...]] = ("questions",)
    metrics: ClassVar[tuple[Metric, ...]] = (
        LOSS,
        OF_QUESTIONS,
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
        self.monitor, self.direction = monitor, direction_of(monitor, (LOSS, OF_QUESTIONS, F1))
        self.sums = PerStage(lambda: Sums("loss", "ends", "places", "windows"))
        self.seen = CollectedPerStage()
        self.threshold = 0.0
        """Odds of no answer above which none is given."""
        self._found: dict[str, Answered] = {}
        self._places: dict[str, float] = {}

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        del seed, epoch
        if batch.tokens is None or batch.targets is None or batch.targets.shape != (len(batch.tokens), 2):
            raise UsageError(
                "task=span_qa reads questions with the place of the answer: choose data of kind questions."
            )
        if batch.asked is None:
            raise UsageError("task=span_qa compares texts, and these rows bring none: give Batch.asked.")
        return batch

    def num_scored(self, length: int) -> int:
        """Whatever the answer, every place might be its end."""
        return length

    def loss(self, model: Architecture, batch: Batch) -> Loss:
        return _loss_of(self._logits(model, batch), batch)

    @torch.no_grad()
    def measure(self, stage: Literal["validation", "test"], model: Architecture, batch: Batch) -> None:
        logits = self._logits(model, batch)
        loss, places = _loss_of(logits, batch), _context(batch).sum(1) + 1
        self.sums.add(
            stage,
            loss=loss.total,
            ends=loss.count,
            places=places.double().log().sum(),
            windows=float(batch.num_samples),
        )
        self.seen.add(stage, *self._seen(logits, batch))

    def results(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        sums, windows = self.sums.read(stage), self.seen.items(stage)
        loss = mean(sums["loss"], sums["ends"], "question")
        found = Answered(joined(windows, self.num_candidates), may_say_nothing=self.spec.has_unanswerable)
        if stage == "validation" and self.spec.has_unanswerable:
            self.threshold = found.threshold()
        metrics = found.metrics(self.threshold)
        self._found[stage], self._places[stage] = found, sums["places"] / sums["windows"]
        if stage == "test" and self.rows.wanted:
            self._keep_questions(found)
        told = {THRESHOLD: self.threshold} if self.spec.has_unanswerable else {}
        return {"loss": loss, **metrics, **told}

    def _keep_questions(self, found: Answered) -> None:
        """A row is a question, whatever the number of its windows."""
        scores = found.scores(self.threshold)
        self.rows.add(
            torch.tensor([question.number for question in found.questions]),
            exact=torch.tensor([score.exact_match for score in scores]),
            f1=torch.tensor([score.f1 for score in scores]),
            questions=torch.ones(len(scores)),
        )

    def settle(self, selected: Mapping[str, float]) -> None:
        self.threshold = selected.get(THRESHOLD, 0.0)

    def baseline(self, spec: DataSpec) -> dict[str, float]:
        """Every place alike, in the longest row; no answer is met by that."""
        return {"loss": math.log(spec.max_length), "exact_match": 0.0, "f1": 0.0}

    def measured_baseline(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        """Every place of a row's own text alike for the loss; for F1 the whole context as the answer. Where some
        questions have none: never to answer."""
        return {"loss": self._places[stage], **self._found[stage].blind()} if stage in self._found else {}

    def files(self, stage: Literal["validation", "test"]) -> Mapping[str, Any]:
        """Predictions as SQuAD's scripts read them, the candidates behind them, the odds of no answer."""
        return self._found[stage].files(self.threshold) if stage in self._found else {}

    def samples(self, model: Architecture, batch: Batch, decode: Decode) -> list[dict[str, str]]:
        assert batch.tokens is not None, "view checks the tokens"
        with torch.no_grad():
            windows = self._seen(self._logits(model, batch), batch)
        samples, context = [], _context(batch)
        for row, (tokens, window) in enumerate(zip(batch.tokens, windows, strict=True)):
            real = torch.ones_like(context[row]) if batch.valid is None else batch.valid[row]
            before = (real & ~context[row]).nonzero().squeeze(1)[:-1]  # the last one is the end
            asked = _asked(batch)[row]
            odds = {"odds of no answer": f"{window.odds:.3f}"} if self.spec.has_unanswerable else {}
            samples.append(
                {
                    "question": decode(tokens[before].tolist()).strip(),
                    "text": decode(tokens[context[row]].tolist()).strip(),
                    "truth": _truth(asked, targets_of(batch)[row].tolist(), int(real.sum()) - 1),
                    "predicted": self._answer(window),
                    **odds,
                }
            )
        return samples

    def _answer(self, window: Seen) -> str:
        is_none = not window.candidates or (self.spec.has_unanswerable and window.odds > self.threshold)
        return NO_ANSWER if is_none else window.candidates[0].text

    def _seen(self, logits: Float[Tensor, "B L 2"], batch: Batch) -> Iterator[Seen]:
        """What each row says of its question."""
        context = _context(batch)
        sums, spans = top_spans(logits, context, max_length=self.max_answer_length, count=self.num_candidates)
        nothing = wide(logits)[torch.arange(len(logits), device=logits.device), _last(batch)].sum(1)
        rows = zip(_asked(batch), sums.tolist(), spans.tolist(), nothing.tolist(), strict=True)
        return (
            Seen(asked.number, asked.id, asked.context, asked.answers, self._candidates(asked, of_row, places), none)
            for asked, of_row, places, none in rows
        )

    def _candidates(self, asked: Asked, sums: list[float], spans: list[list[int]]) -> tuple[Candidate, ...]:
        pairs = zip(sums, spans, strict=True)
        found = (Candidate(asked.text(*span), logit) for logit, span in pairs if logit > -math.inf)
        return best_of(found, self.num_candidates)

    def _logits(self, model: Architecture, batch: Batch) -> Float[Tensor, "B L 2"]:
        if not isinstance(model.head, Span):
            raise UsageError(
                f"head={type(model.head).__name__} points at no answer: build the model with the head that the task "
                "names."
            )
        y: Tensor = model(**batch.inputs())
        return y


def _loss_of(logits: Float[Tensor, "B L 2"], batch: Batch) -> Loss:
    """Each end by itself, among the places of the row."""
    return class_loss(logits.transpose(1, 2).flatten(0, 1), targets_of(batch).flatten())


def _last(batch: Batch) -> Int[Tensor, " B"]:
    """The place of each row's last token."""
    assert batch.tokens is not None, "view checks the tokens"
    if batch.valid is None:
        return torch.full_like(batch.rows, batch.tokens.shape[1] - 1)
    return batch.valid.sum(1) - 1


def _context(batch: Batch) -> Bool[Tensor, "B L"]:
    """Where an answer may lie."""
    assert batch.tokens is not None, "view checks the tokens"
    places = torch.arange(batch.tokens.shape[1], device=batch.tokens.device)
    before = places < _last(batch)[:, None]
    return before if batch.token_types is None else before & (batch.token_types == 1)


def _asked(batch: Batch) -> tuple[Asked, ...]:
    assert batch.asked is not None, "view checks it"
    return batch.asked


def _truth(asked: Asked, span: list[int], end: int) -> str:
    first, last = span
    return NO_ANSWER if first == end else asked.text(first, last)

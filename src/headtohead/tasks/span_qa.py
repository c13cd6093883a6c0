"""Find the answer to a question in a text: its first and last token (Rajpurkar et al. 2016,
https://arxiv.org/abs/1606.05250). Every question has an answer."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.architectures.contracts import Architecture
from headtohead.architectures.heads import Span
from headtohead.data.batch import Batch
from headtohead.data.contracts import DataSpec
from headtohead.tasks.class_labels import class_loss, wide
from headtohead.tasks.contracts import Decode, Loss, Task
from headtohead.tasks.monitoring import direction_of
from headtohead.tasks.squad import exact_match, f1
from headtohead.tasks.sums import PerStage, Sums
from headtohead.tasks.token_prediction import targets_of
from headtohead.tasks.vocabulary import mean


class SpanQuestionAnswering(Task):
    """`loss` is the mean over both ends; `exact_match` and `f1` compare texts, as SQuAD's own script does."""

    head = "span"
    families: ClassVar[tuple[str, ...]] = ("encoder_only", "decoder_only", "recurrent")
    data_kinds: ClassVar[tuple[str, ...]] = ("questions",)
    metrics: ClassVar[tuple[str, ...]] = ("loss", "exact_match", "f1")

    def __init__(self, max_answer_length: int = 30, monitor: str = "loss") -> None:
        super().__init__()
        if max_answer_length < 1:
            raise ValueError(f"task.max_answer_length={max_answer_length} must be at least 1 token.")
        self.max_answer_length = max_answer_length
        self.monitor, self.direction = monitor, direction_of(monitor, self.metrics)
        names = ("loss", "ends", "exact", "f1", "questions", "places", "f1_of_all")
        self.sums = PerStage(lambda: Sums(*names))
        self._baselines: dict[str, dict[str, float]] = {}

    def bind(self, spec: DataSpec) -> Task:
        if spec.decode is None:
            raise ValueError("task=span_qa compares texts, and this data has no decode: give DataSpec.decode.")
        return super().bind(spec)

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        del seed, epoch
        if batch.tokens is None or batch.targets is None or batch.targets.shape != (len(batch.tokens), 2):
            raise ValueError(
                "task=span_qa reads questions with the place of the answer: choose data of kind questions."
            )
        return batch

    def num_scored(self, length: int) -> int:
        """Whatever the answer, every place might be its end."""
        return length

    def loss(self, model: Architecture, batch: Batch) -> Loss:
        return _loss_of(self._logits(model, batch), batch)

    @torch.no_grad()
    def measure(self, stage: Literal["validation", "test"], model: Architecture, batch: Batch) -> None:
        decode, logits = self.spec.decode, self._logits(model, batch)
        assert decode is not None and batch.tokens is not None, "bind and view check them"
        loss, open_to_answers = _loss_of(logits, batch), _context(batch)
        spans = zip(
            batch.tokens.cpu(),
            open_to_answers.cpu(),
            best_spans(logits, self.max_answer_length).tolist(),
            targets_of(batch).tolist(),
            strict=True,
        )
        texts = [(_text(row, said, decode), _text(row, true, decode), row[kept]) for row, kept, said, true in spans]
        self.sums.add(
            stage,
            loss=loss.total,
            ends=loss.count,
            exact=sum(exact_match(said, true) for said, true, _ in texts),
            f1=sum(f1(said, true) for said, true, _ in texts),
            questions=len(texts),
            places=open_to_answers.sum(1).double().log().sum(),
            f1_of_all=sum(f1(decode(whole.tolist()), true) for _, true, whole in texts),
        )

    def results(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        sums = self.sums.read(stage)
        loss, count = mean(sums["loss"], sums["ends"], "question"), sums["questions"]
        self._baselines[stage] = {"loss": sums["places"] / count, "f1": sums["f1_of_all"] / count}
        return {"loss": loss, "exact_match": sums["exact"] / count, "f1": sums["f1"] / count}

    def baseline(self, spec: DataSpec) -> dict[str, float]:
        """Every place alike, in the longest row; no answer is met by that."""
        return {"loss": math.log(spec.max_length), "exact_match": 0.0, "f1": 0.0}

    def measured_baseline(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        """Every place of a row's own text alike for the loss; for F1 the whole text as the answer."""
        return self._baselines.get(stage, {})

    def samples(self, model: Architecture, batch: Batch, decode: Decode) -> list[dict[str, str]]:
        assert batch.tokens is not None, "view checks the tokens"
        with torch.no_grad():
            spans = best_spans(self._logits(model, batch), self.max_answer_length).tolist()
        samples, context = [], _context(batch)
        for row, tokens in enumerate(batch.tokens):
            real = torch.ones_like(context[row]) if batch.valid is None else batch.valid[row]
            samples.append(
                {
                    "question": decode(tokens[real & ~context[row]].tolist()).strip(),
                    "text": decode(tokens[context[row]].tolist()).strip(),
                    "truth": _text(tokens, targets_of(batch)[row].tolist(), decode).strip(),
                    "predicted": _text(tokens, spans[row], decode).strip(),
                }
            )
        return samples

    def _logits(self, model: Architecture, batch: Batch) -> Float[Tensor, "B L 2"]:
        if not isinstance(model.head, Span):
            raise ValueError(
                f"head={type(model.head).__name__} points at no answer: build the model with the head that the task "
                "names."
            )
        return model(**batch.inputs())


def _loss_of(logits: Float[Tensor, "B L 2"], batch: Batch) -> Loss:
    """Each end by itself, among the places of the row."""
    return class_loss(logits.transpose(1, 2).flatten(0, 1), targets_of(batch).flatten())


def best_spans(logits: Float[Tensor, "B L 2"], max_length: int) -> Int[Tensor, "B 2"]:
    """First and last token of the span with the largest sum of its two logits, at most `max_length` tokens long; of
    equal ones the shortest, then the first."""
    starts, ends = wide(logits).unbind(-1)
    best = torch.full_like(starts[:, 0], -math.inf)
    first = torch.zeros_like(best, dtype=torch.long)
    last = first.clone()
    for further in range(min(max_length, starts.shape[1])):
        sums, places = (starts[:, : starts.shape[1] - further] + ends[:, further:]).max(1)
        better = sums > best
        best = torch.where(better, sums, best)
        first, last = torch.where(better, places, first), torch.where(better, places + further, last)
    return torch.stack([first, last], dim=1)


def _context(batch: Batch) -> Bool[Tensor, "B L"]:
    """Where an answer may lie."""
    assert batch.tokens is not None, "view checks the tokens"
    context = torch.ones_like(batch.tokens, dtype=torch.bool) if batch.token_types is None else batch.token_types == 1
    return context if batch.valid is None else context & batch.valid


def _text(tokens: Int[Tensor, " L"], span: list[int], decode: Decode) -> str:
    first, last = span
    return decode(tokens[first : last + 1].tolist())

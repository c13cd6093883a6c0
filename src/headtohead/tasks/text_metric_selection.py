"""Measures that parse written texts (answers, entities and labels), and the choice of measures: a run has those that it
names, and those that its data asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from headtohead.data.data_source import DataSpec
from headtohead.data.row_formats.text_templates import entities_from_text
from headtohead.errors import UsageError
from headtohead.metrics.generated_texts import ANSWER_EXACT_MATCH, ANSWER_F1, BLEU, CHRF, READABLE
from headtohead.metrics.labels import ACCURACY, ENTITY_F1, ENTITY_PRECISION, ENTITY_RECALL, F1_MACRO
from headtohead.tasks.bio_entities import rates
from headtohead.tasks.span_answers import exact_match, f1
from headtohead.tasks.text_overlap import Bleu, Chrf, Rouge, TextMetric


class GeneratedAnswers(TextMetric):
    """Case, punctuation and articles do not count."""

    metrics = (ANSWER_EXACT_MATCH, ANSWER_F1)

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return dict.fromkeys(("answers_exact", "answers_f1", "answers"), ())

    def sums(self, written: Sequence[str], truths: Sequence[str]) -> Mapping[str, Tensor | float]:
        pairs = list(zip(written, truths, strict=True))
        return {
            "answers_exact": sum(exact_match(text, truth) for text, truth in pairs),
            "answers_f1": sum(f1(text, truth) for text, truth in pairs),
            "answers": len(pairs),
        }

    def figures(self, sums: Mapping[str, Any]) -> dict[str, float]:
        count = sums["answers"]
        return {"answer_exact_match": sums["answers_exact"] / count, "answer_f1": sums["answers_f1"] / count}


class GeneratedEntities(TextMetric):
    """An entity that a text has twice must be written twice; the order is free."""

    metrics = (ENTITY_PRECISION, ENTITY_RECALL, ENTITY_F1)

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return dict.fromkeys(("entities_right", "entities_written", "entities_there"), ())

    def sums(self, written: Sequence[str], truths: Sequence[str]) -> Mapping[str, Tensor | float]:
        sums: Counter[str] = Counter()
        for text, truth in zip(written, truths, strict=True):
            predicted, there = Counter(entities_from_text(text)), Counter(entities_from_text(truth))
            sums["entities_right"] += (predicted & there).total()
            sums["entities_written"] += predicted.total()
            sums["entities_there"] += there.total()
        return dict(sums)

    def figures(self, sums: Mapping[str, Any]) -> dict[str, float]:
        return dict(zip(self.names, rates(*(sums[name] for name in self.shapes)), strict=True))

    def of_a_row(self, sums: Mapping[str, object]) -> dict[str, float]:
        """Return the F1, which is 1 where there are no entities and none were written."""
        is_empty = not sums["entities_written"] and not sums["entities_there"]
        return {"entity_f1": 1.0 if is_empty else self.figures(sums)["entity_f1"]}


class GeneratedLabels(TextMetric):
    """`f1_macro` is the mean over the classes; `readable` the share of texts that are a label at all."""

    metrics = (ACCURACY, F1_MACRO, READABLE)

    def __init__(self, words: Sequence[str]) -> None:
        self.words = [word.strip() for word in words]
        self._number_of = {word: number for number, word in enumerate(self.words)}

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Return the shape of the confusion matrix: true classes as rows, written ones as columns, and a column for
        texts that are not a label."""
        return {"label_counts": (len(self.words), len(self.words) + 1)}

    def sums(self, written: Sequence[str], truths: Sequence[str]) -> Mapping[str, Tensor | float]:
        counts = torch.zeros(self.shapes["label_counts"], dtype=torch.float64)
        for text, truth in zip(written, truths, strict=True):
            counts[self._number_of[truth.strip()], self._number_of.get(text.strip(), len(self.words))] += 1
        return {"label_counts": counts}

    def figures(self, sums: Mapping[str, object]) -> dict[str, float]:
        counts = torch.tensor(sums["label_counts"], dtype=torch.float64)
        right, total = counts.diagonal(), float(counts.sum())
        sides = counts.sum(1) + counts[:, :-1].sum(0)
        return {
            "accuracy": float(right.sum()) / total,
            "f1_macro": float((2 * right / sides.clamp(min=1)).mean()),
            "readable": 1 - float(counts[:, -1].sum()) / total,
        }

    def of_a_row(self, sums: Mapping[str, object]) -> dict[str, float]:
        """Return the accuracy alone, since a single label has no F1."""
        return {"accuracy": self.figures(sums)["accuracy"]}

    def baseline(self, spec: DataSpec) -> dict[str, float]:
        """Return the metrics of always writing the most frequent label."""
        share, count = max(spec.answer_shares, default=1 / len(self.words)), len(self.words)
        return {"accuracy": share, "f1_macro": 2 * share / (1 + share) / count, "readable": 1.0}


TextMetricName = Literal["bleu", "chrf", "rouge"]
_NAMED: Mapping[str, Callable[[], TextMetric]] = dict(zip(get_args(TextMetricName), (Bleu, Chrf, Rouge), strict=True))
_USUAL = (BLEU.name, CHRF.name)
TEXT_METRICS = (
    *Bleu.metrics,
    *Chrf.metrics,
    *Rouge.metrics,
    *GeneratedLabels.metrics,
    *GeneratedEntities.metrics,
    *GeneratedAnswers.metrics,
)
"""All that some measure of texts gives."""


def check_named(text_metrics: Sequence[str] | None) -> None:
    for name in text_metrics or ():
        if name not in _NAMED:
            raise UsageError(f"task.text_metrics={name} is unknown: choose from {', '.join(_NAMED)}.")


def text_metrics_for(text_metrics: Sequence[str] | None, spec: DataSpec) -> list[TextMetric]:
    """Return the named measures; without names BLEU and chrF, where targets are texts and not labels, entities or
    answers."""
    named = text_metrics
    if named is None:
        named = _USUAL if spec.decode is not None and spec.written_as == "text" else ()
    if named and spec.decode is None:
        raise UsageError(
            f"task.text_metrics=[{','.join(named)}] compares texts, and this data has no decode: leave it empty, or "
            "give DataSpec.decode."
        )
    return [*(_NAMED[name]() for name in dict.fromkeys(named)), *_default_for(spec)]


def _default_for(spec: DataSpec) -> list[TextMetric]:
    if spec.written_as == "label":
        return [GeneratedLabels(_as_spelt(spec))]
    if spec.written_as == "entities":
        return [GeneratedEntities()]
    return [GeneratedAnswers()] if spec.written_as == "answer" else []


def _as_spelt(spec: DataSpec) -> list[str]:
    """Return the label words as they come back from the tokens of targets, which may be lower-cased or truncated."""
    if spec.encode is None or spec.decode is None:
        return list(spec.label_words)
    room = max(spec.max_target_length - 1, 1)  # the end of a text is a token too
    words = [spec.decode(spec.encode(word)[:room]).strip() for word in spec.label_words]
    if len(set(words)) < len(words):
        raise UsageError(
            f"data.label_words={list(spec.label_words)} are {words} as this tokenizer spells them in targets of {room} "
            "tokens: give words that stay different, another data.tokenizer, or a larger data.max_length."
        )
    return words


def all_sums(measures: Sequence[TextMetric], written: Sequence[str], truths: Sequence[str]) -> dict[str, Any]:
    """Return the sums of every measure in one mapping."""
    sums: dict[str, Tensor | float] = {}
    for measure in measures:
        sums |= measure.sums(written, truths)
    return sums


def row_message(measures: Sequence[TextMetric], written: str, truth: str) -> dict[str, str]:
    """Return the measures of one text as a table shows them."""
    sums = all_sums(measures, [written], [truth])
    plain = {name: value.tolist() if isinstance(value, Tensor) else value for name, value in sums.items()}
    return {name: f"{figure:.3f}" for measure in measures for name, figure in measure.of_a_row(plain).items()}

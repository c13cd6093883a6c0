"""A run has the measures that it names, and those that its data asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

from torch import Tensor

from headtohead.data.data_source import DataSpec
from headtohead.errors import UsageError
from headtohead.metrics.generated_texts import BLEU, CHRF
from headtohead.tasks.text_metrics.generated_answers import GeneratedAnswers, GeneratedEntities, GeneratedLabels
from headtohead.tasks.text_metrics.overlap import Bleu, Chrf, Rouge
from headtohead.tasks.text_metrics.text_metric import TextMetric

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

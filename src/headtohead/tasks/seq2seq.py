"""Write a target for a source: loss and token accuracy with teacher forcing, and the quality of the text that the model
writes without it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from headtohead.architectures.architecture import Architecture, DecodingModel
from headtohead.architectures.head_names import HeadName
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataSpec
from headtohead.errors import UsageError
from headtohead.generation.decoding_loop import greedy
from headtohead.metrics.generated_texts import EXACT_MATCH
from headtohead.metrics.language_modelling import LOSS, TOKEN_ACCURACY
from headtohead.metrics.metric import Metric
from headtohead.ranges import Beams, Length, Probability, Real
from headtohead.tasks.generated_text import BeamSearchOptions, beam_search_rows, until
from headtohead.tasks.metric_sums import Arrays, CollectedPerStage, MetricSums, PerStage
from headtohead.tasks.task import Decode, Task, row_text
from headtohead.tasks.text_metric_selection import (
    TEXT_METRICS,
    TextMetricName,
    all_sums,
    check_named,
    row_message,
    text_metrics_for,
)
from headtohead.tasks.text_overlap import TextMetric
from headtohead.tasks.token_prediction import TokenPrediction, targets_of
from headtohead.tasks.vocabulary_loss import mean, train_batches


class SequenceToSequence(TokenPrediction):
    """`exact_match` is the share of samples whose free-running output is the target to the last token; the measures of
    texts are of the same output. Validation writes greedily, the test with a search where there are beams."""

    head: ClassVar[HeadName] = "language_model"
    families: ClassVar[tuple[str, ...]] = ("encoder_decoder", "recurrent_encoder_decoder")
    data_kinds: ClassVar[tuple[str, ...]] = ("pairs_of_text",)
    metrics: ClassVar[tuple[Metric, ...]] = (LOSS, TOKEN_ACCURACY, EXACT_MATCH, *TEXT_METRICS)
    measured_as = "SequenceToSequence"
    row_ratios: ClassVar[Mapping[str, tuple[str, str]]] = {
        "loss": ("loss", "tokens"),
        "token_accuracy": ("correct", "tokens"),
        "exact_match": ("matches", "samples"),
    }

    def __init__(
        self,
        label_smoothing: Probability = 0.0,
        monitor: str = "loss",
        text_metrics: list[TextMetricName] | None = None,
        beams: Beams = 1,
        length_penalty: Real = 1.0,
        max_new_tokens: Length | None = None,
    ) -> None:
        super().__init__(label_smoothing, monitor)
        check_named(text_metrics)
        self.text_metrics = text_metrics
        self.searching = BeamSearchOptions(beams, length_penalty, max_new_tokens)
        self.measures: list[TextMetric] = []
        self.sums = PerStage(lambda: MetricSums("loss", "correct", "tokens", "matches", "samples", "blind"))
        self.seen = CollectedPerStage()
        self._written: dict[str, list[tuple[int, str, str]]] = {}
        self._blind: dict[str, dict[str, float]] = {}
        self._usual: tuple[int, ...] | None = None
        self._stage: Literal["validation", "test"] = "validation"

    def bind(self, spec: DataSpec) -> Task:
        self.measures = text_metrics_for(self.text_metrics, spec)
        shapes = {name: shape for measure in self.measures for name, shape in measure.shapes.items()}
        self.text_sums, self.blind_sums = PerStage(lambda: Arrays(shapes)), PerStage(lambda: Arrays(shapes))
        measured = [LOSS.name, TOKEN_ACCURACY.name, EXACT_MATCH.name, *(n for one in self.measures for n in one.names)]
        if self.monitor not in measured:
            raise UsageError(
                f"task.monitor={self.monitor} is not measured on this data: choose one of {', '.join(measured)}, or "
                "name it in task.text_metrics."
            )
        return super().bind(spec)

    def measured_how(self) -> str:
        return ", ".join(filter(None, (super().measured_how(), self.searching.description())))

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        del seed, epoch
        if batch.tokens is None or batch.decoder_tokens is None or batch.targets is None:
            raise UsageError("task=seq2seq reads sources and targets: choose data of kind pairs_of_text.")
        return batch

    @torch.no_grad()
    def measure(self, stage: Literal["validation", "test"], model: Architecture, batch: Batch) -> None:
        self._stage = stage
        scores = self.token_scores(model, model.features(**batch.inputs()), batch)
        truth, written = self.truth(batch), self.written(model, batch)
        counted = truth != IGNORED
        scored = counted.any(1)
        matches = scored & ((_as_long(written, truth) == truth) | ~counted).all(1)
        usual = self.most_frequent_target()
        self.count_targets(stage, batch)
        self.sums.add(
            stage,
            loss=scores.loss,
            correct=scores.correct,
            tokens=scores.count,
            matches=matches.sum(),
            samples=scored.sum(),
            blind=float(sum(tuple(row[row != IGNORED].tolist()) == usual for row in truth[scored])) if usual else 0.0,
        )
        self.keep_rows(stage, scores, batch, matches=matches, samples=scored)
        if self.measures and (decode := self.spec.decode) is not None:
            rows = scored.nonzero().squeeze(1).tolist()
            all_texts, all_truths = self._texts(written, decode), _truths(truth, decode)
            texts, truths = [all_texts[row] for row in rows], [all_truths[row] for row in rows]
            self.text_sums.add(stage, **all_sums(self.measures, texts, truths))
            if usual:
                blind = [decode(list(usual))] * len(truths)
                self.blind_sums.add(stage, **all_sums(self.measures, blind, truths))
            if stage == "test":
                self.seen.add(stage, *zip(batch.rows[rows].tolist(), truths, texts, strict=True))

    def results(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        sums = self.sums.read(stage)
        self.read_targets(stage)
        results = {
            "loss": mean(sums["loss"], sums["tokens"], "token"),
            "token_accuracy": sums["correct"] / sums["tokens"],
            "exact_match": sums["matches"] / sums["samples"],
        }
        if self.measures:
            result = self.text_sums.read(stage)
            for measure in self.measures:
                results |= measure.figures(result)
        self._written[stage] = self.seen.items(stage)
        self._blind[stage] = self._blind_texts(stage, sums["blind"] / sums["samples"])
        return results

    def _blind_texts(self, stage: Literal["validation", "test"], matches: float) -> dict[str, float]:
        """Return the figures of the usual target written always."""
        sums = self.blind_sums.read(stage) if self.measures and self.most_frequent_target() else None
        texts = [one.baseline(self.spec) if sums is None else one.figures(sums) for one in self.measures]
        return {EXACT_MATCH.name: matches, **{name: value for figures in texts for name, value in figures.items()}}

    def most_frequent_target(self) -> tuple[int, ...]:
        """Return the target that most rows of the train split share, looked up once; empty where no two share one."""
        if self._usual is None:
            views = (self.training_view(batch, seed=0, epoch=0) for batch in train_batches(self.spec))
            rows = Counter(tuple(row[row != IGNORED].tolist()) for view in views for row in self.truth(view))
            target, times = rows.most_common(1)[0] if rows else ((), 0)
            self._usual = target if times > 1 else ()
        return self._usual

    def measured_baseline(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        """Return the loss of the train split's token frequencies, the accuracy of always naming its most frequent
        token, and the text metrics of always writing its usual target, or nothing."""
        if (guess := self.guess(stage)) is None:
            return {}
        return {LOSS.name: guess.loss, TOKEN_ACCURACY.name: guess.accuracy, **self._blind[stage]}

    def chance(self) -> dict[str, float]:
        """Return the metrics of a uniform prediction over tokens."""
        return {LOSS.name: math.log(self.spec.vocab_size), TOKEN_ACCURACY.name: 1 / self.spec.vocab_size}

    def files(self, stage: Literal["validation", "test"]) -> Mapping[str, object]:
        """Return every text of the test as it was measured, by its row, beside its target."""
        rows = sorted(self._written.get(stage, []))
        texts = {str(row): {"truth": truth, "written": text} for row, truth, text in rows}
        return {"written": texts} if texts else {}

    def baseline(self, spec: DataSpec) -> dict[str, float]:
        """Return the metrics of a uniform prediction over tokens, which hardly ever writes a target exactly."""
        baseline = {"loss": math.log(spec.vocab_size), "token_accuracy": 1 / spec.vocab_size, "exact_match": 0.0}
        for measure in self.measures:
            baseline |= measure.baseline(spec)
        return baseline

    def samples(self, model: Architecture, batch: Batch, decode: Decode) -> list[dict[str, str]]:
        """Return source, target, the text that the model wrote when it was last measured, and that text's metrics."""
        assert batch.tokens is not None, "view checks the tokens"
        sources, truths = self.sources(batch), _truths(self.truth(batch), decode)
        written = self.written(model, batch)
        texts = self._texts(written, decode)
        return [
            {
                "source": row_text(batch.tokens, sources, row, decode),
                "truth": truths[row],
                "written": decode(until(ids, self.spec.eos_id)),
                **row_message(self.measures, texts[row], truths[row]),
            }
            for row, ids in enumerate(written.tolist())
        ]

    def truth(self, batch: Batch) -> Int[Tensor, "B T"]:
        """Return the target tokens, each row from its first token on."""
        return targets_of(batch)

    def sources(self, batch: Batch) -> Batch:
        """Return the batch with `valid` restricted to the source tokens."""
        return batch

    def written(self, model: Architecture, batch: Batch) -> Int[Tensor, "B T"]:
        """Return as many tokens as any target may have; a shorter output repeats its end token."""
        assert batch.tokens is not None, "view checks the tokens"
        if not isinstance(model, DecodingModel) or not model.reads_source:
            raise UsageError(
                f"task=seq2seq decodes with a model such as encoder_decoder, not with {type(model).__name__}."
            )
        return self.decoded(model, batch.tokens, batch.valid, longest=targets_of(batch).shape[1])

    def decoded(
        self, model: DecodingModel, tokens: Int[Tensor, "B L"], valid: Tensor | None, *, longest: int
    ) -> Int[Tensor, "B T"]:
        """Decode greedily, or in a test by beam search. `longest` is the length of the targets at hand: enough to
        decide whether they are matched, but too short where texts are measured, or compete with those that had no room
        to end."""
        searches = self._stage == "test" and self.searching.beams > 1
        length = max(longest, self.spec.max_target_length) if self.measures or searches else longest
        length = self.searching.length(length)
        if searches:
            return beam_search_rows(model, tokens, valid, self.searching, length=length, spec=self.spec)
        return greedy(model, tokens, valid, max_length=length, bos_id=self.spec.bos_id, eos_id=self.spec.eos_id)

    def _texts(self, written: Int[Tensor, "B T"], decode: Decode) -> list[str]:
        """Decode texts without the special tokens, so that one unknown token never matches another."""
        written = written.cpu()
        special = self.spec.are_special(written).tolist()
        texts = []
        for ids, no_text in zip(written.tolist(), special, strict=True):
            pairs = zip(until(ids, self.spec.eos_id), no_text, strict=False)
            texts.append(decode([token for token, none in pairs if not none]))
        return texts


def _truths(truth: Int[Tensor, "B T"], decode: Decode) -> list[str]:
    return [decode([token for token in row if token != IGNORED]) for row in truth.tolist()]


def _as_long(written: Int[Tensor, "B T"], truth: Int[Tensor, "B M"]) -> Int[Tensor, "B M"]:
    """Truncate to this length, or pad with a token that no target contains."""
    missing = truth.shape[1] - written.shape[1]
    return torch.nn.functional.pad(written, (0, missing), value=IGNORED)

"""One tag per token: loss, token accuracy, and precision, recall and F1 of the entities that the tags mark."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.heads import IdentityHead, Tagger
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataSpec
from headtohead.errors import UsageError
from headtohead.metrics.labels import ACCURACY, ENTITY_F1, ENTITY_PRECISION, ENTITY_RECALL
from headtohead.metrics.language_modelling import LOSS, TOKEN_ACCURACY
from headtohead.metrics.metric import Metric, MetricTable
from headtohead.ranges import Probability
from headtohead.tasks.bio_entities import NOTHING, Scheme, rates
from headtohead.tasks.class_metrics import baseline_guess, class_loss, class_names, guessed_classes, losses_of_rows
from headtohead.tasks.metric_sums import Arrays, PerStage, summed_by_row
from headtohead.tasks.task import Decode, Loss, Task, direction_of
from headtohead.tasks.token_prediction import at_target_positions, targets_of
from headtohead.tasks.vocabulary_loss import checked_smoothing, mean, scored_rows

NO_ENTITY = "O"


class Tagging(Task):
    """Words are tagged at their first piece; the head runs on no other tokens. Words that were cut off a long sentence
    are not tagged, which is wrong: their entities count as missed, and so does one that was cut in two."""

    head = "tagger"
    families: ClassVar[tuple[str, ...]] = ("encoder_only", "decoder_only", "external")
    data_kinds: ClassVar[tuple[str, ...]] = ("tagged_text",)
    metrics: ClassVar[tuple[Metric, ...]] = (LOSS, TOKEN_ACCURACY, ENTITY_PRECISION, ENTITY_RECALL, ENTITY_F1)
    row_ratios: ClassVar[Mapping[str, tuple[str, str]]] = {
        "loss": ("loss", "tokens"),
        "token_accuracy": ("correct", "words"),
    }

    def __init__(self, label_smoothing: Probability = 0.0, monitor: str = "loss") -> None:
        super().__init__()
        self.label_smoothing = checked_smoothing(label_smoothing)
        self.monitor, self.direction = monitor, direction_of(monitor, self.metrics)
        self._sums: dict[str, dict[str, Any]] = {}

    def bind(self, spec: DataSpec) -> Task:
        if spec.num_classes == 1:
            raise UsageError(
                f"the data has 1 tag ({spec.class_names[0]}): tagging needs at least 2; give rows with another, or the "
                "column that holds the tags, data.tags_column."
            )
        self.scheme = Scheme(spec.class_names)
        single, by_type = (
            ("loss", "correct", "tokens", "words"),
            ("right", "said", "there", "blind_right", "blind_said"),
        )
        shapes = dict.fromkeys(single, ()) | {name: (len(self.scheme.types),) for name in by_type}
        shapes["tags"] = (spec.num_classes,)
        self.sums = PerStage(lambda: Arrays(shapes))
        return super().bind(spec)

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        del seed, epoch
        if batch.tokens is None or batch.targets is None or batch.targets.shape != batch.tokens.shape:
            raise UsageError("task=tagging reads a tag for every token: choose data of kind tagged_text.")
        return batch

    def loss(self, model: Architecture, batch: Batch) -> Loss:
        smoothing = self.label_smoothing if model.training else 0.0
        logits, tags = self._scored(model, batch)
        return class_loss(logits, tags, label_smoothing=smoothing)

    @torch.no_grad()
    def measure(self, stage: Literal["validation", "test"], model: Architecture, batch: Batch) -> None:
        logits, tags = self._scored(model, batch)
        predicted, loss = logits.argmax(1), class_loss(logits, tags)
        true, guessed = _with_truncated(batch, at_target_positions(predicted, targets_of(batch)))
        counted = true != IGNORED
        if stage == "test" and self.rows.enabled:
            targets = targets_of(batch)
            hits, tokens = (
                (at_target_positions(predicted, targets) == targets) & (targets != IGNORED),
                targets != IGNORED,
            )
            losses = summed_by_row(losses_of_rows(logits, tags), targets)
            self.rows.add(batch.rows, loss=losses, correct=hits.sum(1), tokens=tokens.sum(1), words=counted.sum(1))
        rows = counted.nonzero()[:, 0]
        usual = torch.where(guessed == NOTHING, guessed, self._most_frequent_tag())
        predicted_entities, there, blind = (self.scheme.entities(of[counted], rows) for of in (guessed, true, usual))
        count = len(self.scheme.types)
        self.sums.add(
            stage,
            loss=loss.total,
            correct=(predicted == tags).sum(),
            tokens=loss.count,
            words=counted.sum(),
            right=there.by_type(there.shared_with(predicted_entities), count),
            said=predicted_entities.by_type(predicted_entities.starts, count),
            there=there.by_type(there.starts, count),
            blind_right=there.by_type(there.shared_with(blind), count),
            blind_said=blind.by_type(blind.starts, count),
            tags=torch.bincount(tags[tags != IGNORED], minlength=self.spec.num_classes),
        )

    def results(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        self._sums[stage] = sums = self.sums.read(stage)
        precision, recall, f1 = rates(sum(sums["right"]), sum(sums["said"]), sum(sums["there"]))
        return {
            "loss": mean(sums["loss"], sums["tokens"], "token"),
            "token_accuracy": sums["correct"] / sums["words"],
            "entity_precision": precision,
            "entity_recall": recall,
            "entity_f1": f1,
        }

    def baseline(self, spec: DataSpec) -> dict[str, float]:
        """Return the metrics of the most frequent tag everywhere, commonly O, which finds no entity."""
        best = baseline_guess(spec)
        return {"loss": best.loss, "token_accuracy": best.accuracy} | dict.fromkeys(
            ("entity_precision", "entity_recall", "entity_f1"), 0.0
        )

    def chance(self) -> dict[str, float]:
        """Return the metrics of a uniform guess over tags."""
        return {LOSS.name: math.log(self.spec.num_classes), TOKEN_ACCURACY.name: 1 / self.spec.num_classes}

    def measured_baseline(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        """Return the metrics of the train split's most frequent tag everywhere, with its tag frequencies for the
        loss."""
        if stage not in self._sums:
            return {}
        sums = self._sums[stage]
        tags = guessed_classes(self.spec, sums["tags"])
        rest = rates(*(sum(sums[name]) for name in ("blind_right", "blind_said", "there")))
        return {
            LOSS.name: tags[LOSS.name],
            TOKEN_ACCURACY.name: tags[ACCURACY.name] * sums["tokens"] / sums["words"],
            **dict(zip((ENTITY_PRECISION.name, ENTITY_RECALL.name, ENTITY_F1.name), rest, strict=True)),
        }

    def _most_frequent_tag(self) -> int:
        shares = self.spec.class_shares
        return shares.index(max(shares)) if shares else 0

    def tables(self, stage: Literal["validation", "test"]) -> dict[str, MetricTable]:
        """Return the entities by type."""
        if stage not in self._sums:
            return {}
        sums = self._sums[stage]
        counts = zip(self.scheme.types, sums["right"], sums["said"], sums["there"], strict=True)
        rows = [
            (name, *rates(right, predicted, there), int(there), int(predicted))
            for name, right, predicted, there in counts
        ]
        return {"entities": MetricTable(("type", "precision", "recall", "f1", "entities", "predicted"), tuple(rows))}

    def samples(self, model: Architecture, batch: Batch, decode: Decode) -> list[dict[str, str]]:
        """Return the text with a tag behind every word that is part of an entity."""
        assert batch.tokens is not None, "view checks the tokens"
        targets, names = targets_of(batch), class_names(self.spec)
        with torch.no_grad():
            predicted = at_target_positions(self._scored(model, batch)[0].argmax(1), targets)
        samples = []
        for row, tokens in enumerate(batch.tokens):
            words = _words(tokens, targets[row], decode)
            tags = {"truth": targets[row], "predicted": predicted[row]}
            samples.append(
                {
                    name: " ".join(_tagged(word, names[tag]) for word, tag in zip(words, _word_tags(of), strict=True))
                    for name, of in tags.items()
                }
            )
        return samples

    def _scored(self, model: Architecture, batch: Batch) -> tuple[Float[Tensor, "N C"], Int[Tensor, " N"]]:
        """Return the logits and the tags of the words, row after row."""
        if not isinstance(model.head, Tagger | IdentityHead):
            raise UsageError(
                f"head={type(model.head).__name__} makes no tags: build the model with the head that the task names."
            )
        rows, tags = scored_rows(model.features(**batch.inputs()), targets_of(batch), wait=True)
        return model.head(rows), tags


def _with_truncated(batch: Batch, guessed: Int[Tensor, "B L"]) -> tuple[Int[Tensor, "B M"], Int[Tensor, "B M"]]:
    """Return the true and the predicted tags of all words of each row, including those that were truncated."""
    true, lost = targets_of(batch), batch.lost_tags
    if lost is None:
        return true, guessed
    return torch.cat([true, lost], dim=1), torch.cat([guessed, torch.full_like(lost, NOTHING)], dim=1)


def _word_tags(tags: Int[Tensor, " L"]) -> list[int]:
    tags_of_words: list[int] = tags[tags != IGNORED].tolist()
    return tags_of_words


def _words(tokens: Int[Tensor, " L"], tags: Int[Tensor, " L"], decode: Decode) -> list[str]:
    """Return each word, from its first piece, which has the tag, to the next word's."""
    first_tokens = (tags != IGNORED).nonzero().squeeze(1).tolist()
    return [decode(tokens[first:after].tolist()).strip() for first, after in pairwise([*first_tokens, len(tokens)])]


def _tagged(word: str, tag: str) -> str:
    return word if tag == NO_ENTITY else f"{word}/{tag}"

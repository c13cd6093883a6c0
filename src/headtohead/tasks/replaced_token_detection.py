"""Find the tokens that a small generator has replaced (ELECTRA, Clark et al. 2020, https://arxiv.org/abs/2003.10555):
the generator restores hidden tokens, and the model says of each token whether it is the text's own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.head_names import HeadName
from headtohead.architectures.replaced_tokens import ReplacedTokenDetector
from headtohead.architectures.token_stack import EncoderOnly
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.batches.row_order import uniform
from headtohead.data.data_source import DataSpec
from headtohead.errors import UsageError
from headtohead.metrics.language_modelling import DETECTION_ACCURACY, DETECTION_F1, LOSS, MASKED_ACCURACY
from headtohead.metrics.metric import Metric
from headtohead.ranges import Depth, Positive, Share, Width
from headtohead.tasks.class_metrics import wide
from headtohead.tasks.masked_lm import CHOOSE, REPLACE
from headtohead.tasks.metric_sums import MetricSums, PerStage
from headtohead.tasks.task import Decode, Loss, row_text
from headtohead.tasks.token_prediction import TokenPrediction, targets_of
from headtohead.tasks.vocabulary_loss import mean


@dataclass(frozen=True)
class Proposals:
    """The rows that the model reads, and what the generator made of the hidden tokens in them."""

    tokens: Int[Tensor, "B L"]
    """The text, each hidden token replaced by one drawn from the generator's distribution."""
    hidden: Int[Tensor, " N"]
    """The places of hidden tokens, in rows one after the other."""
    losses: Float[Tensor, " N"]
    """The generator's loss of each hidden token."""
    restored: Bool[Tensor, " N"]
    """Whether the generator's most likely token is the hidden one."""


class ReplacedTokenDetection(TokenPrediction):
    """`loss` is the generator's over hidden tokens plus `discriminator_weight` times the model's over all tokens that
    are not special; no gradient of the second reaches the generator. The first is divided by the expected number of
    hidden tokens, so that a batch may be split. (seed, epoch, row) determines which are hidden and what is drawn."""

    head: ClassVar[HeadName] = "replaced_token_detector"
    head_fields: ClassVar[tuple[str, ...]] = ("generator_width", "generator_layers", "generator_heads", "mask_rate")
    families: ClassVar[tuple[str, ...]] = ("encoder_only",)
    data_kinds: ClassVar[tuple[str, ...]] = ("language", "labelled_text")
    metrics: ClassVar[tuple[Metric, ...]] = (LOSS, DETECTION_ACCURACY, DETECTION_F1, MASKED_ACCURACY)
    row_ratios: ClassVar[Mapping[str, tuple[str, str]]] = {
        "loss": ("loss", "tokens"),
        "detection_accuracy": ("correct", "tokens"),
        "masked_accuracy": ("restored", "hidden"),
    }

    def __init__(
        self,
        mask_rate: Share = 0.15,
        discriminator_weight: Positive = 50.0,
        generator_width: Share = 0.25,
        generator_layers: Depth | None = None,
        generator_heads: Width | None = None,
        monitor: str = "loss",
    ) -> None:
        super().__init__(0.0, monitor)
        if not 0 < mask_rate <= 1:
            raise UsageError(f"task.mask_rate={mask_rate} must be above 0 and at most 1.")
        self.mask_rate, self.discriminator_weight = mask_rate, discriminator_weight
        self.generator_width, self.generator_layers = generator_width, generator_layers
        self.generator_heads = generator_heads
        self.sums = PerStage(
            lambda: MetricSums("loss", "restored", "hidden", "tokens", "correct", "replaced", "flagged", "right")
        )
        self._replaced_share: dict[str, float] = {}

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        if batch.tokens is None:
            raise UsageError(
                "task=replaced_token_detection reads tokens, and this data has none: choose data of kind language."
            )
        spec, tokens = self.spec, batch.tokens
        if spec.mask_id < 0:
            raise UsageError(
                "task=replaced_token_detection hides tokens behind a mask token, and the tokenizer of init_from has "
                "none: choose a checkpoint that was trained with one, such as BERT's, or task=causal_lm"
            )
        chance, draws = (
            torch.from_numpy(uniform(batch.rows.numpy(), tokens.shape[1], seed=seed, epoch=epoch, stream=stream))
            for stream in (CHOOSE, REPLACE)
        )
        counted = ~spec.are_special(tokens)
        if batch.valid is not None:
            counted &= batch.valid
        truth = tokens if batch.original_tokens is None else batch.original_tokens
        return replace(
            batch,
            tokens=tokens.masked_fill(counted & (chance < self.mask_rate), spec.mask_id),
            original_tokens=None,
            targets=torch.where(counted, truth, IGNORED),
            draws=draws.float(),
            num_bytes=None,
        )

    def propose(self, model: Architecture, batch: Batch) -> Proposals:
        """Return the rows in which the generator has replaced the hidden tokens."""
        encoder, tokens, targets = _encoder(model), batch.tokens, targets_of(batch)
        assert tokens is not None and batch.draws is not None, "view makes them"
        assert isinstance(encoder.head, ReplacedTokenDetector)
        is_hidden = ((tokens == self.spec.mask_id) & (targets != IGNORED)).flatten()
        hidden = is_hidden.nonzero().squeeze(1)  # spelled out, so that a plan can replay it
        features = encoder.generator_features(**batch.inputs()).flatten(0, 1).index_select(0, hidden)
        logits, truth = wide(encoder.head.generator.head(features)), targets.flatten().index_select(0, hidden)
        with torch.no_grad():
            drawn = _draw(logits, batch.draws.flatten().index_select(0, hidden)).to(tokens.dtype)
            restored = logits.argmax(1) == truth
        replaced = tokens.flatten().index_copy(0, hidden, drawn).view_as(tokens)
        return Proposals(replaced, hidden, F.cross_entropy(logits, truth, reduction="none"), restored)

    def _detect(
        self, model: Architecture, batch: Batch, proposals: Proposals
    ) -> tuple[Float[Tensor, "B L"], Bool[Tensor, "B L"], Float[Tensor, "B L"]]:
        """Return the logits, which tokens were replaced, and the model's losses, 0 where nothing counts."""
        targets = targets_of(batch)
        features = model.features(**{**batch.inputs(), "tokens": proposals.tokens})
        logits = wide(model.head(features))
        counted = targets != IGNORED
        is_replaced = counted & (proposals.tokens != targets)
        losses = F.binary_cross_entropy_with_logits(logits, is_replaced.to(logits.dtype), reduction="none")
        return logits, is_replaced, losses * counted

    def loss(self, model: Architecture, batch: Batch) -> Loss:
        proposals = self.propose(model, batch)
        _, _, losses = self._detect(model, batch, proposals)
        total = proposals.losses.sum() / self.mask_rate + self.discriminator_weight * losses.sum()
        return Loss(total=total, count=(targets_of(batch) != IGNORED).sum())

    @torch.no_grad()
    def measure(self, stage: Literal["validation", "test"], model: Architecture, batch: Batch) -> None:
        proposals, targets = self.propose(model, batch), targets_of(batch)
        logits, is_replaced, losses = self._detect(model, batch, proposals)
        counted, flagged = targets != IGNORED, logits > 0
        of_generator, restored, hidden = (
            torch.zeros(targets.shape, dtype=values.dtype, device=targets.device)
            .flatten()
            .index_copy(0, proposals.hidden, values)
            .view_as(targets)
            for values in (
                proposals.losses,
                proposals.restored.long(),
                torch.ones_like(proposals.hidden),
            )
        )
        per_row = {
            "loss": (of_generator / self.mask_rate + self.discriminator_weight * losses).double().sum(1),
            "restored": restored.sum(1),
            "hidden": hidden.sum(1),
            "tokens": counted.sum(1),
            "correct": (counted & (flagged == is_replaced)).sum(1),
        }
        self.count_targets(stage, batch)
        flagged = flagged & counted
        self.sums.add(
            stage,
            **{name: values.sum() for name, values in per_row.items()},
            replaced=is_replaced.sum(),
            flagged=flagged.sum(),
            right=(flagged & is_replaced).sum(),
        )
        if stage == "test" and self.rows.enabled:
            self.rows.add(batch.rows, **per_row)

    def results(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        sums = self.sums.read(stage)
        self.read_targets(stage)
        loss = mean(sums["loss"], sums["tokens"], "token")
        self._replaced_share[stage] = sums["replaced"] / sums["tokens"]
        both = sums["flagged"] + sums["replaced"]
        return {
            "loss": loss,
            "detection_accuracy": sums["correct"] / sums["tokens"],
            "detection_f1": 2 * sums["right"] / both if both else 0.0,
            "masked_accuracy": mean(sums["restored"], sums["hidden"], "masked token"),
        }

    def chance(self) -> dict[str, float]:
        """Return the metrics of a generator to which all tokens are alike, and of a model that tosses a coin."""
        return self.baseline(self.spec)

    def baseline(self, spec: DataSpec) -> dict[str, float]:
        """Return the same for other data."""
        return {
            LOSS.name: math.log(spec.vocab_size) + self.discriminator_weight * math.log(2),
            DETECTION_ACCURACY.name: 0.5,
            MASKED_ACCURACY.name: 1 / spec.vocab_size,
        }

    def measured_baseline(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        """Return the loss of the train split's token frequencies and of the share of tokens that were replaced, and the
        accuracies of the most frequent token and of calling every token the text's own, which finds none."""
        guess = self.guess(stage)
        if guess is None:
            return {}
        share = self._replaced_share[stage]
        entropy = -sum(part * math.log(part) for part in (share, 1 - share) if part)
        return {
            LOSS.name: guess.loss + self.discriminator_weight * entropy,
            DETECTION_ACCURACY.name: max(share, 1 - share),
            DETECTION_F1.name: 0.0,
            MASKED_ACCURACY.name: guess.accuracy,
        }

    def samples(self, model: Architecture, batch: Batch, decode: Decode) -> list[dict[str, str]]:
        """Return each text as the generator made it, as it was, and the tokens that were replaced and those that the
        model takes for it."""
        with torch.no_grad():
            proposals = self.propose(model, batch)
            logits, is_replaced, _ = self._detect(model, batch, proposals)
        targets = targets_of(batch)
        counted = targets != IGNORED
        truth = torch.where(counted, targets, proposals.tokens)
        marks = {"replaced": is_replaced, "flagged": counted & (logits > 0)}
        return [
            {
                "read": row_text(proposals.tokens, batch, row, decode),
                "truth": row_text(truth, batch, row, decode),
                **{name: " ".join(map(str, of[row].nonzero().squeeze(1).tolist())) for name, of in marks.items()},
            }
            for row in range(batch.num_samples)
        ]


def _encoder(model: Architecture) -> EncoderOnly:
    if not isinstance(model, EncoderOnly) or not isinstance(model.head, ReplacedTokenDetector):
        raise UsageError(
            f"head={type(model.head).__name__} finds no replaced tokens: build the model with the head that the task "
            "names."
        )
    return model


def _draw(logits: Float[Tensor, "N V"], draws: Float[Tensor, " N"]) -> Int[Tensor, " N"]:
    """Return a token for each row from its distribution: the first at which the sum of probabilities exceeds the
    draw."""
    summed = logits.softmax(-1).cumsum(-1)
    return (summed <= draws[:, None].to(summed.dtype) * summed[:, -1:]).sum(-1).clamp(max=logits.shape[1] - 1)

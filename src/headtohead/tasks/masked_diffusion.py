"""Masked diffusion: any share of a text is hidden, and the loss bounds the text's likelihood (Sahoo et al. 2024,
https://arxiv.org/abs/2406.07524; Nie et al. 2025, https://arxiv.org/abs/2502.09992)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.architectures.architecture import Architecture
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.batches.row_order import uniform
from headtohead.errors import UsageError
from headtohead.generation.decoding_loop import denoise
from headtohead.ranges import Count
from headtohead.tasks.class_metrics import wide
from headtohead.tasks.masked_lm import CHOOSE, CORRUPT, MaskedLanguageModelling
from headtohead.tasks.metric_sums import MetricSums, PerStage, summed_by_row
from headtohead.tasks.task import Decode, Loss, row_text
from headtohead.tasks.token_prediction import at_target_positions, targets_of
from headtohead.tasks.vocabulary_loss import mean, perplexity, vocabulary_head


class MaskedDiffusion(MaskedLanguageModelling):
    """Restores k of a row's n tokens, where every k from 1 to n is as likely, and counts their loss n / k times: the
    mean over k is a bound of the negative log-likelihood of the row, in any order of its tokens."""

    families: ClassVar[tuple[str, ...]] = ("encoder_only",)
    row_ratios: ClassVar[Mapping[str, tuple[str, str]]] = {
        "loss": ("loss", "tokens"),
        "masked_accuracy": ("correct", "hidden"),
    }

    def __init__(self, sampling_steps: Count = 16, monitor: str = "loss") -> None:
        super().__init__(mask_rate=1.0, label_smoothing=0.0, monitor=monitor)
        self.sampling_steps = sampling_steps
        self.sums = PerStage(lambda: MetricSums("loss", "correct", "hidden", "tokens"))

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        if batch.tokens is None:
            raise UsageError(
                "task=masked_diffusion reads tokens, and this data has none: choose data of kind language."
            )
        if self.spec.mask_id < 0:
            raise UsageError(
                "task=masked_diffusion hides tokens behind a mask token, and the tokenizer of init_from has none: "
                "choose a checkpoint that was trained with one, such as BERT's, or task=causal_lm"
            )
        rows, length = batch.rows.numpy(), batch.tokens.shape[1]
        may_hide = self._may_hide(batch, batch.tokens)
        share = torch.from_numpy(uniform(rows, 1, seed=seed, epoch=epoch, stream=CHOOSE))
        number = 1 + (share * may_hide.sum(1, keepdim=True)).long()
        order = torch.from_numpy(uniform(rows, length, seed=seed, epoch=epoch, stream=CORRUPT))
        rank = order.masked_fill(~may_hide, 2.0).argsort(1).argsort(1)
        chosen = may_hide & (rank < number)
        truth = batch.tokens if batch.original_tokens is None else batch.original_tokens
        hidden = batch.tokens.masked_fill(chosen, self.spec.mask_id)
        targets = torch.where(chosen, truth, IGNORED)
        return replace(batch, tokens=hidden, original_tokens=None, targets=targets, num_bytes=None)

    def _may_hide(self, batch: Batch, tokens: Int[Tensor, "B L"]) -> Bool[Tensor, "B L"]:
        """Return a mask of the real tokens that are not special."""
        ordinary = ~self.spec.are_special(tokens)
        return ordinary if batch.valid is None else ordinary & batch.valid

    def num_scored(self, length: int) -> int:
        """Return the expected number of hidden tokens in a row of this length."""
        return max(1, (length + 1) // 2)

    def _weights(self, batch: Batch, dtype: torch.dtype) -> tuple[Float[Tensor, " B"], Int[Tensor, " B"]]:
        """Return n / k of each row, and n."""
        tokens, hidden = self._num_open(batch), targets_of(batch) != IGNORED
        return tokens.to(dtype) / hidden.sum(1).clamp(min=1), tokens

    def _num_open(self, batch: Batch) -> Int[Tensor, " B"]:
        """Return the number of tokens of each row that could have been hidden, the hidden ones among them."""
        assert batch.tokens is not None, "view checks the tokens"
        return (self._may_hide(batch, batch.tokens) | (targets_of(batch) != IGNORED)).sum(1)

    def counted(self, batch: Batch) -> int:
        """Return the number of tokens that could have been hidden: a batch's share of hidden ones must not weigh it."""
        return int(self._num_open(batch).sum())

    def loss(self, model: Architecture, batch: Batch) -> Loss:
        """Return a total whose mean over all tokens that could have been hidden is the bound for a token."""
        targets = targets_of(batch)
        hidden = (targets != IGNORED).flatten()
        index = hidden.nonzero().squeeze(1)  # spelled out, so that a plan can replay it
        features = model.features(**batch.inputs()).flatten(0, 1).index_select(0, index)
        logits = vocabulary_head(model)(features)
        losses = F.cross_entropy(wide(logits), targets.flatten().index_select(0, index), reduction="none")
        weights, tokens = self._weights(batch, losses.dtype)
        of_targets = weights[:, None].expand_as(targets).flatten().index_select(0, index)
        return Loss(total=(losses * of_targets).sum(), count=tokens.sum())

    @torch.no_grad()
    def measure(self, stage: Literal["validation", "test"], model: Architecture, batch: Batch) -> None:
        scores = self.token_scores(model, model.features(**batch.inputs()), batch)
        targets, (weights, tokens) = targets_of(batch), self._weights(batch, scores.losses.dtype)
        self.count_targets(stage, batch)
        loss = summed_by_row(scores.losses, targets) * weights
        self.sums.add(stage, loss=loss.sum(), correct=scores.correct, hidden=scores.count, tokens=tokens.sum())
        if stage == "test" and self.rows.enabled:
            hidden = targets != IGNORED
            right = hidden & (at_target_positions(scores.predicted, targets) == targets)
            self.rows.add(batch.rows, loss=loss, correct=right.sum(1), hidden=hidden.sum(1), tokens=tokens)

    def results(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        sums = self.sums.read(stage)
        self.read_targets(stage)
        loss = mean(sums["loss"], sums["tokens"], "token")
        return {
            "loss": loss,
            "perplexity": perplexity(loss),
            "masked_accuracy": sums["correct"] / sums["hidden"],
        }

    def samples(self, model: Architecture, batch: Batch, decode: Decode) -> list[dict[str, str]]:
        """Return each text with its masks, as it was, and as the model writes it with all ordinary tokens hidden."""
        assert batch.tokens is not None, "view checks the tokens"
        targets = targets_of(batch)
        chosen = targets != IGNORED
        written = denoise(
            model,
            batch.tokens,
            chosen | self._may_hide(batch, batch.tokens),
            mask_id=self.spec.mask_id,
            steps=self.sampling_steps,
            valid=batch.valid,
            temperature=1.0,
            generator=torch.Generator(batch.tokens.device).manual_seed(0),
        )
        texts = {"read": batch.tokens, "truth": torch.where(chosen, targets, batch.tokens), "written": written}
        return [
            {name: row_text(tokens, batch, row, decode) for name, tokens in texts.items()}
            for row in range(batch.num_samples)
        ]

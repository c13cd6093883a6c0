"""These tasks write a target with a single stack: behind its source in one row, or all of it at once."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headtohead.architectures.architecture import Architecture, DecodingModel
from headtohead.architectures.head_names import HeadName
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.errors import UsageError
from headtohead.tasks.seq2seq import SequenceToSequence
from headtohead.tasks.token_prediction import targets_of


def source_and_target(
    first: Int[Tensor, "B S"],
    second: Int[Tensor, "B T"],
    valid: Bool[Tensor, "B S"] | None = None,
    second_valid: Bool[Tensor, "B T"] | None = None,
) -> tuple[Int[Tensor, "B L"], Bool[Tensor, "B L"], Int[Tensor, "B T"]]:
    """Return tokens, a mask of the real ones (padding is on the right), and the position of each token of the second
    part in its row."""
    lengths = torch.full((len(first), 1), first.shape[1]) if valid is None else valid.sum(1, keepdim=True)
    ends = torch.full((len(first), 1), second.shape[1]) if second_valid is None else second_valid.sum(1, keepdim=True)
    ends = ends + lengths
    indices = torch.arange(first.shape[1] + second.shape[1])
    taken = torch.where(indices < lengths, indices, indices - lengths + first.shape[1])
    tokens = torch.cat([first, second], 1).gather(1, taken.clamp(max=len(indices) - 1))
    real = indices < ends
    longest = int(ends.max())
    tokens = tokens.masked_fill(~real, 0)[:, :longest]
    return tokens, real[:, :longest], lengths + torch.arange(second.shape[1])


def source_then_target(targets: Int[Tensor, "B T"], indices: Int[Tensor, "B P"], length: int) -> Int[Tensor, "B L"]:
    """Return rows of this length with each target at its position, IGNORED elsewhere; positions may outnumber
    targets."""
    counted = targets != IGNORED
    row, column = counted.nonzero(as_tuple=True)
    layout = torch.full((len(targets), length), IGNORED, dtype=targets.dtype)
    layout[row, indices[row, column]] = targets[row, column]
    return layout


def continue_from_source(layout: Int[Tensor, "B L"]) -> Int[Tensor, "B T"]:
    """Undo the layout: return each row from its first target on, as long as the longest."""
    counted = layout != IGNORED
    longest = int(counted.sum(1).max())
    indices = counted.int().argmax(1, keepdim=True) + torch.arange(longest, device=layout.device)
    taken = layout.gather(1, indices.clamp(max=layout.shape[1] - 1))
    return taken.masked_fill(indices >= layout.shape[1], IGNORED)


def in_one_row(batch: Batch) -> Batch:
    """Return a batch of sources and targets with each target behind its source."""
    assert batch.tokens is not None and batch.decoder_tokens is not None, "the view of two stacks gives both"
    tokens, valid, indices = source_and_target(batch.tokens, batch.decoder_tokens, batch.valid, batch.decoder_valid)
    targets = source_then_target(targets_of(batch), indices, tokens.shape[1])
    return replace(batch, tokens=tokens, valid=valid, targets=targets, decoder_tokens=None, decoder_valid=None)


class SequenceToSequenceInOneRow(SequenceToSequence):
    """Source, start token, target: only the target is learned, and measured as task=seq2seq measures it."""

    families: ClassVar[tuple[str, ...]] = ("decoder_only",)

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        return in_one_row(super().view(batch, seed=seed, epoch=epoch))

    def num_scored(self, length: int) -> int:
        return min(length, self.spec.max_target_length)

    def truth(self, batch: Batch) -> Int[Tensor, "B T"]:
        return continue_from_source(targets_of(batch))

    def sources(self, batch: Batch) -> Batch:
        """Mark everything before the start token, which predicts the first target, as the source."""
        starts = (targets_of(batch) != IGNORED).int().argmax(1, keepdim=True)
        return replace(batch, valid=torch.arange(targets_of(batch).shape[1], device=starts.device) < starts)

    def written(self, model: Architecture, batch: Batch) -> Int[Tensor, "B T"]:
        assert batch.tokens is not None, "view checks the tokens"
        if not isinstance(model, DecodingModel) or model.reads_source:
            raise UsageError(
                f"task=seq2seq_one_row continues a row as decoder_only does, and {type(model).__name__} does not."
            )
        prompts = (targets_of(batch) != IGNORED).int().argmax(1, keepdim=True) + 1
        indices = torch.arange(int(prompts.max()), device=prompts.device) - (prompts.max() - prompts)
        tokens = batch.tokens.gather(1, indices.clamp(min=0))
        return self.decoded(model, tokens, indices >= 0, longest=self.truth(batch).shape[1])


# Write a whole target at once: an encoder reads the source and as many masks as a target may be long (Gu et al. 2018,
# https://arxiv.org/abs/1711.02281, without a length of its own: an end token marks the end of the target).


class SequenceToSequenceAtOnce(SequenceToSequenceInOneRow):
    """No target token sees another, so that the most likely text is that of the most likely tokens, whatever the beams.
    Every row has as many masks, so that none reveals the target's length; tokens after the end token do not count."""

    head: ClassVar[HeadName] = "masked_language_model"
    families: ClassVar[tuple[str, ...]] = ("encoder_only",)
    few_are_scored = True

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        batch = SequenceToSequence.view(self, batch, seed=seed, epoch=epoch)
        assert batch.tokens is not None, "seen to by seq2seq"
        masks = torch.full((len(batch.tokens), self.spec.max_target_length), self.spec.mask_id)
        tokens, valid, indices = source_and_target(batch.tokens, masks, batch.valid)
        targets = source_then_target(targets_of(batch), indices, tokens.shape[1])
        types = torch.arange(tokens.shape[1]) >= indices[:, :1]
        return replace(
            batch,
            tokens=tokens,
            valid=valid,
            targets=targets,
            token_types=types.long(),
            decoder_tokens=None,
            decoder_valid=None,
        )

    def sources(self, batch: Batch) -> Batch:
        assert batch.valid is not None and batch.token_types is not None, "view gives both"
        return replace(batch, valid=batch.valid & (batch.token_types == 0), token_types=None)

    @torch.no_grad()
    def written(self, model: Architecture, batch: Batch) -> Int[Tensor, "B T"]:
        """Predict each position independently, also those after the target's end, so that the model determines its
        length."""
        assert batch.token_types is not None and batch.valid is not None, "view gives both"
        indices = (batch.token_types == 1) & batch.valid
        everywhere = replace(batch, targets=torch.where(indices, self.spec.eos_id, IGNORED))
        return continue_from_source(self.predicted(model, everywhere))[:, : self.searching.length(indices.shape[1])]

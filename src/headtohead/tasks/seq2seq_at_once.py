"""Write a whole target at once: an encoder reads the source and as many masks as a target may be long (Gu et al. 2018,
https://arxiv.org/abs/1711.02281, without a length of its own: an end token says where the target ends)."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from headtohead.architectures.contracts import Architecture
from headtohead.architectures.heads import HeadName
from headtohead.data.batch import IGNORED, Batch
from headtohead.tasks.one_row import joined, laid_out, taken_up
from headtohead.tasks.seq2seq import SequenceToSequence
from headtohead.tasks.seq2seq_one_row import SequenceToSequenceInOneRow
from headtohead.tasks.token_prediction import targets_of


class SequenceToSequenceAtOnce(SequenceToSequenceInOneRow):
    """No target token sees another, so that the likeliest text is that of the likeliest tokens, whatever the beams.
    There are as many masks in every row, so that none tells the target's length; what comes after the end token does
    not count."""

    head: ClassVar[HeadName] = "masked_language_model"
    families: ClassVar[tuple[str, ...]] = ("encoder_only",)
    few_are_scored = True

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        batch = SequenceToSequence.view(self, batch, seed=seed, epoch=epoch)
        assert batch.tokens is not None, "seen to by seq2seq"
        masks = torch.full((len(batch.tokens), self.spec.max_target_length), self.spec.mask_id)
        tokens, valid, places = joined(batch.tokens, masks, batch.valid)
        targets = laid_out(targets_of(batch), places, tokens.shape[1])
        types = torch.arange(tokens.shape[1]) >= places[:, :1]
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
        """Each place by itself, those after the target's end too, so that its length is the model's to tell."""
        assert batch.token_types is not None and batch.valid is not None, "view gives both"
        places = (batch.token_types == 1) & batch.valid
        everywhere = replace(batch, targets=torch.where(places, self.spec.eos_id, IGNORED))
        return taken_up(self.predicted(model, everywhere))[:, : self.searching.length(places.shape[1])]

"""Write a target for a source that stands before it in the same row, as language models do (Radford et al. 2019,
https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf, section 3.7)."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from headtohead.architectures.contracts import Architecture
from headtohead.architectures.decoding import Decodes
from headtohead.data.batch import IGNORED, Batch
from headtohead.errors import UsageError
from headtohead.tasks.one_row import joined, laid_out, taken_up
from headtohead.tasks.seq2seq import SequenceToSequence
from headtohead.tasks.token_prediction import targets_of


class SequenceToSequenceInOneRow(SequenceToSequence):
    """Source, start token, target: only the target is learned, and measured as task=seq2seq measures it."""

    families: ClassVar[tuple[str, ...]] = ("decoder_only", "recurrent")

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        batch = super().view(batch, seed=seed, epoch=epoch)
        assert batch.tokens is not None and batch.decoder_tokens is not None, "seen to by seq2seq"
        tokens, valid, places = joined(batch.tokens, batch.decoder_tokens, batch.valid, batch.decoder_valid)
        targets = laid_out(targets_of(batch), places, tokens.shape[1])
        return replace(batch, tokens=tokens, valid=valid, targets=targets, decoder_tokens=None, decoder_valid=None)

    def num_scored(self, length: int) -> int:
        return min(length, self.spec.max_target_length)

    def truth(self, batch: Batch) -> Int[Tensor, "B T"]:
        return taken_up(targets_of(batch))

    def sources(self, batch: Batch) -> Batch:
        """All before the start token, where the first target is due."""
        starts = (targets_of(batch) != IGNORED).int().argmax(1, keepdim=True)
        return replace(batch, valid=torch.arange(targets_of(batch).shape[1], device=starts.device) < starts)

    def written(self, model: Architecture, batch: Batch) -> Int[Tensor, "B T"]:
        assert batch.tokens is not None, "view checks the tokens"
        if not isinstance(model, Decodes) or model.reads_source:
            raise UsageError(
                f"task=seq2seq_one_row goes on with a row as decoder_only does, and {type(model).__name__} does not."
            )
        prompts = (targets_of(batch) != IGNORED).int().argmax(1, keepdim=True) + 1
        places = torch.arange(int(prompts.max()), device=prompts.device) - (prompts.max() - prompts)
        tokens = batch.tokens.gather(1, places.clamp(min=0))
        return self.decoded(model, tokens, places >= 0, longest=self.truth(batch).shape[1])

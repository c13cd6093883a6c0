"""The loss of a language model by how many tokens were in sight."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from headtohead.architectures.contracts import Architecture
from headtohead.architectures.vocabulary_heads import VocabularyHead
from headtohead.data.batch import IGNORED, Batch
from headtohead.examining.evaluation.findings import Places
from headtohead.tasks.vocabulary import vocabulary_head

_LOGITS_AT_ONCE = 2**24


class PlaceSums:
    """Sums over batches; what stands at place 0 saw one token, the one that it follows."""

    def __init__(self) -> None:
        self._loss = torch.zeros(0, dtype=torch.float64)
        self._tokens = torch.zeros(0, dtype=torch.int64)

    def add(self, losses: Tensor, places: Tensor) -> None:
        room = max(len(self._loss), int(places.max()) + 1 if len(places) else 0)
        grown = room - len(self._loss)
        self._loss = F.pad(self._loss, (0, grown)).index_add(0, places.cpu(), losses.double().cpu())
        self._tokens = F.pad(self._tokens, (0, grown)) + torch.bincount(places.cpu(), minlength=room)

    def read(self) -> Places:
        mean = self._loss / self._tokens
        return Places(loss=mean.tolist(), tokens=self._tokens.tolist())


@torch.no_grad()
def token_losses(model: Architecture, batch: Batch) -> Tensor:
    """In nats, one for each target that counts, row by row."""
    assert batch.targets is not None, "view makes the targets"
    counted = batch.targets != IGNORED
    head = vocabulary_head(model)
    rows, targets = model.features(**batch.inputs())[counted], batch.targets[counted]
    vocab_size = head.weight.shape[0] if isinstance(head, VocabularyHead) else rows.shape[-1]
    size = max(1, _LOGITS_AT_ONCE // vocab_size)
    pieces = zip(rows.split(size), targets.split(size), strict=True)
    return torch.cat([F.cross_entropy(head(some), own, reduction="none") for some, own in pieces])


def places_of(batch: Batch) -> Tensor:
    """The place of every target that counts in what the model reads of its document."""
    assert batch.targets is not None and batch.tokens is not None, "view makes them"
    places = batch.positions
    if places is None:
        places = torch.arange(batch.tokens.shape[1], device=batch.tokens.device).expand_as(batch.targets)
    return places[batch.targets != IGNORED]

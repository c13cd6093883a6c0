"""What a decoder goes on to write after the first half of a text, the likeliest token each time."""

from __future__ import annotations

from collections import defaultdict

import torch
from jaxtyping import Int
from torch import Tensor

from headtohead.architectures.contracts import Architecture
from headtohead.architectures.decoding import Decodes
from headtohead.data.batch import Batch
from headtohead.errors import UsageError
from headtohead.generation.loop import greedy
from headtohead.tasks.contracts import Decode

LONGEST = 64
"""Tokens written per row: enough to read, and little work."""


def continuations(model: Architecture, batch: Batch, decode: Decode, *, eos_id: int) -> list[dict[str, str]]:
    """Prompt, what followed, and what the model writes instead: of the longest document of each row."""
    documents = _documents(batch)
    halves = [(len(document) + 1) // 2 for document in documents]
    rows_of_length: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row, (document, half) in enumerate(zip(documents, halves, strict=True)):
        rows_of_length[half, len(document)].append(row)
    written: dict[int, list[int]] = {}
    for (half, length), rows in rows_of_length.items():
        prompts = torch.stack([documents[row][:half] for row in rows])
        texts = write(model, prompts, max_length=min(length - half, LONGEST), eos_id=eos_id)
        written.update(zip(rows, texts, strict=True))
    return [
        {
            "prompt": decode(document[:half].tolist()),
            "truth": decode(document[half : half + LONGEST].tolist()),
            "written": decode(written[row]),
        }
        for row, (document, half) in enumerate(zip(documents, halves, strict=True))
    ]


@torch.no_grad()
def write(model: Architecture, prompts: Int[Tensor, "B L"], *, max_length: int, eos_id: int) -> list[list[int]]:
    """Greedily, up to the end of the text."""
    if not isinstance(model, Decodes) or model.reads_source:
        raise UsageError(f"a text is continued by a model such as decoder_only, not by {type(model).__name__}.")
    if max_length < 1:
        return [[] for _ in prompts]
    return [until(ids, eos_id) for ids in greedy(model, prompts, max_length=max_length, eos_id=eos_id).tolist()]


def until(ids: list[int], eos_id: int) -> list[int]:
    """Without what a row repeats after its end."""
    return ids[: ids.index(eos_id) + 1] if eos_id in ids else ids


def _documents(batch: Batch) -> list[Tensor]:
    """The longest document of each row, without padding."""
    assert batch.tokens is not None, "view checks the tokens"
    documents = []
    for row, tokens in enumerate(batch.tokens):
        kept = torch.ones_like(tokens, dtype=torch.bool) if batch.valid is None else batch.valid[row]
        if batch.segments is not None:
            segments = batch.segments[row]
            kept = kept & (segments == segments[kept].bincount().argmax())
        documents.append(tokens[kept])
    return documents

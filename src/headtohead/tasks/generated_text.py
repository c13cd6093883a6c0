"""A decoder continues the first half of a text by greedy decoding."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headtohead.architectures.architecture import Architecture, DecodingModel
from headtohead.data.batches.batch import Batch
from headtohead.data.data_source import DataSpec
from headtohead.errors import UsageError
from headtohead.generation.beam_search import search
from headtohead.generation.decoding_loop import greedy
from headtohead.generation.decoding_strategy import DecodingStrategy
from headtohead.tasks.task import Decode

LONGEST = 64
"""Tokens written per row: enough to read, and little work."""


def continuations(model: Architecture, batch: Batch, decode: Decode, *, eos_id: int) -> list[dict[str, str]]:
    """Return, for the longest document of each row, the prompt, its true continuation and the model's."""
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
    """Write greedily, up to the end of the text."""
    if not isinstance(model, DecodingModel) or model.reads_source:
        raise UsageError(f"a text is continued by a model such as decoder_only, not by {type(model).__name__}.")
    if max_length < 1:
        return [[] for _ in prompts]
    return [until(ids, eos_id) for ids in greedy(model, prompts, max_length=max_length, eos_id=eos_id).tolist()]


def until(ids: list[int], eos_id: int) -> list[int]:
    """Return the tokens up to the first end token."""
    return ids[: ids.index(eos_id) + 1] if eos_id in ids else ids


def _documents(batch: Batch) -> list[Tensor]:
    """Return the longest document of each row, without padding."""
    assert batch.tokens is not None, "view checks the tokens"
    documents = []
    for row, tokens in enumerate(batch.tokens):
        is_real = torch.ones_like(tokens, dtype=torch.bool) if batch.valid is None else batch.valid[row]
        if batch.segments is not None:
            segments = batch.segments[row]
            is_real = is_real & (segments == segments[is_real].bincount().argmax())
        documents.append(tokens[is_real])
    return documents


@dataclass(frozen=True)
class BeamSearchOptions:
    """The options by which a test decodes; one beam is greedy decoding."""

    beams: int = 1
    length_penalty: float = 1.0
    max_new_tokens: int | None = None
    """The most new tokens; None: as many as the longest target has."""

    def __post_init__(self) -> None:
        for field, least in (("beams", 1), ("max_new_tokens", 1)):
            value = getattr(self, field)
            if value is not None and value < least:
                raise UsageError(f"task.{field}={value} must be at least {least}.")

    def length(self, longest: int) -> int:
        return longest if self.max_new_tokens is None else min(longest, self.max_new_tokens)

    def description(self) -> str:
        """Return what makes the metrics differ from those of greedy decoding; empty where nothing does."""
        words = [f"{self.beams} beams, length penalty {self.length_penalty}"] if self.beams > 1 else []
        words += [] if self.max_new_tokens is None else [f"at most {self.max_new_tokens} tokens"]
        return ", ".join(words)


def beam_search_rows(
    model: DecodingModel,
    tokens: Int[Tensor, "B L"],
    valid: Bool[Tensor, "B L"] | None,
    beam_options: BeamSearchOptions,
    *,
    length: int,
    spec: DataSpec,
) -> Int[Tensor, "B T"]:
    """Return the best text of each row; a shorter one repeats its end token."""
    is_real = torch.ones_like(tokens, dtype=torch.bool) if valid is None else valid
    prompts = [row[real].tolist() for row, real in zip(tokens, is_real, strict=True)]
    strategy = DecodingStrategy(
        max_new_tokens=length, beams=beam_options.beams, length_penalty=beam_options.length_penalty
    )
    with model.writing():
        hypotheses = search(model, prompts, strategy, bos_id=spec.bos_id, ends=[spec.eos_id])
    written = torch.full((len(prompts), length), spec.eos_id)
    for row, texts in enumerate(hypotheses):
        written[row, : len(texts[0].tokens)] = torch.tensor(texts[0].tokens)
    return written.to(tokens.device)

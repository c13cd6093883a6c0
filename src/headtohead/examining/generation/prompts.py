"""Prompts as token ids, spelt as the data of a run spells its rows."""

from __future__ import annotations

from collections.abc import Sequence

from headtohead.building.errors import nearest
from headtohead.data.contracts import DataError, DataSource, DataSpec
from headtohead.data.generated.problems import FIRST_ID
from headtohead.data.generated.procedural import ProceduralSource
from headtohead.data.texts import TextSource

Prompt = str | Sequence[int]
"""A text, or the token ids themselves."""


def encoded(prompt: Prompt, data: DataSource, spec: DataSpec, *, is_source: bool) -> list[int]:
    """What the model reads: text to be continued begins as rows of text do; a source has no frame, and in one row with
    its target the start token after it."""
    if not isinstance(prompt, str):
        return _checked([int(token) for token in prompt], spec)
    if isinstance(data, ProceduralSource):
        return [_id_of(word, data) for word in prompt.split()]
    if not isinstance(data, TextSource):
        raise DataError("the data of this run spells no text: give the prompt as token ids, --tokens 5,7,9")
    tokens: list[int] = data.tokenizer.encode([prompt])[0].tolist()
    if spec.kind == "pairs_of_text":
        return tokens if is_source else [*tokens, spec.bos_id]
    return tokens if is_source else [spec.bos_id, *tokens]


def _checked(tokens: list[int], spec: DataSpec) -> list[int]:
    for token in tokens:
        if not 0 <= token < spec.vocab_size:
            raise DataError(f"token {token} is none of the run's: its ids are 0 to {spec.vocab_size - 1}")
    return tokens


def _id_of(word: str, data: ProceduralSource) -> int:
    if word not in data.symbols:
        guess = nearest(word, data.symbols)
        hint = f"did you mean {guess}? " if guess else ""
        shown = " ".join(data.symbols[:20]) + (" ..." if len(data.symbols) > 20 else "")
        raise DataError(f"{word!r} is no symbol of data={data.name}: {hint}they are {shown}, with spaces between")
    return FIRST_ID + data.symbols.index(word)

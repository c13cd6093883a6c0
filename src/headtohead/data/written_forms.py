"""Entities as a text that can be read back: "PER: Anna Smith ; LOC: Oslo"."""

from __future__ import annotations

from collections.abc import Sequence

NOTHING = "none"
"""Written where there are no entities."""
_BETWEEN, _NAMED = " ; ", ": "


def entities_in_words(words: Sequence[str], tags: Sequence[str]) -> str:
    """Those that the tags mark (BIO), in their order; an I- that continues no entity of its type begins one, as
    conlleval reads them."""
    found: list[tuple[str, list[str]]] = []
    before = ""
    for word, tag in zip(words, tags, strict=True):
        begins, _, kind = tag.partition("-")
        if begins == "I" and kind == before:
            found[-1][1].append(word)
        elif begins in ("B", "I"):
            found.append((kind, [word]))
        before = kind
    return _BETWEEN.join(f"{kind}{_NAMED}{' '.join(entity)}" for kind, entity in found) or NOTHING


def entities_of(text: str) -> list[tuple[str, str]]:
    """Type and words of each; what has no type is none."""
    parts = (part.partition(_NAMED.strip()) for part in text.split(_BETWEEN.strip()))
    found = [(kind.strip(), " ".join(entity.split())) for kind, _, entity in parts]
    return [(kind, entity) for kind, entity in found if kind and entity]

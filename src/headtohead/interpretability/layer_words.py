"""The name of a layer and of a head as people say them: `stack.0.mixer` is layer 1, and its first head is head 1."""

from __future__ import annotations

_PLAIN = ("stack", "mixer")
_SUFFIXES = {"cross": "cross-attention", "receptive_field": "receptive field", "without_mask": "without its mask"}


def layer_words(name: str) -> str:
    """Return the words for a mixer's path: decoder.1.cross is "decoder layer 2, cross-attention"."""
    side, _, rest = name.partition(".")
    number, _, suffix = rest.partition(".")
    if not number.isdecimal():
        return name.replace(".", " ").replace("_", " ")
    layer = f"{'' if side in _PLAIN else f'{side} '}layer {int(number) + 1}"
    parts = [_SUFFIXES.get(part, part.replace("_", " ")) for part in suffix.split(".") if part and part not in _PLAIN]
    return ", ".join([layer, *parts])


def head_words(index: int) -> str:
    """Return the words for a head by its index."""
    return f"head {index + 1}"

"""Somebody else's tokenizer, from its tokenizer.json: the same text becomes the same numbers as in its training."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from headtohead.data.data_source import DataError
from headtohead.data.tokenizers.special_tokens import SpecialIds
from headtohead.data.tokenizers.tokenizer import Tokenizer, library_of

NUM_BYTES = 256


def letter_bytes() -> dict[str, int]:
    """Return the byte that each letter of a byte-level BPE stands for: printable ones themselves, others shifted past
    255."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [value for value in range(NUM_BYTES) if value not in set(printable)]
    letters = {chr(value): value for value in printable}
    return letters | {chr(NUM_BYTES + index): value for index, value in enumerate(others)}


FILE = "tokenizer.json"
FILES_OF_NAMES = ("tokenizer_config.json", "special_tokens_map.json")
"""The files that name its tokens for beginning, end, padding and mask; both may be missing."""
_USUAL = {
    "pad_token": ("<pad>", "[PAD]", "<|pad|>"),
    "bos_token": ("<bos>", "<s>", "<|begin_of_text|>", "<|endoftext|>"),
    "cls_token": ("[CLS]",),
    "eos_token": ("<eos>", "</s>", "<|end_of_text|>", "<|endoftext|>"),
    "sep_token": ("[SEP]",),
    "mask_token": ("<mask>", "[MASK]", "<|mask|>"),
    "unk_token": ("<unk>", "[UNK]"),
}
"""The usual names of these tokens, where no file has them."""


def published_tokenizer(
    description: str,
    *,
    named: Mapping[str, object] | None = None,
    config: Mapping[str, object] | None = None,
    origin: str,
) -> Tokenizer:
    """Build a tokenizer from the text of tokenizer.json; `named` is the content of FILES_OF_NAMES, `config` a model's
    config.json. Raise DataError, with `origin` as the user gave it."""
    try:
        parsed = json.loads(description)
        library = library_of(description)
    except Exception as error:  # the library raises no narrower kind
        raise DataError(f"{origin}: its {FILE} cannot be read ({error})") from None
    ids: dict[str, int] = library.get_vocab(with_added_tokens=True)
    nothing = sorted(number for number, token in library.get_added_tokens_decoder().items() if token.special)
    pieces = _pieces(ids, frozenset(nothing), letters=_uses_byte_letters(parsed))
    special = _special(_names(named or {}, ids), config or {}, ids, nothing, origin)
    return Tokenizer("published", pieces, description, special)


def _names(named: Mapping[str, object], ids: Mapping[str, int]) -> dict[str, str]:
    """Return the token of each purpose: as the files say, else the usual ones that exist."""
    tokens = {purpose: token.get("content") if isinstance(token, dict) else token for purpose, token in named.items()}
    result = {purpose: token for purpose, token in tokens.items() if isinstance(token, str) and token in ids}
    if result.keys() & {"sep_token", "eos_token", "cls_token", "bos_token"}:
        return result
    usual = {purpose: [name for name in names if name in ids] for purpose, names in _USUAL.items()}
    return {purpose: names[0] for purpose, names in usual.items() if names} | result


def _special(
    names: Mapping[str, str], config: Mapping[str, object], ids: Mapping[str, int], nothing: Iterable[int], origin: str
) -> SpecialIds:
    """Return the special tokens by their names, else by the numbers in config.json."""

    def number(*purposes: str) -> int:
        return next((ids[names[purpose]] for purpose in purposes if purpose in names), -1)

    def first(*numbers: Any) -> int:
        flat = [one for entry in numbers for one in (entry if isinstance(entry, list) else [entry])]
        return next((one for one in flat if isinstance(one, int) and one >= 0), -1)

    eos = first(number("sep_token", "eos_token"), config.get("eos_token_id"))
    start = config.get("decoder_start_token_id") if config.get("is_encoder_decoder") else None
    bos = first(start, number("cls_token", "bos_token"), config.get("bos_token_id"), eos)
    eos = first(eos, bos)
    if eos < 0:
        raise DataError(
            f"{origin}: its tokenizer names no token that starts or ends a text: add eos_token to "
            "its tokenizer_config.json"
        )
    return SpecialIds(
        pad=first(number("pad_token"), config.get("pad_token_id"), eos),
        bos=bos,
        eos=eos,
        mask=number("mask_token"),
        unk=number("unk_token"),
        others=tuple(sorted({*nothing, bos, eos})),
    )


def _uses_byte_letters(description: Mapping[str, object]) -> bool:
    """Return whether each letter of its pieces stands for one byte (GPT-2)."""
    return '"ByteLevel"' in json.dumps(description.get("decoder"))


def _pieces(ids: Mapping[str, int], nothing: frozenset[int], *, letters: bool) -> tuple[bytes, ...]:
    """Return the bytes that each token stands for: exactly for pieces of bytes, else as near as its spelling allows."""
    pieces = [b""] * (max(ids.values(), default=-1) + 1)
    byte_of = letter_bytes()
    for token, number in ids.items():
        if number in nothing:
            continue
        if letters and all(letter in byte_of for letter in token):
            pieces[number] = bytes(byte_of[letter] for letter in token)
        elif len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
            pieces[number] = bytes([int(token[3:5], 16)])
        else:
            pieces[number] = token.removeprefix("##").replace("▁", " ").encode()
    return tuple(pieces)

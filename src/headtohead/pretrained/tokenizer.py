"""A checkpoint's own tokenizer, from its tokenizer.json: the same text becomes the same numbers as in its training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headtohead.data.tokenizers import SpecialIds, Tokenizer, letter_bytes, library_of
from headtohead.pretrained.checkpoint import Checkpoint, CheckpointError

_FILE = "tokenizer.json"


def tokenizer_of(checkpoint: Checkpoint) -> Tokenizer | None:
    """None where it has none that is told in one file."""
    path = checkpoint.folder / _FILE
    if not path.is_file():
        return None
    description = path.read_text(encoding="utf-8")
    try:
        library = library_of(description)
    except Exception as error:  # the library raises no narrower kind
        raise CheckpointError(f"init_from={checkpoint.origin}: its {_FILE} cannot be read ({error})") from None
    ids: dict[str, int] = library.get_vocab(with_added_tokens=True)
    nothing = sorted(number for number, token in library.get_added_tokens_decoder().items() if token.special)
    pieces = _pieces(ids, frozenset(nothing), letters=_speaks_letters(checkpoint.json(_FILE) or {}))
    return Tokenizer("published", pieces, description, _special(checkpoint, ids, nothing))


def _special(checkpoint: Checkpoint, ids: Mapping[str, int], nothing: Iterable[int]) -> SpecialIds:
    """By their names in the tokenizer's files, else by the numbers in config.json."""
    config = checkpoint.config
    named = {**(checkpoint.json("tokenizer_config.json") or {}), **(checkpoint.json("special_tokens_map.json") or {})}

    def number(*names: str) -> int:
        for name in names:
            told = named.get(name)
            token = told.get("content") if isinstance(told, dict) else told
            if isinstance(token, str) and token in ids:
                return ids[token]
        return -1

    def first(*numbers: Any) -> int:
        flat = [one for given in numbers for one in (given if isinstance(given, list) else [given])]
        return next((one for one in flat if isinstance(one, int) and one >= 0), -1)

    eos = first(number("sep_token", "eos_token"), config.get("eos_token_id"))
    start = config.get("decoder_start_token_id") if config.get("is_encoder_decoder") else None
    bos = first(start, number("cls_token", "bos_token"), config.get("bos_token_id"), eos)
    eos = first(eos, bos)
    if eos < 0:
        raise CheckpointError(
            f"init_from={checkpoint.origin}: its tokenizer names no token that starts or ends a text: add eos_token to "
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


def _speaks_letters(description: Mapping[str, Any]) -> bool:
    """Whether each letter of its pieces stands for one byte (GPT-2)."""
    return '"ByteLevel"' in str(description.get("decoder")).replace("'", '"')


def _pieces(ids: Mapping[str, int], nothing: frozenset[int], *, letters: bool) -> tuple[bytes, ...]:
    """The bytes that each token stands for: exactly for pieces of bytes, else as near as its spelling tells."""
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

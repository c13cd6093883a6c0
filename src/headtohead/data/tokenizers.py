"""Text to token ids and back: characters, bytes, or byte-pair encoding (https://arxiv.org/abs/1508.07909)."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, get_args

import numpy as np

from headtohead.data.contracts import DataError
from headtohead.data.storage import Ragged, smallest_integer

TokenizerName = Literal["char", "byte", "bpe", "published"]
SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>", "<mask>", "<unk>")
PAD, BOS, EOS, MASK, UNK = range(len(SPECIAL_TOKENS))
DEFAULT_BPE_SIZE = 512
_NUM_BYTES = 256
_SMALLEST_BPE = len(SPECIAL_TOKENS) + _NUM_BYTES
_PIECE = 2**16
"""Characters of a long text that are encoded at once, cut after a line's end: so that memory stays small."""
_PIECES_AT_ONCE = 4096
_SHOWN = {MASK: b"<mask>", UNK: b"<unk>"}


@dataclass(frozen=True)
class SpecialIds:
    """The numbers of the special tokens; -1 for one that there is not."""

    pad: int = PAD
    bos: int = BOS
    eos: int = EOS
    mask: int = MASK
    unk: int = UNK
    others: tuple[int, ...] = ()
    """All that stand for no text, where they do not come first."""

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> SpecialIds:
        """Those of a stored tokenizer."""
        ids = dict(stored.get("special") or {})
        return cls(**{**ids, "others": tuple(ids.get("others", ()))})

    def beginnings(self, tokens: np.ndarray) -> np.ndarray:
        """Where documents begin in rows of several: at a start token after an end token; the two may be one and the
        same."""
        first = tokens == self.bos
        first[:, 1:] &= tokens[:, :-1] == self.eos
        return first

    def border(self, tokens: np.ndarray) -> int:
        """Where the second of two texts begins, after the end token of the first."""
        return int(np.flatnonzero(tokens[1:] == self.eos)[0]) + 2


@dataclass(frozen=True)
class Tokenizer:
    """A trained tokenizer; `pieces[i]` are the UTF-8 bytes that token i stands for, none for special tokens."""

    kind: TokenizerName
    pieces: tuple[bytes, ...]
    merges: str = ""
    """The `tokenizers` library's own description of a BPE, or of whatever was published."""
    special: SpecialIds = SpecialIds()

    @property
    def vocab_size(self) -> int:
        return len(self.pieces)

    @property
    def dtype(self) -> np.dtype:
        return smallest_integer(self.vocab_size - 1)

    @cached_property
    def byte_lengths(self) -> np.ndarray:
        """How many bytes of text each token stands for."""
        return np.array([len(piece) for piece in self.pieces], dtype=np.int64)

    @cached_property
    def blank(self) -> np.ndarray:
        """Which tokens are nothing but white space."""
        return np.array([bool(piece) and not piece.strip() for piece in self.pieces])

    @cached_property
    def widths(self) -> np.ndarray:
        """How much of a text each token covers, measured as `width_of` does; of a published one, see `ends`."""
        return np.ones(self.vocab_size, dtype=np.int64) if self.kind == "char" else self.byte_lengths

    def width_of(self, text: str) -> int:
        """In characters or bytes, whichever the tokens are made of."""
        return len(text) if self.kind == "char" else len(text.encode())

    def ends(self, text: str, tokens: np.ndarray) -> np.ndarray:
        """Where in a text each of its tokens ends, measured as `width_of` does."""
        if self.kind != "published":
            return np.cumsum(self.widths[tokens])
        in_characters = [end for _, end in self._library.encode(text, add_special_tokens=False).offsets]
        lengths = np.cumsum([0, *(len(sign.encode()) for sign in text)])
        return lengths[in_characters]

    def encode(self, texts: Sequence[str]) -> Ragged:
        """Without special tokens, save the unknown character's."""
        if self.kind == "char":
            return self._encode_characters(texts)
        if self.kind == "byte":
            encoded = [text.encode() for text in texts]
            values = np.frombuffer(b"".join(encoded), dtype=np.uint8).astype(self.dtype) + len(SPECIAL_TOKENS)
            return Ragged.of_lengths(values.astype(self.dtype), np.array([len(text) for text in encoded], dtype=int))
        return self._encode_pairs(texts)

    def encode_one(self, text: str) -> list[int]:
        """One text, as `encode` does."""
        ids: list[int] = self.encode([text])[0].tolist()
        return ids

    def framed(self, *parts: Ragged) -> Ragged:
        """Each row between this tokenizer's start and end tokens."""
        return framed(*parts, start=self.special.bos, end=self.special.eos)

    def decode(self, ids: Iterable[int]) -> str:
        """As a person would read it: no padding, no start, no end; what stands for no text is shown by its name."""
        if self.kind == "published":
            unseen = (self.special.pad, self.special.bos, self.special.eos)
            kept = [int(token) for token in ids if int(token) not in unseen and int(token) < self.vocab_size]
            return str(self._library.decode(kept, skip_special_tokens=False))
        return b"".join(self._piece(int(token)) for token in ids).decode(errors="replace")

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()[:24]

    def to_dict(self) -> dict[str, Any]:
        facts = {"kind": self.kind, "pieces": [piece.decode("latin-1") for piece in self.pieces], "merges": self.merges}
        return facts if self.special == SpecialIds() else {**facts, "special": asdict(self.special)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Tokenizer:
        pieces = tuple(piece.encode("latin-1") for piece in stored["pieces"])
        return cls(stored["kind"], pieces, stored["merges"], SpecialIds.of(stored))

    def _piece(self, token: int) -> bytes:
        if token >= self.vocab_size:  # A model may have been given a larger vocabulary than its data's.
            return f"<{token}>".encode()
        return _SHOWN.get(token, self.pieces[token])

    @property
    def _library(self) -> Any:
        return library_of(self.merges)

    @cached_property
    def _id_of_code_point(self) -> np.ndarray:
        code_points = np.array([ord(piece.decode()) for piece in self.pieces[len(SPECIAL_TOKENS) :]], dtype=np.int64)
        table = np.full(0x110000, UNK, dtype=self.dtype)
        table[code_points] = np.arange(len(code_points)) + len(SPECIAL_TOKENS)
        return table

    def _encode_characters(self, texts: Sequence[str]) -> Ragged:
        values = self._id_of_code_point[code_points("".join(texts))]
        return Ragged.of_lengths(values, np.array([len(text) for text in texts], dtype=int))

    def _encode_pairs(self, texts: Sequence[str]) -> Ragged:
        library = self._library
        lengths = np.zeros(len(texts), dtype=int)
        values = [np.zeros(0, dtype=self.dtype)]
        pieces = ((row, piece) for row, text in enumerate(texts) for piece in _cut(text))
        while batch := list(itertools.islice(pieces, _PIECES_AT_ONCE)):
            for (row, _), encoding in zip(
                batch, library.encode_batch_fast([piece for _, piece in batch], add_special_tokens=False), strict=True
            ):
                values.append(np.array(encoding.ids, dtype=self.dtype))
                lengths[row] += len(values[-1])
        return Ragged.of_lengths(np.concatenate(values), lengths)


@lru_cache(maxsize=8)
def library_of(description: str) -> Any:
    """A tokenizer of the `tokenizers` library, kept out of what is pickled for loader processes."""
    from tokenizers import Tokenizer as Library

    # Said once, so that loader processes forked later do not warn about it.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    library = Library.from_str(description)
    library.no_truncation()
    library.no_padding()
    return library


def code_points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)


def check_tokenizer(kind: str, vocab_size: int | None) -> None:
    """The choices of a tokenizer, refused before any text is read."""
    if kind not in get_args(TokenizerName):
        raise DataError(f"data.tokenizer={kind} is unknown: choose one of {', '.join(get_args(TokenizerName))}.")
    if kind not in ("bpe", "published") and vocab_size is not None:
        raise DataError(
            f"data.vocab_size={vocab_size} has no meaning for tokenizer={kind}, which takes its own: "
            f"leave it null, or use data.tokenizer=bpe."
        )
    if vocab_size is not None and vocab_size < _SMALLEST_BPE:
        raise DataError(
            f"data.vocab_size={vocab_size} is too small for tokenizer=bpe, which starts from {_NUM_BYTES} bytes and "
            f"{len(SPECIAL_TOKENS)} special tokens: give at least {_SMALLEST_BPE}."
        )


def train_tokenizer(kind: TokenizerName, texts: Sequence[str], vocab_size: int | None = None) -> Tokenizer:
    """Learn from these texts alone; a BPE gets at most `vocab_size` tokens, fewer where there is little to merge."""
    check_tokenizer(kind, vocab_size)
    if kind == "published":
        raise DataError(
            "data.tokenizer=published comes with a checkpoint, init_from=hf:NAME; without one choose char, byte or bpe."
        )
    special = (b"",) * len(SPECIAL_TOKENS)
    if kind == "byte":
        return Tokenizer(kind, special + tuple(bytes([value]) for value in range(_NUM_BYTES)))
    if kind == "char":
        alphabet = np.unique(np.concatenate([code_points(text) for text in texts]))
        return Tokenizer(kind, special + tuple(chr(point).encode() for point in alphabet))
    return _train_pairs(texts, vocab_size or DEFAULT_BPE_SIZE)


def framed(*parts: Ragged, start: int = BOS, end: int = EOS) -> Ragged:
    """Each row between a start and an end token; where it has several parts, each of them with an end token."""
    whole = Ragged.of_lengths(parts[0].values[:0], np.sum([part.lengths + 1 for part in parts], axis=0) + 1)
    values = np.empty(whole.offsets[-1], dtype=parts[0].values.dtype)
    inner = np.ones(len(values), dtype=bool)
    edges = whole.offsets[:-1].copy()
    inner[edges], values[edges] = False, start
    for part in parts:
        edges += part.lengths + 1
        inner[edges], values[edges] = False, end
    values[inner] = alternating(parts).values
    return Ragged(values, whole.offsets)


def shortened(parts: Sequence[Ragged], max_length: int | None) -> list[Ragged]:
    """Parts that fit a frame of `max_length` tokens, cut at their ends: the longer one of two first."""
    if max_length is None:
        return list(parts)
    room = max_length - len(parts) - 1
    if len(parts) == 1:
        return [parts[0].cut(np.full(len(parts[0]), room))]
    first, second = parts
    of_first = np.maximum(room - second.lengths, room // 2)
    kept = first.cut(of_first)
    return [kept, second.cut(room - kept.lengths)]


def alternating(parts: Sequence[Ragged]) -> Ragged:
    """Row 0 of each part, then row 1 of each, and so on."""
    if len(parts) == 1:
        return parts[0]
    values, lengths = (np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "lengths"))
    order = np.arange(len(lengths)).reshape(len(parts), -1).T.reshape(-1)
    return Ragged.of_lengths(values, lengths).chosen(order)


def _train_pairs(texts: Sequence[str], vocab_size: int) -> Tokenizer:
    from tokenizers import Tokenizer as Library
    from tokenizers import decoders, models, pre_tokenizers, trainers

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    library.train_from_iterator(itertools.chain.from_iterable(_cut(text) for text in texts), trainer=trainer)
    by_id = sorted(library.get_vocab().items(), key=lambda item: item[1])
    byte_of = letter_bytes()
    pieces = [bytes(byte_of[letter] for letter in token) for token, _ in by_id[len(SPECIAL_TOKENS) :]]
    return Tokenizer("bpe", (b"",) * len(SPECIAL_TOKENS) + tuple(pieces), library.to_str())


def letter_bytes() -> dict[str, int]:
    """Which byte each letter of a byte-level BPE stands for: printable ones themselves, others shifted past 255."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [value for value in range(_NUM_BYTES) if value not in set(printable)]
    letters = {chr(value): value for value in printable}
    return letters | {chr(_NUM_BYTES + place): value for place, value in enumerate(others)}


def _cut(text: str) -> Iterable[str]:
    """Pieces of a long text, each ending where a line does, as far as lines allow."""
    start = 0
    while len(text) - start > _PIECE:
        end = text.rfind("\n", start, start + _PIECE) + 1 or start + _PIECE
        yield text[start:end]
        start = end
    yield text[start:]

"""A trained tokenizer: texts to token ids and back, and the bytes that tokens stand for."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache, cached_property, lru_cache
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from headtohead.data.cache.arrow_columns import Ragged, smallest_integer
from headtohead.data.data_source import DataError
from headtohead.data.tokenizers.special_tokens import MASK, OURS, SPECIAL_TOKENS, UNK, SpecialIds, framed

_PIECE = 2**16
"""Characters of a long text that are encoded at once, cut after a line's end."""


def cut(text: str, most: int = _PIECE) -> Iterator[str]:
    """Yield pieces of a long text, each ending where a line does, as far as lines allow."""
    start = 0
    while len(text) - start > most:
        end = text.rfind("\n", start, start + most) + 1 or start + most
        yield text[start:end]
        start = end
    yield text[start:]


TokenizerKind = Literal["char", "byte", "bpe", "unigram", "wordpiece", "published"]
TokenizerName: TypeAlias = str
"""The values of data.tokenizer: a kind that is learned, the path of a tokenizer.json, or hf:NAME."""
_LONGEST_REASON = 200
_PIECES_AT_ONCE = 4096
_SHOWN = {MASK: b"<mask>", UNK: b"<unk>"}


@dataclass(frozen=True)
class Tokenizer:
    """A trained tokenizer; `pieces[i]` are the UTF-8 bytes that token i stands for, none for special tokens."""

    kind: TokenizerKind
    pieces: tuple[bytes, ...]
    merges: str = ""
    """The `tokenizers` library's own description, of all but characters and bytes."""
    special: SpecialIds = OURS

    @property
    def vocab_size(self) -> int:
        return len(self.pieces)

    @property
    def is_exact(self) -> bool:
        """Return whether the pieces of a text's tokens are the text, byte by byte; else normalisation may change it
        (lower-casing, dropping blanks), and only the offsets of tokens tell how much of the text they stand for."""
        return self.kind not in ("wordpiece", "published")

    @property
    def dtype(self) -> np.dtype:
        return smallest_integer(self.vocab_size - 1)

    def __getstate__(self) -> dict[str, Any]:
        """Drop the tables that are derived from the rest before pickling."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def byte_lengths(self) -> np.ndarray:
        """Return how many bytes of text each token stands for."""
        return np.array([len(piece) for piece in self.pieces], dtype=np.int64)

    @cached_property
    def blank(self) -> np.ndarray:
        """Return which tokens are nothing but white space."""
        return np.array([bool(piece) and not piece.strip() for piece in self.pieces])

    @cached_property
    def widths(self) -> np.ndarray:
        """Return how much of a text each token covers, measured as `width_of` does; for one that is not exact, see
        `ends`."""
        return np.ones(self.vocab_size, dtype=np.int64) if self.kind == "char" else self.byte_lengths

    def width_of(self, text: str) -> int:
        """Return the length in characters or bytes, whichever the tokens consist of."""
        return len(text) if self.kind == "char" else len(text.encode())

    def ends(self, text: str, tokens: np.ndarray) -> np.ndarray:
        """Return where in a text each of its tokens ends, measured as `width_of` does."""
        if self.is_exact:
            return np.cumsum(self.widths[tokens])
        return _byte_ends(text, self._library.encode(text, add_special_tokens=False))

    def encode(self, texts: Sequence[str]) -> Ragged:
        """Encode texts without special tokens, save the unknown character's."""
        if self.kind == "char":
            return self._encode_characters(texts)
        if self.kind == "byte":
            encoded = [text.encode() for text in texts]
            values = np.frombuffer(b"".join(encoded), dtype=np.uint8).astype(self.dtype) + len(SPECIAL_TOKENS)
            return Ragged.of_lengths(values.astype(self.dtype), np.array([len(text) for text in encoded], dtype=int))
        return self._encode_by_library(texts)

    def encode_with_bytes(self, texts: Sequence[str]) -> tuple[Ragged, Ragged]:
        """Return tokens, and how many bytes of its text each stands for, including preceding bytes that no token stands
        for. Rows of bytes have one number more: the rest after the last token. A row's bytes add up to those of its
        text."""
        lengths, values, sizes = np.zeros(len(texts), dtype=int), [np.zeros(0, dtype=self.dtype)], []
        left = np.zeros(len(texts), dtype=np.int64)
        for row, piece, encoding in self._encodings(texts, fast=False):
            ends = _byte_ends(piece, encoding)
            own = np.diff(ends, prepend=0)
            total = len(piece.encode())
            if len(own):
                own[0] += left[row]
                left[row] = total - ends[-1]
            else:
                left[row] += total
            values.append(np.array(encoding.ids, dtype=self.dtype))
            lengths[row] += len(own)
            sizes.append(own)
        tokens = Ragged.of_lengths(np.concatenate(values), lengths)
        stood_for = np.concatenate([np.zeros(0, dtype=np.int64), *sizes])
        return tokens, Ragged.of_lengths(np.insert(stood_for, tokens.offsets[1:], left), lengths + 1)

    def encode_one(self, text: str) -> list[int]:
        """Encode one text, as `encode` does."""
        ids: list[int] = self.encode([text])[0].tolist()
        return ids

    def framed(self, *parts: Ragged) -> Ragged:
        """Put each row between this tokenizer's start and end tokens."""
        return framed(*parts, start=self.special.bos, end=self.special.eos)

    def decode(self, ids: Iterable[int]) -> str:
        """Decode ids as a person would read them: no padding, no start, no end; tokens that stand for no text appear by
        name."""
        if not self.is_exact:
            unseen = (self.special.pad, self.special.bos, self.special.eos)
            visible = [int(token) for token in ids if int(token) not in unseen and int(token) < self.vocab_size]
            return str(self._library.decode(visible, skip_special_tokens=False))
        return b"".join(self._piece(int(token)) for token in ids).decode(errors="replace")

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()[:24]

    def to_dict(self) -> dict[str, Any]:
        facts = {"kind": self.kind, "pieces": [piece.decode("latin-1") for piece in self.pieces], "merges": self.merges}
        return facts if self.special == OURS else {**facts, "special": asdict(self.special)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Tokenizer:
        """Return the tokenizer that a run has stored; DataError where it is not as `to_dict` writes it."""
        try:
            pieces = tuple(piece.encode("latin-1") for piece in stored["pieces"])
            made = cls(stored["kind"], pieces, stored["merges"], SpecialIds.of(stored))
            made._check()
        except Exception as error:  # the tokenizers library raises no narrower kind
            reason = f"{type(error).__name__}: {error}"[:_LONGEST_REASON]
            raise DataError(
                f"the tokenizer.json of a run is damaged ({reason}): restore it from a copy, or train the run again "
                "(h2h train --from-run RUN)."
            ) from error
        return made

    def _check(self) -> None:
        if self.kind not in get_args(TokenizerKind) or not isinstance(self.merges, str):
            raise DataError(f"kind is {self.kind!r}")
        if any(
            not isinstance(number, int) for number in asdict(self.special).values() if not isinstance(number, tuple)
        ):
            raise DataError("the numbers of special tokens are not numbers")
        if self.kind == "char":
            self._id_of_code_point  # noqa: B018 - made once, and kept
        elif self.kind != "byte":
            self._library  # noqa: B018 - likewise

    def _piece(self, token: int) -> bytes:
        if token >= self.vocab_size:  # A model may have been given a larger vocabulary than its data's.
            return f"<{token}>".encode()
        return _SHOWN.get(token, self.pieces[token])

    @property
    def _library(self) -> Any:
        return library_of(self.merges, reads_names=self.kind == "published")

    @cached_property
    def _id_of_code_point(self) -> np.ndarray:
        code_points = np.array([ord(piece.decode()) for piece in self.pieces[len(SPECIAL_TOKENS) :]], dtype=np.int64)
        table = np.full(0x110000, UNK, dtype=self.dtype)
        table[code_points] = np.arange(len(code_points)) + len(SPECIAL_TOKENS)
        return table

    def _encode_characters(self, texts: Sequence[str]) -> Ragged:
        values = self._id_of_code_point[code_points("".join(texts))]
        return Ragged.of_lengths(values, np.array([len(text) for text in texts], dtype=int))

    def _encode_by_library(self, texts: Sequence[str]) -> Ragged:
        lengths, values = np.zeros(len(texts), dtype=int), [np.zeros(0, dtype=self.dtype)]
        for row, _, encoding in self._encodings(texts, fast=True):
            values.append(np.array(encoding.ids, dtype=self.dtype))
            lengths[row] += len(values[-1])
        return Ragged.of_lengths(np.concatenate(values), lengths)

    def _encodings(self, texts: Sequence[str], *, fast: bool) -> Iterator[tuple[int, str, Any]]:
        """Yield, row by row, the pieces of its text and the library's encoding of each; fast encodings have no
        offsets."""
        library = self._library
        encode = library.encode_batch_fast if fast else library.encode_batch
        pieces = ((row, piece) for row, text in enumerate(texts) for piece in cut(text))
        while batch := list(itertools.islice(pieces, _PIECES_AT_ONCE)):
            encodings = encode([piece for _, piece in batch], add_special_tokens=False)
            for (row, piece), encoding in zip(batch, encodings, strict=True):
                yield row, piece, encoding


@cache
def let_library_use_threads() -> None:
    """Let the tokenizers library use threads in this process, and none in those forked from it: its threads stay
    behind, and it would wait for them for ever. Its own guard against that works only as long as nobody says either."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")  # unsaid, the library warns whenever a loader is forked
    os.register_at_fork(after_in_child=_use_no_threads)


def _use_no_threads() -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


@lru_cache(maxsize=8)
def library_of(description: str, *, reads_names: bool = True) -> Any:
    """Load a tokenizer of the `tokenizers` library, which is never pickled for loader processes. With `reads_names`,
    names of special tokens in a text become those tokens; else they are text like any other."""
    from tokenizers import Tokenizer as Library

    let_library_use_threads()
    library = Library.from_str(description)
    library.no_truncation()
    library.no_padding()
    library.encode_special_tokens = not reads_names
    return library


def code_points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)


def _byte_ends(text: str, encoding: Any) -> np.ndarray:
    """Return where in a text each token of its encoding ends, in bytes; never before the previous one."""
    points = code_points(text)
    widths = 1 + (points >= 0x80).astype(np.int64) + (points >= 0x800) + (points >= 0x10000)
    indices = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(widths)])
    ends = np.array([end for _, end in encoding.offsets], dtype=np.int64)
    return np.maximum.accumulate(indices[ends]) if len(ends) else ends

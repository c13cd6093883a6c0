"""Rows of validation and test that occur in train as well are found by hashes, whatever their case, white space or
order.

Validation and test are hashed, and train streams past them. Rows are compared as they are and normalised; long texts by
stretches of about 32 words, divided where a hash of the words decides (content-defined chunking), so that the same text
is divided in the same way wherever it occurs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np

LEAKS = "leaks"
"""The name of these facts, in prepared content and in records."""
HELD_OUT: tuple[Literal["validation", "test"], ...] = ("validation", "test")
Compared = tuple[object, object]
"""A compared text: normalised, and as it is; both hashable."""
Pieces = Callable[[Any], Sequence[Compared]]
"""The pieces of a sample; one, except for long texts."""
_BLANK, _THREE_BYTES = 32, 0xE0
_LOOKED_AT = 8
"""The bytes before a blank that decide whether a text is divided there: one 64-bit word."""
_LOG_SPACING = 5
"""The logarithm of the number of blanks between two divisions, on average: 32."""
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""Spreads the words over all numbers (Knuth, The Art of Computer Programming 3, section 6.4)."""
_SHORTEST = 24
"""Bytes of a stretch that is compared: shorter ones repeat by chance."""
_WHOLE = 256
"""Bytes up to which a text is not cut."""
_PLAIN = bytes.maketrans(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZ\t\n\r\x0b\x0c", b"abcdefghijklmnopqrstuvwxyz" + b" " * 5
)  # as many bytes as before, so that places stay


@dataclass
class Matches:
    """The parts of the held-out splits that occur in train."""

    held_out: Mapping[str, list[tuple[int, int]]]
    """The hashes of each piece by split, normalised and as it is."""
    known: frozenset[int]
    """Those of all of them, normalised."""
    alike: set[int] = field(default_factory=set)
    exact: set[tuple[int, int]] = field(default_factory=set)
    num_train: int = 0
    num_shared: int = 0
    """Pieces of train that are held out too."""

    @classmethod
    def of(cls, held_out: Mapping[Any, Iterable[Any]], pieces: Pieces) -> Matches:
        hashed = {
            name: [(hash(alike), hash(exact)) for sample in samples for alike, exact in pieces(sample)]
            for name, samples in held_out.items()
        }
        return cls(hashed, frozenset(alike for own in hashed.values() for alike, _ in own))

    def shares(self, piece: Compared) -> bool:
        """Count a piece of train, and return whether it is held out too."""
        self.num_train += 1
        if (alike := hash(piece[0])) not in self.known:
            return False
        self.num_shared += 1
        self.alike.add(alike)
        self.exact.add((alike, hash(piece[1])))
        return True

    def facts(self, unit: str) -> dict[str, Any]:
        """Return the counts as JSON can hold them."""
        counts = {
            name: {
                "rows": len(own),
                "in_train": sum(alike in self.alike for alike, _ in own),
                "exactly": sum(both in self.exact for both in own),
            }
            for name, own in self.held_out.items()
        }
        return {"unit": unit, "train": {"rows": self.num_train, "held_out": self.num_shared}, **counts}


def leaks_between(samples: Mapping[Any, Iterable[object]], pieces: Pieces, unit: str = "rows") -> dict[str, Any]:
    """Return the leaks: what of validation and test occurs in train."""
    matches = Matches.of({name: samples[name] for name in HELD_OUT}, pieces)
    for sample in samples["train"]:
        for piece in pieces(sample):
            matches.shares(piece)
    return matches.facts(unit)


def expected_repeats(train: Iterable[object], pieces: Pieces, sizes: Mapping[Any, int]) -> dict[str, float]:
    """Return how many rows of each split repeat one of train where all are drawn alike.

    By Good and Turing, a new draw repeats with the share of rows that were drawn more than once
    (https://doi.org/10.1093/biomet/40.3-4.237).
    """
    times = Counter(hash(alike) for sample in train for alike, _ in pieces(sample))
    total = sum(times.values())
    repeated = sum(count for count in times.values() if count > 1) / total if total else 0.0
    return {name: round(size * repeated, 2) for name, size in sizes.items()}


def texts_of_row(texts: Iterable[str]) -> tuple[Compared]:
    """Return a row of one text or several, whose order may be another."""
    own = tuple(texts)
    return ((tuple(sorted(" ".join(text.casefold().split()) for text in own)), own),)


def stretches(text: str) -> list[Compared]:
    """Return the stretches of a long text in their order; a short one is compared whole."""
    return [piece for _, piece in _stretches(text) if piece is not None]


def without(text: str, matches: Matches) -> str:
    """Return the text without the stretches that are held out."""
    parts = list(_stretches(text))
    remaining = [part for part, piece in parts if piece is None or not matches.shares(piece)]
    return text if len(remaining) == len(parts) else b"".join(remaining).decode(errors="surrogatepass")


def _stretches(text: str) -> Iterator[tuple[bytes, Compared | None]]:
    """Yield all parts of the text; None beside those that are too short to be compared."""
    content = text.encode(errors="surrogatepass")
    plain = content.translate(_PLAIN)
    ends = [*_cuts(plain), len(content)]
    for start, end in pairwise((0, *ends)):
        part = content[start:end]
        long_enough = end - start >= _SHORTEST or len(ends) == 1
        yield part, (_collapsed(plain[start:end]), part) if long_enough else None


def _collapsed(part: bytes) -> bytes:
    return b" ".join(part.split()) if b"  " in part else part.strip()


def _cuts(plain: bytes) -> list[int]:
    """Return where stretches end: before some blanks, and some characters of scripts without blanks."""
    if len(plain) < _WHOLE:
        return []
    values = np.frombuffer(plain, dtype=np.uint8)[_LOOKED_AT:]
    before = np.ndarray((len(values),), dtype="<u8", buffer=plain, strides=(1,))
    indices = np.flatnonzero((values == _BLANK) | (values >= _THREE_BYTES))
    chosen = (before[indices] * _MULTIPLIER) >> np.uint64(64 - _LOG_SPACING) == 0
    result: list[int] = (indices[chosen] + _LOOKED_AT).tolist()
    return result

"""Rows of validation and test that occur in train as well are found by hashes, whatever their case, white space or
order: rows of text, and prepared rows (images by their pixels, problems by their tokens).

Validation and test are hashed, and train streams past them. Rows are compared as they are and normalised; long texts by
stretches of about 32 words, divided where a hash of the words decides (content-defined chunking), so that the same text
is divided in the same way wherever it occurs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from headtohead.data.cache.arrow_columns import Column, Ragged, Table, numbers
from headtohead.data.cache.prepared_content import PreparedContent
from headtohead.data.data_source import SPLIT_NAMES, DataError

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
        result = {
            name: {
                "rows": len(own),
                "in_train": sum(alike in self.alike for alike, _ in own),
                "exactly": sum(both in self.exact for both in own),
            }
            for name, own in self.held_out.items()
        }
        return {"unit": unit, "train": {"rows": self.num_train, "held_out": self.num_shared}, **result}


def leaks_between(samples: Mapping[Any, Iterable[Any]], pieces: Pieces, unit: str = "rows") -> dict[str, Any]:
    """Return the leaks: what of validation and test occurs in train."""
    matches = Matches.of({name: samples[name] for name in HELD_OUT}, pieces)
    for sample in samples["train"]:
        for piece in pieces(sample):
            matches.shares(piece)
    return matches.facts(unit)


def expected_repeats(train: Iterable[Any], pieces: Pieces, sizes: Mapping[Any, int]) -> dict[str, float]:
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


_READ = ("image", "tokens", "source")
"""Columns that a model reads: their rows are compared."""


def with_leaks(made: PreparedContent, *, drop: bool, draws: bool) -> PreparedContent:
    """Return the same content with the count of held-out rows that occur in train; `drop` removes them from train.

    `draws` means that rows are drawn from a known space, in which some repeat.
    """
    if any(_column_of(made, name) is None for name in SPLIT_NAMES):  # a stream, which has no train table
        return made
    if drop:
        made = _without(made)
    rows = {str(name): _rows_of(made, name) for name in SPLIT_NAMES}
    facts = leaks_between(rows, _as_it_is)
    if draws:
        sizes = {name: facts[name]["rows"] for name in HELD_OUT}
        facts["expected"] = expected_repeats(rows["train"], _as_it_is, sizes)
    return replace(made, facts={**made.facts, LEAKS: facts})


def leaks_of(tables: Mapping[str, Table]) -> dict[str, Any]:
    """Return what of validation and test occurs in these rows of train."""
    made = PreparedContent(tables)
    return leaks_between({str(name): _rows_of(made, name) for name in SPLIT_NAMES}, _as_it_is)


def _without(made: PreparedContent) -> PreparedContent:
    matches = Matches.of({name: _rows_of(made, name) for name in HELD_OUT}, _as_it_is)
    shared = np.array([matches.shares(_as_it_is(row)[0]) for row in _rows_of(made, "train")])
    remaining = np.flatnonzero(~shared)
    if not len(remaining):
        raise DataError("data.drop_shared=true leaves no row to train on: all of them stand in validation or test.")
    train = {name: _chosen(column, remaining) for name, column in made.tables["train"].items()}
    return replace(made, tables={**made.tables, "train": train})


def _chosen(column: Column, rows: np.ndarray) -> Column:
    return column.chosen(rows) if isinstance(column, Ragged) else np.asarray(column)[rows]


def _rows_of(made: PreparedContent, name: str) -> _Rows:
    """Return the rows of a split that has a table."""
    compared = _column_of(made, name)
    assert compared is not None, f"the {name} split has no table"
    return _Rows(*compared)


def _column_of(made: PreparedContent, name: str) -> tuple[Column, np.ndarray] | None:
    """Return the compared column and the split's rows in it; None where the split has no table."""
    table: Table = made.tables.get(name, {})
    indices = None
    if "place" in table:
        indices = numbers(table, "place")
        table = made.tables[made.facts["splits"][name]]
    column = next((table[name] for name in _READ if name in table), None)
    if column is None:
        return None
    return column, np.arange(len(column)) if indices is None else indices


class _Rows:
    """Rows of a column as bytes, which can be iterated repeatedly."""

    def __init__(self, column: Column, indices: np.ndarray) -> None:
        self._column, self._indices = column, indices

    def __iter__(self) -> Iterator[bytes]:
        return (self._column[index].tobytes() for index in self._indices.tolist())


def _as_it_is(row: Any) -> Sequence[Compared]:
    return ((row, row),)

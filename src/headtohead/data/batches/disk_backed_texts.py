"""Samples of plain text are stored on disk: a set of gigabytes is read once, and iterated several times, with only the
current part in memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from io import BytesIO
from itertools import pairwise
from tempfile import TemporaryFile
from typing import IO, Any, TypeVar
from weakref import finalize

import numpy as np

from headtohead.data.cache.paths import cache_root

Sample = TypeVar("Sample")
_IN_MEMORY = 2**24
"""Bytes up to which texts are not worth a file."""
_AT_ONCE = 128
"""Texts that are read together by whoever iterates over them."""


class DiskBackedTexts(Sequence[str]):
    """End to end in a file without a name, which is gone with them; where each ends is in memory."""

    def __init__(self) -> None:
        self._ends = array("q", [0])
        self._file: IO[bytes] = BytesIO()

    def append(self, text: str) -> None:
        assert self._file.tell() == self._ends[-1], "all are gathered before any is looked at"
        self._file.write(content := text.encode())
        self._ends.append(self._ends[-1] + len(content))
        if self._ends[-1] > _IN_MEMORY and isinstance(self._file, BytesIO):
            self._file = _on_disk(self._file.getvalue())
            finalize(self, _close, self._file)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, row: int) -> str:  # type: ignore[override]
        return self._read(range(len(self))[row], 1)[0]

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _AT_ONCE):
            yield from self._read(start, _AT_ONCE)

    def _read(self, start: int, number: int) -> list[str]:
        ends = self._ends[start : start + number + 1]
        self._file.seek(ends[0])
        content = self._file.read(ends[-1] - ends[0])
        return [content[begin - ends[0] : end - ends[0]].decode() for begin, end in pairwise(ends)]


class DiskBackedPairs(Sequence[tuple[str, str]]):
    """Pairs of texts, stored in the same way."""

    def __init__(self) -> None:
        self._texts = DiskBackedTexts()

    def append(self, pair: tuple[str, str]) -> None:
        for text in pair:
            self._texts.append(text)

    def __len__(self) -> int:
        return len(self._texts) // 2

    def __getitem__(self, row: int) -> tuple[str, str]:  # type: ignore[override]
        index = 2 * range(len(self))[row]
        return self._texts[index], self._texts[index + 1]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        texts = iter(self._texts)
        return zip(texts, texts, strict=True)


class Origins(Sequence[tuple[str, int]]):
    """The file of each sample and its number there, in a few bytes each."""

    def __init__(self) -> None:
        self._files: list[str] = []
        self._file_of, self._numbers = array("l"), array("q")

    def append(self, origin: tuple[str, int]) -> None:
        file, number = origin
        if not self._files or self._files[-1] != file:
            self._files.append(file)
        self._file_of.append(len(self._files) - 1)
        self._numbers.append(number)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, row: int) -> tuple[str, int]:  # type: ignore[override]
        return self._files[self._file_of[row]], self._numbers[row]


class _SelectedSamples(Sequence[Any]):
    """Some rows of others, which stay where they are."""

    def __init__(self, of: Sequence[object], indices: np.ndarray) -> None:
        self._of, self._indices = of, indices

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, row: int) -> Any:  # type: ignore[override]
        return self._of[self._indices[row]]


DiskBackedSequence = list[Any] | DiskBackedTexts | DiskBackedPairs
"""The sequence that samples are gathered in."""


def selected_samples(samples: Sequence[Sample], indices: np.ndarray) -> Sequence[Sample]:
    """Return the samples at these indices, in this order; a list stays a list."""
    if isinstance(samples, list):
        return [samples[index] for index in indices.tolist()]
    return _SelectedSamples(samples, indices)


def _on_disk(content: bytes) -> IO[bytes]:
    """Write to an anonymous file in the cache, since the system's folder for temporary files may lie in memory."""
    cache_root().mkdir(parents=True, exist_ok=True)
    file = TemporaryFile(dir=cache_root())  # noqa: SIM115 - open for as long as its texts are kept
    file.write(content)
    return file


def _close(file: IO[bytes]) -> None:
    """Close the file, which retries a write that a full disk refused; the first failure was reported already."""
    with suppress(OSError):
        file.close()

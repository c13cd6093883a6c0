"""Samples that are nothing but texts, kept outside memory: a set of gigabytes is read once, and walked through several
times, with no more of it in memory than is looked at."""

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

from headtohead.data.places import cache_root

Sample = TypeVar("Sample")
_IN_MEMORY = 2**24
"""Bytes up to which texts are not worth a file."""
_AT_ONCE = 128
"""Texts that are read together by who walks through them."""


class KeptTexts(Sequence[str]):
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


class KeptPairs(Sequence[tuple[str, str]]):
    """Pairs of texts, kept as these."""

    def __init__(self) -> None:
        self._texts = KeptTexts()

    def append(self, pair: tuple[str, str]) -> None:
        for text in pair:
            self._texts.append(text)

    def __len__(self) -> int:
        return len(self._texts) // 2

    def __getitem__(self, row: int) -> tuple[str, str]:  # type: ignore[override]
        place = 2 * range(len(self))[row]
        return self._texts[place], self._texts[place + 1]

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


class _Chosen(Sequence[Any]):
    """Some rows of others, which stay where they are."""

    def __init__(self, of: Sequence[Any], places: np.ndarray) -> None:
        self._of, self._places = of, places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, row: int) -> Any:  # type: ignore[override]
        return self._of[self._places[row]]


Keeps = list[Any] | KeptTexts | KeptPairs
"""What samples are gathered in."""


def chosen(samples: Sequence[Sample], places: np.ndarray) -> Sequence[Sample]:
    """The samples in these places, in this order; of a list, a list."""
    if isinstance(samples, list):
        return [samples[place] for place in places.tolist()]
    return _Chosen(samples, places)


def _on_disk(content: bytes) -> IO[bytes]:
    """Where prepared data will be, and not in the folder of the system's temporary files, which may lie in memory."""
    cache_root().mkdir(parents=True, exist_ok=True)
    file = TemporaryFile(dir=cache_root())  # noqa: SIM115 - open for as long as its texts are kept
    file.write(content)
    return file


def _close(file: IO[bytes]) -> None:
    """What a full disk did not take is tried once more, and was told when it was written first."""
    with suppress(OSError):
        file.close()

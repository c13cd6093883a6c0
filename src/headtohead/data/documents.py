"""Local text as documents, dealt out to train, validation and test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from headtohead.data.contracts import SPLIT_NAMES, DataError, SplitName
from headtohead.data.files import check_shares, content_digest, decoded

Unit = Literal["file", "paragraph", "line"]
"""What a document is; a paragraph goes up to a blank line."""
_ENOUGH_TO_DEAL = 20
"""Documents from which on whole ones are dealt to the splits; fewer are each cut in three."""


class Documents:
    """One text file, or a folder of them. Documents are dealt out whole, by the seed. Where there are few, as when one
    file is one document, each is cut: its beginning is for training, its end for validation and test."""

    def __init__(
        self,
        path: str | None,
        *,
        pattern: str,
        encoding: str,
        unit: Unit,
        validation_share: float,
        test_share: float,
        seed: int,
    ) -> None:
        if path is None:
            raise DataError("data.path is missing: give a text file, or a folder of them (data=text data.path=FILE).")
        if unit not in get_args(Unit):
            raise DataError(f"data.documents={unit} is unknown: choose one of {', '.join(get_args(Unit))}.")
        self.path, self.pattern, self.encoding, self.unit = Path(path).expanduser(), pattern, encoding, unit
        self.shares, self.seed = check_shares(validation_share, test_share), seed

    def parameters(self) -> Mapping[str, Any]:
        """All that determines the documents."""
        return {
            "files": [content_digest(file) for file in self.files()],
            "encoding": self.encoding,
            "documents": self.unit,
            "shares": self.shares,
            "seed": self.seed,
        }

    def files(self) -> list[Path]:
        """The file, or the folder's files in the order of their names."""
        if self.path.is_file():
            return [self.path]
        if not self.path.exists():
            raise DataError(f"data.path={self.path} does not exist (from {Path.cwd()}): correct the path.")
        files = sorted(file for file in self.path.glob(self.pattern) if file.is_file())
        if not files:
            raise DataError(
                f"data.path={self.path} is a folder without files of data.pattern={self.pattern}: correct one of them."
            )
        return files

    def by_split(self) -> dict[SplitName, list[str]]:
        """The documents of each split, none of them empty."""
        texts = [decoded(file, self.encoding) for file in self.files()]
        documents = [document for text in texts for document in self._cut_up(text)]
        if not documents:
            raise DataError(f"data.path={self.path} holds no text: all of it is empty, or only blanks.")
        splits = self._dealt(documents) if len(documents) >= _ENOUGH_TO_DEAL else self._each_cut(documents)
        for name in SPLIT_NAMES:
            if not splits[name]:
                raise DataError(
                    f"data.path={self.path} leaves the {name} split empty, having {sum(map(len, documents))} "
                    f"characters in {len(documents)} documents: give more text, or larger data.validation_share and "
                    f"data.test_share."
                )
        return splits

    def _cut_up(self, text: str) -> list[str]:
        if self.unit == "file":
            parts = [text]
        elif self.unit == "line":
            parts = text.splitlines()
        else:
            parts = "\n".join(text.splitlines()).split("\n\n")
        return [part.strip("\r\n") if self.unit != "file" else part for part in parts if part.strip()]

    def _dealt(self, documents: Sequence[str]) -> dict[SplitName, list[str]]:
        order = np.random.default_rng(self.seed).permutation(len(documents))
        splits: dict[SplitName, list[str]] = {}
        start = 0
        for name, share in self.shares.items():
            stop = start + max(round(share * len(documents)), 1)
            splits[name] = [documents[row] for row in order[start:stop]]
            start = stop
        splits["train"] = [documents[row] for row in order[start:]]
        return splits

    def _each_cut(self, documents: Sequence[str]) -> dict[SplitName, list[str]]:
        splits: dict[SplitName, list[str]] = {name: [] for name in SPLIT_NAMES}
        last_shares = self.shares["validation"] + self.shares["test"], self.shares["test"]
        for document in documents:
            first, second = (_line_end(document, round((1 - share) * len(document))) for share in last_shares)
            parts = document[:first], document[first:second], document[second:]
            for name, part in zip(SPLIT_NAMES, parts, strict=True):
                if part.strip():
                    splits[name].append(part)
        return splits


def _line_end(text: str, place: int) -> int:
    """The end of the last line before this place, or the place itself in a text of one line."""
    return text.rfind("\n", 0, place) + 1 or place

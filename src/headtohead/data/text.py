"""Any local text: one file, or a folder of them, as a language-model corpus."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from headtohead.data.contracts import SPLIT_NAMES, DataError, SplitName
from headtohead.data.language import LanguageSource, Packing
from headtohead.data.tokenizers import TokenizerName

Documents = Literal["file", "paragraph", "line"]
_ENOUGH_TO_DEAL = 20
"""Documents from which on whole ones are dealt to the splits; fewer are each cut in three."""


class TextFiles(LanguageSource):
    """Documents are dealt out whole, by the seed. Where there are few, as when one file is one document, each is cut:
    its beginning is for training, its end for validation and test."""

    name: ClassVar[str] = "text"

    def __init__(
        self,
        *,
        path: str | None = None,
        pattern: str = "**/*.txt",
        encoding: str = "utf-8",
        documents: Documents = "file",
        validation_share: float = 0.05,
        test_share: float = 0.05,
        context_length: int = 128,
        batch_size: int = 32,
        tokenizer: TokenizerName = "char",
        vocab_size: int | None = None,
        packing: Packing = "apart",
        seed: int = 0,
    ) -> None:
        super().__init__(
            context_length=context_length,
            batch_size=batch_size,
            tokenizer=tokenizer,
            vocab_size=vocab_size,
            packing=packing,
        )
        if path is None:
            raise DataError("data.path is missing: give a text file, or a folder of them (data=text data.path=FILE).")
        if documents not in get_args(Documents):
            raise DataError(f"data.documents={documents} is unknown: choose one of {', '.join(get_args(Documents))}.")
        if min(validation_share, test_share) <= 0 or validation_share + test_share >= 1:
            raise DataError(
                f"data.validation_share={validation_share} and data.test_share={test_share} must be above 0, and "
                f"together below 1: what is left is for training."
            )
        self.path, self.pattern, self.encoding, self.split_into = Path(path).expanduser(), pattern, encoding, documents
        self.shares: dict[SplitName, float] = {"validation": validation_share, "test": test_share}
        self.seed = seed

    def sample_parameters(self) -> Mapping[str, Any]:
        files = [hashlib.blake2b(_bytes_of(file), digest_size=16).hexdigest() for file in self.files()]
        return {
            "files": files,
            "encoding": self.encoding,
            "documents": self.split_into,
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

    def samples(self) -> Mapping[SplitName, Sequence[str]]:
        texts = [self._decoded(file) for file in self.files()]
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

    def _decoded(self, file: Path) -> str:
        try:
            return _bytes_of(file).decode(self.encoding)
        except UnicodeDecodeError as error:
            raise DataError(
                f"{file} is not text in data.encoding={self.encoding} (byte {error.start} is "
                f"{error.object[error.start]:#04x}): give its encoding, for instance data.encoding=latin-1."
            ) from error
        except LookupError as error:
            raise DataError(
                f"data.encoding={self.encoding} is unknown: give one that Python knows, such as utf-8 or latin-1."
            ) from error

    def _cut_up(self, text: str) -> list[str]:
        if self.split_into == "file":
            parts = [text]
        elif self.split_into == "line":
            parts = text.splitlines()
        else:
            parts = "\n".join(text.splitlines()).split("\n\n")
        return [part.strip("\r\n") if self.split_into != "file" else part for part in parts if part.strip()]

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


def _bytes_of(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}.") from error


def _line_end(text: str, place: int) -> int:
    """The end of the last line before this place, or the place itself in a text of one line."""
    return text.rfind("\n", 0, place) + 1 or place

"""Any local text, one file or a folder of them: as a language-model corpus, or as pairs for next-sentence
prediction."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, get_args

import numpy as np

from headtohead.data.data_source import SPLIT_NAMES, DataError, SplitName
from headtohead.data.generated.stories import NEXT, RANDOM
from headtohead.data.row_formats.labelled_text import ClassFormat, LabelledPair
from headtohead.data.row_formats.language_rows import LanguageSource, RowPacking
from headtohead.data.row_formats.text_source import BucketedRows, TextSource, TokenizedRows, check_max_length
from headtohead.data.sources.local_files import HeldOutShares, content_digest, decoded, overrides_for_share
from headtohead.field_group import FieldGroup
from headtohead.files.safe_read import lines_of
from headtohead.ranges import Count, Length, Seed

Unit = Literal["file", "paragraph", "line"]
"""The unit that counts as a document; a paragraph goes up to a blank line."""
_ENOUGH_TO_SPLIT = 20
"""Documents from which on whole ones are dealt to the splits; fewer are each cut in three."""


@dataclass(frozen=True)
class DocumentFields(FieldGroup):
    """The files of texts, and what a document is in them."""

    path: str | None = None
    pattern: str = "**/*.txt"
    encoding: str = "utf-8"
    """The encoding of the files, by its name in Python: utf-8, latin-1, utf-16."""
    documents: Unit = "file"


class Documents:
    """One text file, or a folder of them. Documents go to one split as a whole, by the seed. Where there are few, as
    when one file is one document, each is divided: its beginning is for training, its end for validation and test."""

    def __init__(self, documents: DocumentFields, held_out: HeldOutShares, *, seed: int) -> None:
        path, unit = documents.path, documents.documents
        if path is None:
            raise DataError("data.path is missing: give a text file, or a folder of them (data=text data.path=FILE).")
        if unit not in get_args(Unit):
            raise DataError(f"data.documents={unit} is unknown: choose one of {', '.join(get_args(Unit))}.")
        self.path, self.unit, self.pattern = Path(path).expanduser(), unit, documents.pattern
        self.encoding, self.shares, self.seed = documents.encoding, held_out.shares(), seed

    def parameters(self) -> Mapping[str, object]:
        """Return everything that determines the documents."""
        return {
            "files": [content_digest(file) for file in self.files()],
            "encoding": self.encoding,
            "documents": self.unit,
            "shares": self.shares,
            "seed": self.seed,
        }

    def files(self) -> list[Path]:
        """Return the file, or the folder's files in the order of their names."""
        if self.path.is_file():
            return [self.path]
        if not self.path.exists():
            raise DataError(f"data.path={self.path} does not exist (from {Path.cwd()}): correct the path.")
        if not self.path.is_dir():
            raise DataError(f"data.path={self.path} is neither a file nor a folder: correct the path.")
        files = sorted(file for file in self.path.glob(self.pattern) if file.is_file())
        if not files:
            raise DataError(
                f"data.path={self.path} is a folder without files of data.pattern={self.pattern}: correct one of them."
            )
        return files

    def by_split(self) -> dict[SplitName, list[str]]:
        """Return the documents of each split, none of them empty."""
        texts = [decoded(file, self.encoding) for file in self.files()]
        documents = [document for text in texts for document in self._cut_up(text)]
        if not documents:
            raise DataError(f"data.path={self.path} holds no text: all of it is empty, or only blanks.")
        splits = self._by_split(documents) if len(documents) >= _ENOUGH_TO_SPLIT else self._each_cut(documents)
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
            parts = lines_of(text)
        else:
            parts = "\n".join(lines_of(text)).split("\n\n")
        return [part.strip("\r\n") if self.unit != "file" else part for part in parts if part.strip()]

    def _by_split(self, documents: Sequence[str]) -> dict[SplitName, list[str]]:
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


def _line_end(text: str, index: int) -> int:
    """Return the end of the last line before this index, or the index itself in a text of one line."""
    return text.rfind("\n", 0, index) + 1 or index


class TextFiles(LanguageSource):
    """Rows of tokens from documents, packed or padded."""

    vocabulary_follows_texts = True
    name: ClassVar[str] = "text"

    def __init__(
        self,
        *,
        documents: DocumentFields = DocumentFields(),
        held_out: HeldOutShares = HeldOutShares(),
        packed: RowPacking = RowPacking(),
        rows: TokenizedRows = TokenizedRows(tokenizer="char"),
        seed: Seed = 0,
        drop_shared: bool = False,
    ) -> None:
        super().__init__(rows, packed)
        self.drop_shared = drop_shared
        self.documents = Documents(documents, held_out, seed=seed)

    def sample_parameters(self) -> Mapping[str, object]:
        return self.documents.parameters()

    def samples(self) -> Mapping[SplitName, Sequence[str]]:
        return self.documents.by_split()

    def overrides_for_share(self, share: float, lacking: Sequence[SplitName]) -> Sequence[str]:
        return overrides_for_share(self.documents.shares, share, lacking)


# Pairs for next-sentence prediction from any local text: half of them follow each other, half do not (Devlin et al.
# 2019, https://arxiv.org/abs/1810.04805).


Ends = Literal["punctuation", "line", "paragraph"]
_BORDERS: Mapping[str, re.Pattern[str]] = {
    "punctuation": re.compile(r"(?<=[.!?])\s+|\n\s*\n"),
    "line": re.compile(r"\n"),
    "paragraph": re.compile(r"\n\s*\n"),
}
_FEWEST_SIDES = 3
"""Two that follow each other, and one from elsewhere."""


class NextSentence(TextSource):
    """Each position of a text where one sentence ends and the next begins is a pair. In half of them the second is
    replaced by one of another document, or, where there is one document only, by one from elsewhere in it."""

    vocabulary_follows_texts = True
    name: ClassVar[str] = "next_sentence"
    kind = "labelled_text"

    def __init__(
        self,
        *,
        documents: DocumentFields = DocumentFields(),
        sentences: Ends = "punctuation",
        sentences_per_side: Count = 1,
        held_out: HeldOutShares = HeldOutShares(),
        max_length: Length | None = 128,
        rows: BucketedRows = BucketedRows(),
        seed: Seed = 0,
        drop_shared: bool = False,
    ) -> None:
        super().__init__(rows)
        self.drop_shared = drop_shared
        if sentences not in get_args(Ends):
            raise DataError(f"data.sentences={sentences} is unknown: choose one of {', '.join(get_args(Ends))}.")
        if sentences_per_side < 1:
            raise DataError(f"data.sentences_per_side={sentences_per_side} must be at least 1.")
        self.documents = Documents(documents, held_out, seed=seed)
        self.ends, self.per_side, self.seed = sentences, sentences_per_side, seed
        self.max_length = check_max_length(max_length)

    @property
    def form(self) -> ClassFormat:
        return ClassFormat((NEXT, RANDOM), self.max_length)

    def sample_parameters(self) -> Mapping[str, object]:
        return {**self.documents.parameters(), "sentences": self.ends, "sentences_per_side": self.per_side}

    def samples(self) -> Mapping[SplitName, list[LabelledPair]]:
        documents = self.documents.by_split()
        return {name: self._pairs(name, [self._sides(text) for text in documents[name]]) for name in SPLIT_NAMES}

    def _sides(self, document: str) -> list[str]:
        """Return the sentences of a document, so many joined as make a side."""
        parts = (" ".join(part.split()) for part in _BORDERS[self.ends].split(document))
        sentences = [part for part in parts if part]
        starts = range(0, len(sentences), self.per_side)
        return [" ".join(sentences[start : start + self.per_side]) for start in starts]

    def _pairs(self, name: SplitName, documents: Sequence[Sequence[str]]) -> list[LabelledPair]:
        sides = [side for document in documents for side in document]
        owner = np.repeat(np.arange(len(documents)), [len(document) for document in documents])
        first_sentences = np.flatnonzero(owner[:-1] == owner[1:])
        if len(sides) < _FEWEST_SIDES or not len(first_sentences):
            raise DataError(
                f"data.path={self.documents.path} has no two sentences in a row for the {name} split and one from "
                f"elsewhere: give more text, larger shares, or other data.documents and data.sentences."
            )
        generator = np.random.default_rng([self.seed, SPLIT_NAMES.index(name)])
        follows = generator.permutation(len(first_sentences)) < (len(first_sentences) + 1) // 2
        seconds = np.where(follows, first_sentences + 1, _elsewhere(first_sentences, owner, generator))
        return [
            (sides[first], sides[second], NEXT if true else RANDOM)
            for first, second, true in zip(first_sentences.tolist(), seconds.tolist(), follows.tolist(), strict=True)
        ]


def _elsewhere(first_sentences: np.ndarray, owner: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return, for each first side, one of another document; for a single document, neither itself nor the next."""
    if owner[-1] == 0:
        drawn = generator.integers(len(owner) - 2, size=len(first_sentences))
        return drawn + 2 * (drawn >= first_sentences)
    begins, ends = (
        np.searchsorted(owner, owner[first_sentences]),
        np.searchsorted(owner, owner[first_sentences], side="right"),
    )
    drawn = (generator.random(len(first_sentences)) * (len(owner) - (ends - begins))).astype(np.int64)
    array: np.ndarray = np.where(drawn < begins, drawn, drawn + ends - begins)
    return array

"""Published corpora as language-model data: rows of one column, joined where a row is only a line, or divided into
three splits at the conventional positions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar, Literal, get_args

import numpy as np

from headtohead.data.batches.disk_backed_texts import DiskBackedTexts
from headtohead.data.data_source import SPLIT_NAMES, DataError, SplitName
from headtohead.data.row_formats.language_rows import RowPacking
from headtohead.data.row_formats.text_source import BucketedRows, TokenizedRows
from headtohead.data.sources.columns import SampleColumns
from headtohead.data.sources.hub.dataset_reference import DatasetReference
from headtohead.data.sources.hub.hub_tables import HubTables
from headtohead.data.sources.hub.split_choice import PublishedSplits
from headtohead.data.sources.missing_values import MissingRows
from headtohead.data.sources.table_files import TableFormat
from headtohead.field_group import FieldGroup
from headtohead.ranges import Real, Seed

DocumentUnit = Literal["row", "article"]
"""row: each row of the column is a document; article: rows are lines, and ` = Title = ` begins a document."""


@dataclass(frozen=True)
class CorpusText(FieldGroup):
    """The column of a corpus, what a document of it is, and where its text is cut into splits."""

    text_column: str = "text"
    documents: DocumentUnit = "row"
    cut: list[Real] | None = None

    def check(self) -> None:
        """Raise DataError where a field has no meaning."""
        if self.documents not in get_args(DocumentUnit):
            raise DataError(
                f"data.documents={self.documents} is unknown: choose one of {', '.join(get_args(DocumentUnit))}."
            )
        cut = self.cut
        if cut is not None and (len(cut) != len(SPLIT_NAMES) or min(cut) <= 0 or sum(cut) != 100):
            raise DataError(
                f"data.cut={cut} must be three numbers above 0, percent of the bytes for train, validation and test "
                f"that make 100 together, such as [90,5,5]; or null."
            )


class HubCorpus(HubTables):
    """Texts of one column, split as published, or by `cut`: percent of the bytes for train, validation and test, in the
    order of the text."""

    name: ClassVar[str] = "hub_corpus"

    def __init__(
        self,
        *,
        published: DatasetReference = DatasetReference(),
        splits: PublishedSplits = PublishedSplits(),
        text: CorpusText = CorpusText(),
        packed: RowPacking = RowPacking(),
        rows: TokenizedRows = TokenizedRows(),
        seed: Seed = 0,
        drop_shared: bool = False,
        missing: MissingRows = "refuse",
        about: dict[str, str] | None = None,
    ) -> None:
        super().__init__(
            published=published,
            splits=splits,
            columns=SampleColumns(text_column=text.text_column),
            form=TableFormat(packed.context_length, packed.packing),
            rows=BucketedRows(rows.batch_size, rows.tokenizer, rows.vocab_size),
            seed=seed,
            drop_shared=drop_shared,
            missing=missing,
            about=about,
        )
        text.check()
        cut = text.cut
        self.documents, self.cut = text.documents, None if cut is None else [float(part) for part in cut]

    def keep_of_train(self, rows: np.ndarray) -> None:
        """Ignore the indices, since its documents are not rows of its files."""
        del rows

    def sample_parameters(self) -> Mapping[str, object]:
        return {**super().sample_parameters(), "documents": self.documents, "cut": self.cut}

    def samples(self) -> Mapping[SplitName, Sequence[str]]:
        samples = super().samples() if self.cut is None else self._cut_by_bytes(self._whole_text())
        if self.documents == "row":
            return samples
        return {name: self._articles(texts) for name, texts in samples.items()}

    def _articles(self, texts: Sequence[str]) -> Sequence[str]:
        joined = DiskBackedTexts()
        for article in articles(line for text in texts for line in text.splitlines(True)):
            joined.append(article)
        return joined

    def _whole_text(self) -> str:
        return "".join(sample for file in self.files["train"] for sample, _ in self.read(file))

    def _cut_by_bytes(self, text: str) -> dict[SplitName, list[str]]:
        """Divide a text at the last character that ends there or before."""
        assert self.cut is not None
        content = text.encode()
        ends = [_end_of_character(content, round(len(content) * share / 100)) for share in accumulate(self.cut)]
        parts = [content[start:end].decode() for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        for name, part in zip(SPLIT_NAMES, parts, strict=True):
            if not part.strip():
                raise DataError(
                    f"data.cut={self.cut} leaves nothing of {self.published} for the {name} split: change it."
                )
        return {name: [part] for name, part in zip(SPLIT_NAMES, parts, strict=True)}


def articles(lines: Iterable[str]) -> Iterator[str]:
    """Join lines to articles: each begins with a line ` = Title = `, sections with more signs are within."""
    article: list[str] = []
    for line in lines:
        if is_title(line) and article:
            yield "".join(article)
            article = []
        article.append(line)
    if article:
        yield "".join(article)


def is_title(line: str) -> bool:
    """Return whether a line is the title of an article, not of a section within it, whose signs are several."""
    words = line.split()
    return len(words) > 2 and words[0] == words[-1] == "=" and words[1] != "=" and words[-2] != "="


def _end_of_character(text: bytes, index: int) -> int:
    """Return this index, or the end of the last whole character before it."""
    while 0 < index < len(text) and text[index] & 0xC0 == 0x80:
        index -= 1
    return index

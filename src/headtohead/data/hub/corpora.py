"""Published corpora as language-model data: rows of one column, put together again where a row is only a line, or cut
in three where the field has agreed on places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from headtohead.data.contracts import SPLIT_NAMES, DataError, SplitName
from headtohead.data.hub.tables import HubTables
from headtohead.data.keeping import KeptTexts
from headtohead.data.language import Packing
from headtohead.data.tokenizers import TokenizerName
from headtohead.ranges import BatchSize, Length, Probability, Real, Seed, Vocabulary

DocumentUnit = Literal["row", "article"]
"""row: each row of the column is a document; article: rows are lines, and ` = Title = ` begins a document."""


class HubCorpus(HubTables):
    """Texts of one column, split as published, or by `cut`: percent of the bytes for train, validation and test, in the
    order of the text."""

    name: ClassVar[str] = "hub_corpus"

    def __init__(
        self,
        *,
        name: str | None = None,
        subset: str | None = None,
        revision: str | None = None,
        folder: str | None = None,
        train_split: str | None = None,
        validation_split: str | None = None,
        test_split: str | None = None,
        validation_share: Probability = 0.05,
        test_share: Probability = 0.05,
        text_column: str = "text",
        documents: DocumentUnit = "row",
        cut: list[Real] | None = None,
        context_length: Length = 128,
        batch_size: BatchSize = 32,
        tokenizer: TokenizerName = "bpe",
        vocab_size: Vocabulary | None = None,
        packing: Packing = "apart",
        seed: Seed = 0,
        drop_shared: bool = False,
        about: dict[str, str] | None = None,
    ) -> None:
        super().__init__(
            name=name,
            subset=subset,
            revision=revision,
            folder=folder,
            train_split=train_split,
            validation_split=validation_split,
            test_split=test_split,
            validation_share=validation_share,
            test_share=test_share,
            text_column=text_column,
            context_length=context_length,
            packing=packing,
            batch_size=batch_size,
            tokenizer=tokenizer,
            vocab_size=vocab_size,
            seed=seed,
            about=about,
        )
        self.drop_shared = drop_shared
        if documents not in get_args(DocumentUnit):
            raise DataError(
                f"data.documents={documents} is unknown: choose one of {', '.join(get_args(DocumentUnit))}."
            )
        if cut is not None and (len(cut) != len(SPLIT_NAMES) or min(cut) <= 0 or sum(cut) != 100):
            raise DataError(
                f"data.cut={cut} must be three numbers above 0, percent of the bytes for train, validation and test "
                f"that make 100 together, such as [90,5,5]; or null."
            )
        self.documents, self.cut = documents, None if cut is None else [float(part) for part in cut]

    def keep_of_train(self, rows: np.ndarray) -> None:
        """Its documents are no rows of its files."""
        del rows

    def sample_parameters(self) -> Mapping[str, Any]:
        return {**super().sample_parameters(), "documents": self.documents, "cut": self.cut}

    def samples(self) -> Mapping[SplitName, Sequence[str]]:
        samples = super().samples() if self.cut is None else self._cut_by_bytes(self._whole_text())
        if self.documents == "row":
            return samples
        return {name: self._articles(texts) for name, texts in samples.items()}

    def _articles(self, texts: Sequence[str]) -> Sequence[str]:
        kept = KeptTexts()
        for article in articles(line for text in texts for line in text.splitlines(True)):
            kept.append(article)
        return kept

    def _whole_text(self) -> str:
        return "".join(sample for file in self.files["train"] for sample, _ in self.read(file))

    def _cut_by_bytes(self, text: str) -> dict[SplitName, list[str]]:
        """At the last character that ends there or before."""
        assert self.cut is not None
        whole = text.encode()
        ends = [_end_of_character(whole, round(len(whole) * share / 100)) for share in accumulate(self.cut)]
        parts = [whole[start:end].decode() for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        for name, part in zip(SPLIT_NAMES, parts, strict=True):
            if not part.strip():
                raise DataError(
                    f"data.cut={self.cut} leaves nothing of {self.published} for the {name} split: change it."
                )
        return {name: [part] for name, part in zip(SPLIT_NAMES, parts, strict=True)}


def articles(lines: Iterable[str]) -> Iterator[str]:
    """Lines put together to articles: each begins with a line ` = Title = `, sections with more signs are within."""
    article: list[str] = []
    for line in lines:
        if is_title(line) and article:
            yield "".join(article)
            article = []
        article.append(line)
    if article:
        yield "".join(article)


def is_title(line: str) -> bool:
    """Of an article, not of a section within it, whose signs are several."""
    words = line.split()
    return len(words) > 2 and words[0] == words[-1] == "=" and words[1] != "=" and words[-2] != "="


def _end_of_character(text: bytes, place: int) -> int:
    """This place, or the end of the last whole character before it."""
    while 0 < place < len(text) and text[place] & 0xC0 == 0x80:
        place -= 1
    return place

"""Tagged words as in CoNLL-2003 (https://aclanthology.org/W03-0419): a word a line with its tag, a blank line after a
sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from headtohead.data.classes import check_class_names
from headtohead.data.contracts import DataError
from headtohead.data.files import check_shares, decoded
from headtohead.data.tables.file_samples import FileSamples
from headtohead.data.tagged import Tagged, TaggedForm
from headtohead.data.tokenizers import TokenizerName
from headtohead.ranges import BatchSize, Column, Length, Probability, Seed, Vocabulary

_DOCUMENT = "-DOCSTART-"
"""What stands in place of a word where a new document begins."""


class ConllFiles(FileSamples):
    """Fields of a line are counted from 0, or from the end with -1."""

    name: ClassVar[str] = "conll"
    kind = "tagged_text"
    suffixes = (".conll", ".bio", ".iob", ".tsv", ".txt")

    def __init__(
        self,
        *,
        path: str | None = None,
        validation_path: str | None = None,
        test_path: str | None = None,
        validation_share: Probability = 0.05,
        test_share: Probability = 0.05,
        word_field: Column = 0,
        tag_field: Column = -1,
        encoding: str = "utf-8",
        class_names: list[str] | None = None,
        max_length: Length | None = None,
        batch_size: BatchSize = 32,
        tokenizer: TokenizerName = "bpe",
        vocab_size: Vocabulary | None = None,
        bucket_by_length: bool = True,
        seed: Seed = 0,
        drop_shared: bool = False,
    ) -> None:
        super().__init__(
            paths={"train": path, "validation": validation_path, "test": test_path},
            shares=check_shares(validation_share, test_share),
            max_length=max_length,
            seed=seed,
            batch_size=batch_size,
            tokenizer=tokenizer,
            vocab_size=vocab_size,
            bucket_by_length=bucket_by_length,
        )
        self.drop_shared = drop_shared
        self.word_field, self.tag_field, self.encoding = word_field, tag_field, encoding
        self.class_names = check_class_names(class_names)

    @property
    def form(self) -> TaggedForm:
        return TaggedForm(self.class_names, self.max_length)

    def sample_parameters(self) -> Mapping[str, Any]:
        own = {name: getattr(self, name) for name in ("word_field", "tag_field", "encoding")}
        return {**super().sample_parameters(), **own}

    def read(self, file: Path) -> Iterator[tuple[Tagged, int]]:
        """Sentences with the numbers of their first lines."""
        words: list[str] = []
        tags: list[str] = []
        begins = 1
        lines = decoded(file, self.encoding).removeprefix("\ufeff").split("\n")
        for number, line in enumerate((*lines, ""), 1):
            fields = line.split()
            if fields and fields[0] != _DOCUMENT:
                begins = begins if words else number
                word, tag = self._word_and_tag(fields, file, number)
                words.append(word)
                tags.append(tag)
            elif words:
                yield (tuple(words), tuple(tags)), begins
                words, tags = [], []

    def _word_and_tag(self, fields: list[str], file: Path, number: int) -> tuple[str, str]:
        if len(fields) < 2:
            raise DataError(f"{file}, line {number} has one field, and must have a word and its tag: correct the line.")
        try:
            return fields[self.word_field], fields[self.tag_field]
        except IndexError as error:
            raise DataError(
                f"{file}, line {number} has {len(fields)} fields, and data.word_field={self.word_field} and "
                f"data.tag_field={self.tag_field} are to be read: correct the line, or one of them."
            ) from error

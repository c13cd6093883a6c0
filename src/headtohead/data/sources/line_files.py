"""Files of lines: tagged words as in CoNLL-2003 (https://aclanthology.org/W03-0419), and translations as two files
that are aligned line by line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, ClassVar

from headtohead.data.data_source import DataError
from headtohead.data.row_formats.class_names import check_class_names
from headtohead.data.row_formats.tagged import TagFormat, Tagged
from headtohead.data.row_formats.text_pairs import Pair, PairFormat
from headtohead.data.row_formats.text_source import BucketedRows
from headtohead.data.sources.file_samples import FileSamples
from headtohead.data.sources.local_files import FileSplits, content_digest, decoded, suffix_of
from headtohead.files.safe_read import lines_of
from headtohead.ranges import Length, Range, Seed

_DOCUMENT = "-DOCSTART-"
"""The token that stands in place of a word where a new document begins."""


_ANNOTATED = ".conllu"
"""Files of ten columns with comments, as of Universal Dependencies."""
_LINE = re.compile(r".*\n?")
_ENTITY = re.compile(r"O|[BIESLUM]-\S+")
_OF_A_TAG = 5
"""The fewest words for each tag, on average, in lines that are read as tagged words."""


def are_tagged(text: str) -> bool:
    """Return whether lines are words with their tags, in sentences that blank lines end: the last of as many fields is
    that of an entity, or one of few."""
    tags: Counter[str] = Counter()
    num_fields, has_blank, ends_blank = 0, False, False
    for match in _LINE.finditer(text):  # the first line of other text says so, and the rest of a large file is not read
        fields = match[0].split()
        has_blank, ends_blank = has_blank or ends_blank, not fields
        if not fields or fields[0] == _DOCUMENT:
            continue
        if len(fields) != (num_fields := num_fields or len(fields)) or num_fields < 2:
            return False
        tags[fields[-1]] += 1
    if len(tags) < 2 or not has_blank:
        return False
    return all(map(_ENTITY.fullmatch, tags)) or len(tags) * _OF_A_TAG <= tags.total()


def refuse_annotated(file: Path) -> None:
    """Raise DataError for a file of Universal Dependencies, with the command that makes tagged words of it."""
    if suffix_of(file) == _ANNOTATED:
        raise DataError(
            f"{file} is of ten columns with comments, of which a tag is one: write the words and their tags by "
            f"`grep -vE '^(#|[0-9]+[-.])' FILE.conllu | cut -f2,4 > FILE.conll`."
        )


class ConllFiles(FileSamples):
    """Fields of a line are counted from 0, or from the end with -1."""

    name: ClassVar[str] = "conll"
    kind = "tagged_text"
    suffixes = (".conll", ".bio", ".iob", ".tsv", ".txt")

    def __init__(
        self,
        *,
        files: FileSplits = FileSplits(),
        word_field: Annotated[int, Range(-65_536, 65_536)] = 0,
        tag_field: Annotated[int, Range(-65_536, 65_536)] = -1,
        encoding: str = "utf-8",
        class_names: list[str] | None = None,
        max_length: Length | None = None,
        rows: BucketedRows = BucketedRows(),
        seed: Seed = 0,
        drop_shared: bool = False,
    ) -> None:
        super().__init__(files, rows, max_length=max_length, seed=seed, drop_shared=drop_shared)
        self.word_field, self.tag_field, self.encoding = word_field, tag_field, encoding
        self.class_names = check_class_names(class_names)

    @property
    def form(self) -> TagFormat:
        return TagFormat(self.class_names, self.max_length)

    def sample_parameters(self) -> Mapping[str, object]:
        own = {name: getattr(self, name) for name in ("word_field", "tag_field", "encoding")}
        return {**super().sample_parameters(), **own}

    def read(self, file: Path) -> Iterator[tuple[Tagged, int]]:
        """Yield sentences with the numbers of their first lines."""
        words: list[str] = []
        tags: list[str | None] = []
        begins = 1
        refuse_annotated(file)
        self.begin_count(file)
        lines = lines_of(decoded(file, self.encoding))
        for number, line in enumerate((*lines, ""), 1):
            fields = line.split()
            if fields and fields[0] != _DOCUMENT:
                begins = begins if words else number
                word, tag = self._word_and_tag(fields, file, number)
                words.append(word)
                tags.append(tag)
            elif words:
                if self.is_complete({"text": words, "tags": tags}, file, begins):
                    yield (tuple(words), tuple(tag for tag in tags if tag is not None)), begins
                words, tags = [], []

    def _word_and_tag(self, fields: list[str], file: Path, number: int) -> tuple[str, str | None]:
        """Return the word of a line and its tag; None where there is none and its sentence is to be left out."""
        if len(fields) < 2 and self.missing == "drop":
            return fields[0], None
        if len(fields) < 2:
            raise DataError(
                f"{file}, line {number} has one field, and must have a word and its tag: correct the line, or leave "
                "out all such sentences by data.missing=drop."
            )
        try:
            return fields[self.word_field], fields[self.tag_field]
        except IndexError as error:
            raise DataError(
                f"{file}, line {number} has {len(fields)} fields, and data.word_field={self.word_field} and "
                f"data.tag_field={self.tag_field} are to be read: correct the line, or one of them."
            ) from error


class ParallelText(FileSamples):
    """Files are found by the suffix of the source language; beside each is the one of the target language."""

    name: ClassVar[str] = "parallel_text"
    kind = "pairs_of_text"

    def __init__(
        self,
        *,
        files: FileSplits = FileSplits(),
        source: str | None = None,
        target: str | None = None,
        encoding: str = "utf-8",
        max_length: Length | None = None,
        rows: BucketedRows = BucketedRows(),
        seed: Seed = 0,
        drop_shared: bool = False,
    ) -> None:
        super().__init__(files, rows, max_length=max_length, seed=seed, drop_shared=drop_shared)
        if source is None or target is None or source == target:
            raise DataError(
                f"data.source={source} and data.target={target} must be two endings of files, such as de and en."
            )
        self.suffixes = (f".{source}".lower(),)
        self.target_suffix, self.encoding = f".{target}", encoding

    @property
    def form(self) -> PairFormat:
        return PairFormat(self.max_length)

    def sample_parameters(self) -> Mapping[str, object]:
        partners = [content_digest(self._partner(file)) for files in self.files.values() for file in files]
        return {**super().sample_parameters(), "partners": partners, "encoding": self.encoding}

    def read(self, file: Path) -> Iterator[tuple[Pair, int]]:
        sources, targets = self._lines(file), self._lines(self._partner(file))
        if len(sources) != len(targets):
            raise DataError(
                f"{file} has {len(sources)} lines and {self._partner(file)} has {len(targets)}: they must go together "
                f"line by line."
            )
        self.begin_count(file)
        for number, (source, target) in enumerate(zip(sources, targets, strict=True), 1):
            if self.is_complete({"source": source, "target": target}, file, number):
                yield (source, target), number

    def _lines(self, file: Path) -> list[str]:
        return lines_of(decoded(file, self.encoding))

    def _partner(self, file: Path) -> Path:
        partner = file.with_suffix(self.target_suffix)
        if not partner.is_file():
            raise DataError(f"{file} has no translation beside it: {partner} does not exist; correct data.target.")
        return partner

"""Comma- or tab-separated files (RFC 4180, https://www.rfc-editor.org/rfc/rfc4180)."""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from headtohead.data.contracts import DataError
from headtohead.data.files import decoded
from headtohead.data.language import Packing
from headtohead.data.tables.json_files import JsonFiles
from headtohead.data.tables.table_files import Columnar, TableFiles
from headtohead.data.tokenizers import TokenizerName
from headtohead.ranges import BatchSize, Length, Probability, Seed, Vocabulary

MOST_COLUMNS = 4_096
"""More than any table of texts has; a wrong delimiter makes as many."""


class CsvFiles(TableFiles):
    """The first line names the columns, unless `column_names` does. Lines end and quotes stand as in RFC 4180; in
    files of tabs a quote is a letter like any other, as it is in most of them."""

    name: ClassVar[str] = "csv"
    suffixes = (".csv", ".tsv")

    def __init__(
        self,
        *,
        path: str | None = None,
        validation_path: str | None = None,
        test_path: str | None = None,
        validation_share: Probability = 0.05,
        test_share: Probability = 0.05,
        share_by: str | list[str] | None = None,
        delimiter: str | None = None,
        quoted: bool | None = None,
        column_names: list[str] | None = None,
        encoding: str = "utf-8",
        text_column: str | None = None,
        second_text_column: str | None = None,
        label_column: str | None = None,
        score_column: str | None = None,
        tags_column: str | None = None,
        question_column: str | None = None,
        context_column: str | None = None,
        answer_column: str | None = None,
        answer_start_column: str | None = None,
        id_column: str | None = None,
        source_column: str | None = None,
        target_column: str | None = None,
        class_names: list[str] | None = None,
        max_length: Length | None = None,
        stride: Length | None = None,
        context_length: Length = 128,
        packing: Packing = "apart",
        batch_size: BatchSize = 32,
        tokenizer: TokenizerName = "bpe",
        vocab_size: Vocabulary | None = None,
        bucket_by_length: bool = True,
        seed: Seed = 0,
        drop_shared: bool = False,
    ) -> None:
        super().__init__(
            path=path,
            validation_path=validation_path,
            test_path=test_path,
            validation_share=validation_share,
            test_share=test_share,
            share_by=share_by,
            text_column=text_column,
            second_text_column=second_text_column,
            label_column=label_column,
            score_column=score_column,
            tags_column=tags_column,
            question_column=question_column,
            context_column=context_column,
            answer_column=answer_column,
            answer_start_column=answer_start_column,
            id_column=id_column,
            source_column=source_column,
            target_column=target_column,
            class_names=class_names,
            max_length=max_length,
            stride=stride,
            context_length=context_length,
            packing=packing,
            batch_size=batch_size,
            tokenizer=tokenizer,
            vocab_size=vocab_size,
            bucket_by_length=bucket_by_length,
            seed=seed,
        )
        self.drop_shared = drop_shared
        if delimiter is not None and len(delimiter) != 1:
            raise DataError(
                f"data.delimiter={delimiter!r} must be one character, such as ';'; null: by the file's name."
            )
        self.delimiter, self.quoted, self.header, self.encoding = delimiter, quoted, column_names, encoding

    def sample_parameters(self) -> Mapping[str, Any]:
        own = {name: getattr(self, name) for name in ("delimiter", "quoted", "header", "encoding")}
        return {**super().sample_parameters(), **own}

    def column_names(self, file: Path) -> Sequence[str]:
        return self._header(file, self._lines(file))

    def columns_of(self, file: Path, names: Sequence[str]) -> Columnar:
        lines = self._lines(file)
        header = self._header(file, lines) if self.header is None else self.header
        places = {name: header.index(name) for name in names}
        columns: dict[str, list[str]] = {name: [] for name in names}
        numbers: list[int] = []
        for number, fields in lines:
            if len(fields) != len(header):
                raise DataError(
                    f"{file}, line {number} has {len(fields)} fields, and the columns are {len(header)} "
                    f"({', '.join(header)}): correct the line, or data.delimiter, data.quoted or data.column_names."
                )
            numbers.append(number)
            for name, place in places.items():
                columns[name].append(fields[place])
        return Columnar(columns, numbers)

    def otherwise(self, file: Path) -> str:
        if file.suffix.lower() in JsonFiles.suffixes:
            return "; or read it by data=json"
        if self.header is not None:
            return ""
        return "; or, where its first line is a row already, name its columns, data.column_names=[text,label]"

    def _header(self, file: Path, lines: Iterator[tuple[int, list[str]]]) -> Sequence[str]:
        if self.header is not None:
            return self.header
        first = next(lines, None)
        if first is None:
            raise DataError(f"{file} is empty: it must begin with a line that names its columns.")
        names = [name.strip() for name in first[1]]
        if len(names) > MOST_COLUMNS:
            raise DataError(
                f"{file} has {len(names):,} columns, and {MOST_COLUMNS:,} are the most: take out those that no field "
                "of data names, or correct data.delimiter."
            )
        if twice := next((name for name, times in Counter(names).items() if times > 1), None):
            raise DataError(
                f"{file} has two columns {twice!r}: give each its own name in the first line, or, where that is a row "
                "already, name them by data.column_names."
            )
        return names

    def _lines(self, file: Path) -> Iterator[tuple[int, list[str]]]:
        """Where each line of the table begins in the file, and its fields; blank lines are left out."""
        text = decoded(file, self.encoding).removeprefix("\ufeff")
        delimiter = self.delimiter or ("\t" if file.suffix.lower() == ".tsv" else ",")
        quoted = delimiter != "\t" if self.quoted is None else self.quoted
        csv.field_size_limit(sys.maxsize)
        dialect: dict[str, Any] = {"quoting": csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE, "strict": True}
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, **dialect)
        begins = 1
        try:
            for fields in reader:
                if fields:
                    yield begins, fields
                begins = reader.line_num + 1
        except csv.Error as error:
            raise DataError(
                f"{file}, line {begins} is not a line of fields ({error}): correct it, or data.delimiter, or give "
                f"data.quoted=false where quotes are letters."
            ) from error

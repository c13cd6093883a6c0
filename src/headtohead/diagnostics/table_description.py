"""A description of a table: its columns, the part that each seems to play, and what a run would refuse of its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import cast

from headtohead.config.compose.composition import compose_checked
from headtohead.config.origins.from_weights import build_data
from headtohead.data.data_source import DataError, DataKind, SplitName
from headtohead.data.row_formats.class_names import Classes, Label
from headtohead.data.row_formats.tagged import Tagged, tag_classes
from headtohead.data.sources.columns import kind_of, names_in_short, sample_of
from headtohead.data.sources.csv_files import CsvDialect, CsvFiles
from headtohead.data.sources.json_files import JsonFiles
from headtohead.data.sources.local_files import FileSplits, HeldOutShares
from headtohead.data.sources.missing_values import is_blank_document, missing_parts
from headtohead.data.sources.parquet_files import ParquetFiles
from headtohead.data.sources.table_files import TableFiles
from headtohead.data.splits.left_out_rows import LeftOutFacts, LeftOutRows
from headtohead.diagnostics.column_guess import ColumnFacts, facts_of, first_line_is_a_row, guessed_parts
from headtohead.diagnostics.column_remarks import remarks_on_columns
from headtohead.diagnostics.described_data import DataDescription, ReadingOptions, fitting_context, reading_overrides
from headtohead.diagnostics.tables_without_text import without_a_text
from headtohead.errors import UsageError
from headtohead.records.left_out import left_out_sentence

TABLES: Mapping[str, type[TableFiles]] = {"csv": CsvFiles, "json": JsonFiles, "parquet": ParquetFiles}
_NO_HEADER = ("text", "label")
_LONG = 4_096
"""Letters; a text of more costs a newcomer's first run minutes and gigabytes."""
_CUT = 512
"""Tokens that are left of it."""


_FEW_TEST_ROWS = 10
"""Fewer are remarked on, with the way to more."""
_LARGER_SHARE = 0.25


@dataclass
class _Incomplete:
    """Rows that lack a value: those that are refused, and those that dropping leaves out, blank documents too."""

    refused: LeftOutRows = field(default_factory=LeftOutRows)
    dropped: LeftOutRows = field(default_factory=LeftOutRows)

    def open(self, file: Path) -> None:
        """Forget what was counted of a file, which is read now."""
        self.refused.open(file)
        self.dropped.open(file)

    def count(self, file: Path, missing: Sequence[str], *, is_blank: bool) -> None:
        """Count a row of a file."""
        self.refused.count(file, () if is_blank else missing)
        self.dropped.count(file, missing)

    def facts(self) -> LeftOutFacts:
        """Return the counts of a run that leaves them out; empty where it has no reason to."""
        return self.dropped.facts() if self.refused.facts() else {}


def describe_table(choice: str, path: Path, reading: ReadingOptions) -> DataDescription:
    """Return what a table, or a folder of them, holds."""
    table, reading, content, remarks = _named_columns(choice, path, reading)
    facts = tuple(facts_of(name, values) for name, values in content.items())
    num_rows = len(next(iter(content.values())))
    if not num_rows:
        shown = names_in_short(list(content))
        raise UsageError(f"{table.files['train'][0]} has the columns {shown} and no row: give a file with rows")
    kind, parts = _parts(choice, path, facts, content)
    left_out = _Incomplete()
    samples, faults = _samples(table, kind, parts, left_out)
    remarks += remarks_on(len(samples) + len(faults), faults)
    counts = Counter(str(sample[-1]) for sample in samples if isinstance(sample, tuple) and "label" in parts)
    if len(counts) == 1:  # nothing to tell apart
        remarks.append(f"{parts['label']} is {next(iter(counts))} in every row, so that there is no class to learn")
        kind, parts, counts = "language", {"text": parts["text"]}, Counter()
        left_out = _Incomplete()
        samples, faults = _samples(table, kind, parts, left_out)
    remarks += remarks_on_columns(kind, parts, facts, content)
    refused = [*faults, *(in_other_files := _remarks_on_held_out(table, kind, parts, samples, left_out))]
    remarks += in_other_files
    fitted, about_length = _cutting(kind, samples)
    if kind == "language":
        fitted = fitting_context(
            [one if isinstance(one, str) else str(cast("tuple[object, ...]", one)[0]) for one in samples],
            HeldOutShares(),
        )
    few = _on_few_rows(table, len(samples)) if kind == "labelled_text" and not refused else []
    dropping, about_missing = dropping_of(left_out.facts())
    remarks += about_missing
    named = {f"{part}_column": name for part, name in parts.items()}
    overrides = reading_overrides(choice, path, kind, {**reading.named(), **named, **fitted, **dropping})
    return DataDescription(
        str(path),
        choice,
        kind,
        {split: _num_rows(table, files) for split, files in table.files.items() if files},
        overrides,
        facts,
        dict(counts.most_common()),
        (*remarks, *about_length, *few, *(() if refused else _refusal(overrides))),
    )


def _on_few_rows(table: TableFiles, num_rows: int) -> list[str]:
    """Return what a test of few rows can tell, where it is a share of them."""
    shares = HeldOutShares()
    test_rows = max(1, round(shares.test_share * num_rows))
    if table.files.get("test") or test_rows >= _FEW_TEST_ROWS:
        return []
    those = "one is" if test_rows == 1 else f"{test_rows} are"
    drawn = [name for name in shares.shares() if not table.files.get(name)]
    larger = " ".join(f"data.{name}_share={_LARGER_SHARE}" for name in drawn)
    return [
        f"of {num_rows} rows {those} for the test, so that one answer is {1 / test_rows:.0%} of the accuracy: "
        f"{larger} gives it more"
    ]


def dropping_of(facts: LeftOutFacts) -> tuple[dict[str, object], list[str]]:
    """Return the field by which a run leaves out rows that lack a value, where there are some, and the remark on it."""
    sentence = left_out_sentence(facts)
    if sentence is None:
        return {}, []
    remark = f"{sentence} by data.missing=drop; data.missing=refuse, the default, names the first of them"
    return {"missing": "drop"}, [remark]


def _refusal(overrides: Sequence[str]) -> Iterator[str]:
    """Yield what a run refuses of its rows as a whole: too few for three splits, for instance."""
    source = build_data(compose_checked("train", list(overrides)))
    assert isinstance(source, TableFiles), "the overrides name the same table"
    try:
        source.samples()
    except DataError as error:
        yield f"a run refuses this: {error}"


def _named_columns(
    choice: str, path: Path, reading: ReadingOptions
) -> tuple[TableFiles, ReadingOptions, dict[str, Sequence[object]], list[str]]:
    """Return what `_opened` returns, with names of their own for the columns of a table whose first line is a row, and
    the remark on it."""
    table, reading, header, content = _opened(choice, path, reading)
    if choice != "csv" or reading.column_names is not None or not first_line_is_a_row(header, content):
        return table, reading, content, []
    names = list(_NO_HEADER) if len(header) == 2 else [f"column_{number}" for number in range(1, len(header) + 1)]
    without_header = _table(choice, path, replace(reading, column_names=names))
    content = dict(zip(names, _columns(without_header, names), strict=True))
    if len(header) == 2:
        names = _in_order(names, content)
        content = dict(zip(names, content.values(), strict=True))
    reading = replace(reading, column_names=names)
    remark = f"its first line is a row already, so that its columns get names: {', '.join(names)}"
    return _table(choice, path, reading), reading, content, [remark]


def _opened(
    choice: str, path: Path, reading: ReadingOptions
) -> tuple[TableFiles, ReadingOptions, list[str], dict[str, Sequence[object]]]:
    """Return the table, the options by which it is read, its columns' names and their values."""
    table = _table(choice, path, reading)
    file = table.files["train"][0]
    if isinstance(table, CsvFiles) and (likely := table.likely_delimiter(file)) is not None:
        reading = replace(reading, delimiter=likely)
        table = _table(choice, path, reading)
    header = list(table.column_names(file))
    if not header:
        raise UsageError(f"{file} has no column: give a file with rows")
    return table, reading, header, dict(zip(header, _columns(table, header), strict=True))


def _table(choice: str, path: Path, reading: ReadingOptions) -> TableFiles:
    files = FileSplits(path=str(path))
    if choice == "csv":
        names = None if reading.column_names is None else list(reading.column_names)
        return CsvFiles(
            files=files,
            dialect=CsvDialect(reading.delimiter, reading.quoted, names, reading.encoding or CsvDialect.encoding),
        )
    if named := reading.named():
        unread = " and ".join(f"data.{name}" for name in named)
        raise UsageError(f"{unread} cannot be chosen for data={choice}, whose files say it themselves: leave it out")
    return TABLES[choice](files=files)


def _parts(
    choice: str, path: Path, facts: Sequence[ColumnFacts], content: Mapping[str, Sequence[object]]
) -> tuple[DataKind, dict[str, str]]:
    guessed = guessed_parts(facts, content)
    if guessed is None:
        raise UsageError(without_a_text(choice, path, facts, content))
    return guessed


def _cutting(kind: DataKind, samples: Sequence[object]) -> tuple[dict[str, object], list[str]]:
    """Return the length to cut to where texts are very long, and the sentence about it."""
    if kind in ("language", "questions", "tagged_text"):
        return {}, []
    texts = (part for sample in samples for part in cast("tuple[object, ...]", sample) if isinstance(part, str))
    longest = max(map(len, texts), default=0)
    if longest <= _LONG:
        return {}, []
    sentence = f"its longest text has {longest:,} letters: data.max_length={_CUT} cuts it, give more as memory allows"
    return {"max_length": _CUT}, [sentence]


HELD_OUT: tuple[SplitName, ...] = ("validation", "test")


def remarks_on(num_rows: int, faults: Sequence[str], split: str = "") -> list[str]:
    those = f"{split} rows" if split else "rows"
    return [f"{len(faults):,} of {num_rows:,} {those} cannot be read: {faults[0]}"] if faults else []


def _remarks_on_held_out(
    table: TableFiles, kind: DataKind, parts: Mapping[str, str], train: Sequence[object], left_out: _Incomplete
) -> list[str]:
    """Say what a run would refuse of the files for validation and test, whose classes are those of the train split."""
    remarks = []
    try:
        classes = _classes_of(kind, train)
        for split in HELD_OUT:
            samples, faults = _samples(table, kind, parts, left_out, split, classes)
            remarks += remarks_on(len(samples) + len(faults), faults, split)
    except DataError as error:  # of a file as a whole
        remarks.append(str(error))
    return remarks


def _classes_of(kind: DataKind, train: Sequence[object]) -> Classes:
    if kind == "tagged_text":
        return tag_classes(cast("Sequence[Tagged]", train))
    return Classes.from_labels(label for sample in train for label in _labels(kind, sample))


def _labels(kind: DataKind, sample: object) -> Sequence[Label]:
    """Return the tags of a sample, or its label, or nothing."""
    if kind == "tagged_text":
        return cast("Tagged", sample)[1]
    return [cast("tuple[Label, ...]", sample)[-1]] if kind == "labelled_text" else []


def check_labels(kind: DataKind, sample: object, classes: Classes, where: Callable[[], str]) -> None:
    for label in _labels(kind, sample):
        classes.number_of(label, "tag" if kind == "tagged_text" else "label", where)


def _samples(
    table: TableFiles,
    kind: DataKind,
    parts: Mapping[str, str],
    left_out: _Incomplete,
    split: SplitName = "train",
    classes: Classes | None = None,
) -> tuple[list[object], list[str]]:
    """Return the samples of a split as a run reads them, and what is wrong with its other rows; those that lack a value
    are counted. Labels are compared with the classes, where these are known."""
    samples: list[object] = []
    faults: list[str] = []
    for file in table.files.get(split, ()):
        kind_of(parts, table.column_names(file), file=str(file))
        read = table.columns_of(file, list(dict.fromkeys(parts.values())))
        left_out.open(file)
        for index, number in enumerate(read.numbers):
            row = {part: read.columns[name][index] for part, name in parts.items()}
            where = partial(table.where, file, number)
            missing = missing_parts(row)
            left_out.count(file, missing, is_blank=kind == "language" and is_blank_document(row))
            if missing:
                continue
            try:
                sample = sample_of(kind, row, where)
                if classes is not None:
                    check_labels(kind, sample, classes, where)
                samples.append(sample)
            except DataError as error:
                faults.append(str(error))
    return samples, faults


def _in_order(names: Sequence[str], content: Mapping[str, Sequence[object]]) -> list[str]:
    """The text is the column of more words."""
    first, second = (facts_of(name, values).words for name, values in content.items())
    return list(names) if first >= second else list(reversed(names))


def _columns(table: TableFiles, names: Sequence[str]) -> list[Sequence[object]]:
    """Return the values of these columns of the first file."""
    columns = table.columns_of(table.files["train"][0], list(names)).columns
    return [columns[name] for name in names]


def _num_rows(table: TableFiles, files: Sequence[Path]) -> int:
    """Count the rows of a split's files; a file without a header is read by the names that the table was given."""
    return sum(len(table.columns_of(file, [table.column_names(file)[0]]).numbers) for file in files)

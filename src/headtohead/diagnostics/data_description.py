"""`h2h data PATH`: what a file or folder holds, what could be asked of it, and the command that trains on it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

from headtohead.config.compose.composition import USUAL_TASKS, model_for
from headtohead.data.data_source import DataError, DataKind, SplitName
from headtohead.data.row_formats.class_names import Classes, Label
from headtohead.data.row_formats.tagged import Tagged, tag_classes
from headtohead.data.row_formats.text_source import check_text
from headtohead.data.sources.columns import kind_of, sample_of
from headtohead.data.sources.csv_files import CsvDialect, CsvFiles
from headtohead.data.sources.image_folder import SUFFIXES as IMAGES
from headtohead.data.sources.json_files import JsonFiles
from headtohead.data.sources.local_files import FileSplits, decoded, existing_path, files_below, suffix_of
from headtohead.data.sources.parquet_files import ParquetFiles
from headtohead.data.sources.table_files import TableFiles
from headtohead.diagnostics.column_guess import (
    ColumnFacts,
    facts_of,
    first_line_is_a_row,
    guessed_parts,
)
from headtohead.errors import UsageError

_TABLES: Mapping[str, type[TableFiles]] = {"csv": CsvFiles, "json": JsonFiles, "parquet": ParquetFiles}
_NO_HEADER = ("text", "label")
_TEXTS = {"text", "second_text", "source", "target", "question", "context"}
"""Parts of a row that may not be empty."""
_TAGGED = (".conll", ".bio", ".iob")
_SHORT_LINE = 400
"""Letters; a text whose lines are shorter on average may be one document a line."""
_EXAMPLE = "a file or a folder: reviews.csv, book.txt, images/"


@dataclass(frozen=True)
class DataDescription:
    """A description says what lies at a path, and how it is trained on."""

    path: str
    """The file or folder that was read."""
    choice: str
    """The choice of the group data: csv, text, image_folder ..."""
    kind: DataKind
    """The kind of rows: what is in one, and what is to be predicted."""
    num_rows: Mapping[str, int]
    """The number of rows by split, where files have one; otherwise all are in train."""
    overrides: tuple[str, ...]
    """The overrides by which a run reads it: the data, their columns, the task and a model."""
    columns: tuple[ColumnFacts, ...] = ()
    """The facts of each column of a table."""
    classes: Mapping[str, int] = field(default_factory=dict)
    """Rows of each class or tag, the most frequent first."""
    remarks: tuple[str, ...] = ()
    """The remarks to be read before training on it."""

    @property
    def task(self) -> str:
        """Return the task of the command that trains on it."""
        return next(word.partition("=")[2] for word in self.overrides if word.startswith("task="))

    @property
    def chance(self) -> float | None:
        """Return the share of the most frequent class, which a guess reaches."""
        return max(self.classes.values()) / sum(self.classes.values()) if self.classes else None

    @property
    def command(self) -> str:
        """Return the command that trains on it."""
        return f"h2h train {shlex.join(self.overrides)}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and lists, for JSON."""
        return {**asdict(self), "task": self.task, "chance": self.chance, "command": self.command}


def describe(path: str | Path) -> DataDescription:
    """Look into a file or a folder; raise UsageError where nothing in it is known."""
    location = existing_path(str(path), "the path", _EXAMPLE)
    below = [] if location.is_file() else location.rglob("*")
    suffixes = {file.suffix.lower() for file in below if file.is_file()} or {suffix_of(location)}
    for choice, table in _TABLES.items():
        if any(suffix in suffixes for suffix in table.suffixes):
            return _described_table(choice, location)
    if any(suffix in suffixes for suffix in _TAGGED):
        return _described_tags(location)
    if any(suffix in suffixes for suffix in IMAGES):
        return _described_images(location)
    if (pair := _languages(location)) is not None:
        return _described_pairs(location, pair)
    if ".txt" in suffixes or location.is_file():
        return _described_text(location)
    known = sorted({suffix for table in _TABLES.values() for suffix in table.suffixes} | {".txt", *_TAGGED, *IMAGES})
    raise UsageError(f"{path} holds no file of a known kind: give one ending in {', '.join(known)}")


def _described_table(choice: str, path: Path) -> DataDescription:
    table = _TABLES[choice](files=FileSplits(path=str(path)))
    file = table.files["train"][0]
    header = list(table.column_names(file))
    if not header:
        raise UsageError(f"{file} has no column: give a file with rows")
    remarks: list[str] = []
    named: tuple[str, ...] = ()
    content = _columns(table, file, header)
    if choice == "csv" and first_line_is_a_row(header, content):
        names = list(_NO_HEADER) if len(header) == 2 else [f"column_{number}" for number in range(1, len(header) + 1)]
        table = CsvFiles(files=FileSplits(path=str(path)), dialect=CsvDialect(column_names=names))
        content = _columns(table, file, names)
        if len(header) == 2:
            names = _in_order(names, content)
            content = dict(zip(names, content.values(), strict=True))
        named = (f"data.column_names=[{','.join(names)}]",)
        remarks.append(f"its first line is a row already, so that its columns get names: {', '.join(names)}")
    facts = tuple(facts_of(name, values) for name, values in content.items())
    num_rows = len(next(iter(content.values())))
    if not num_rows:
        raise UsageError(f"{file} has the columns {', '.join(content)} and no row: give a file with rows")
    guessed = guessed_parts(facts, num_rows)
    if guessed is None:
        raise UsageError(
            f"{path} has the columns {', '.join(content)}, and none of them is a text: name the parts yourself, "
            f"data={choice} data.path={path} data.text_column=... (h2h list data)"
        )
    kind, parts = guessed
    samples, faults = _samples(table, kind, parts)
    remarks += _remarks_on(len(samples) + len(faults), faults)
    counts = Counter(str(sample[-1]) for sample in samples if isinstance(sample, tuple) and "label" in parts)
    if len(counts) == 1:  # nothing to tell apart
        remarks.append(f"{parts['label']} is {next(iter(counts))} in every row, so that there is no class to learn")
        kind, parts, counts = "language", {"text": parts["text"]}, Counter()
    remarks += _remarks_on_held_out(table, kind, parts, samples)
    columns = tuple(f"data.{part}_column={name}" for part, name in parts.items())
    return DataDescription(
        str(path),
        choice,
        kind,
        {split: _num_rows(table, files) for split, files in table.files.items() if files},
        _overrides(choice, path, kind, (*named, *columns)),
        facts,
        dict(counts.most_common()),
        tuple(remarks),
    )


_HELD_OUT: tuple[SplitName, ...] = ("validation", "test")


def _remarks_on(num_rows: int, faults: Sequence[str], split: str = "") -> list[str]:
    those = f"{split} rows" if split else "rows"
    return [f"{len(faults):,} of {num_rows:,} {those} cannot be read: {faults[0]}"] if faults else []


def _remarks_on_held_out(
    table: TableFiles, kind: DataKind, parts: Mapping[str, str], train: Sequence[object]
) -> list[str]:
    """Say what a run would refuse of the files for validation and test, whose classes are those of the train split."""
    remarks = []
    try:
        classes = _classes_of(kind, train)
        for split in _HELD_OUT:
            samples, faults = _samples(table, kind, parts, split, classes)
            remarks += _remarks_on(len(samples) + len(faults), faults, split)
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


def _check_labels(kind: DataKind, sample: object, classes: Classes, where: Callable[[], str]) -> None:
    for label in _labels(kind, sample):
        classes.number_of(label, "tag" if kind == "tagged_text" else "label", where)


def _samples(
    table: TableFiles,
    kind: DataKind,
    parts: Mapping[str, str],
    split: SplitName = "train",
    classes: Classes | None = None,
) -> tuple[list[object], list[str]]:
    """Return the samples of a split as a run reads them, and what is wrong with its other rows; labels are compared
    with the classes, where these are known."""
    samples: list[object] = []
    faults: list[str] = []
    for file in table.files.get(split, ()):
        kind_of(parts, table.column_names(file), file=str(file))
        read = table.columns_of(file, list(dict.fromkeys(parts.values())))
        for index, number in enumerate(read.numbers):
            row = {part: read.columns[name][index] for part, name in parts.items()}
            where = partial(table.where, file, number)
            try:
                if kind != "language":  # whose empty texts are left out
                    _check_texts(row, where)
                sample = sample_of(kind, row, where)
                if classes is not None:
                    _check_labels(kind, sample, classes, where)
                samples.append(sample)
            except DataError as error:
                faults.append(str(error))
    return samples, faults


def _check_texts(row: Mapping[str, object], where: Callable[[], str]) -> None:
    for part in _TEXTS & row.keys():
        if isinstance(text := row[part], str):
            check_text(text, part.replace("_", " "), lambda *_: where(), "train", 0)


def _in_order(names: Sequence[str], content: Mapping[str, Sequence[object]]) -> list[str]:
    """The text is the column of more words."""
    first, second = (facts_of(name, values).words for name, values in content.items())
    return list(names) if first >= second else list(reversed(names))


def _columns(table: TableFiles, file: Path, names: Sequence[str]) -> dict[str, Sequence[object]]:
    return dict(table.columns_of(file, list(names)).columns)


def _num_rows(table: TableFiles, files: Sequence[Path]) -> int:
    """Count the rows of a split's files; a file without a header is read by the names that the table was given."""
    return sum(len(table.columns_of(file, [table.column_names(file)[0]]).numbers) for file in files)


def _described_tags(path: Path) -> DataDescription:
    from headtohead.data.sources.line_files import ConllFiles

    source = ConllFiles(files=FileSplits(path=str(path)))
    sentences = {
        split: [(one, partial(source.where, file, line)) for file in files for one, line in source.read(file)]
        for split, files in source.files.items()
    }
    tags = Counter(str(tag) for (_, own), _ in sentences["train"] for tag in own)
    rows: dict[str, int] = {split: len(own) for split, own in sentences.items() if own}
    return DataDescription(
        str(path),
        "conll",
        "tagged_text",
        rows,
        _overrides("conll", path, "tagged_text"),
        classes=dict(tags.most_common()),
        remarks=tuple(_remarks_on_held_out_tags(sentences)),
    )


def _remarks_on_held_out_tags(sentences: Mapping[SplitName, Sequence[tuple[Tagged, Callable[[], str]]]]) -> list[str]:
    remarks = []
    try:
        classes = tag_classes([one for one, _ in sentences["train"]])
    except DataError as error:
        return [str(error)]
    for split in _HELD_OUT:
        faults = []
        for one, where in sentences.get(split, ()):
            try:
                _check_labels("tagged_text", one, classes, where)
            except DataError as error:
                faults.append(str(error))
        remarks += _remarks_on(len(sentences.get(split, ())), faults, split)
    return remarks


def _described_images(path: Path) -> DataDescription:
    from headtohead.data.sources.image_folder import ImageFolder

    files = ImageFolder(path=str(path)).files
    rows: dict[str, int] = {split: sum(map(len, classes.values())) for split, classes in files.items()}
    classes = {name: len(own) for name, own in files["train"].items()}
    if len(classes) == 1:  # nothing to tell apart
        overrides = _overrides("image_folder", path, "images", task="masked_image_modeling")
        return DataDescription(str(path), "image_folder", "images", rows, overrides)
    overrides = _overrides("image_folder", path, "images")
    return DataDescription(str(path), "image_folder", "images", rows, overrides, classes=classes)


def _languages(path: Path) -> tuple[str, str] | None:
    """Return the endings of two files that go together line by line: train.de and train.en."""
    if path.is_file():
        return None
    endings = sorted({file.suffix[1:] for file in path.iterdir() if file.stem == "train" and file.suffix})
    return (endings[0], endings[1]) if len(endings) == 2 else None


def _described_pairs(path: Path, languages: tuple[str, str]) -> DataDescription:
    source, target = languages
    rows = {
        file.stem: len(decoded(file, "utf-8").splitlines())
        for file in sorted(path.iterdir())
        if file.suffix == f".{source}"
    }
    own = (f"data.source={source}", f"data.target={target}")
    return DataDescription(
        str(path), "parallel_text", "pairs_of_text", rows, _overrides("parallel_text", path, "pairs_of_text", own)
    )


def _described_text(path: Path) -> DataDescription:
    files = [path] if path.is_file() else files_below(path, (".txt",), "the path")
    try:
        texts = [decoded(file, "utf-8") for file in files]
    except DataError as error:
        raise UsageError(f"{error} (to look into a file, it must be text, a table or images)") from None
    letters, lines = sum(map(len, texts)), sum(text.count("\n") + 1 for text in texts)
    remarks = [f"{letters:,} letters in {lines:,} lines of {len(files):,} file{'' if len(files) == 1 else 's'}"]
    blanks = sum(text.count("\n\n") for text in texts)
    units = {"file": len(files), "paragraph": blanks + 1}
    if len(files) == 1 and blanks > 20:
        remarks.append("data.documents=paragraph makes a document of each paragraph, so that splits share none")
    elif len(files) == 1 and lines > 20 and letters / lines < _SHORT_LINE:
        units["line"] = lines
        remarks.append("data.documents=line makes a document of each line")
    tokenizer = ("data.tokenizer=bpe",)
    return DataDescription(
        str(path), "text", "language", {"train": units["file"]}, _overrides("text", path, "language", tokenizer),
        remarks=tuple(remarks),
    )  # fmt: skip


def _overrides(
    choice: str, path: Path, kind: DataKind, own: Sequence[str] = (), *, task: str | None = None
) -> tuple[str, ...]:
    task = task or USUAL_TASKS[kind]
    return (f"data={choice}", f"data.path={path}", *own, f"task={task}", f"model={model_for(task)}")

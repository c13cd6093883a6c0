"""`h2h data PATH`: what a file or folder holds, what could be asked of it, and the command that trains on it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from headtohead.data.data_source import DataError, SplitName
from headtohead.data.row_formats.tagged import Tagged, tag_classes
from headtohead.data.sources.columns import names_in_short
from headtohead.data.sources.image_folder import SUFFIXES as IMAGES
from headtohead.data.sources.image_folder import ImageFolder
from headtohead.data.sources.local_files import (
    SPLIT_OF_NAME,
    FileSplits,
    HeldOutShares,
    decoded,
    existing_path,
    files_below,
    suffix_of,
)
from headtohead.diagnostics.described_data import DataDescription, ReadingOptions, fitting_context, reading_overrides
from headtohead.diagnostics.table_description import (
    HELD_OUT,
    TABLES,
    check_labels,
    describe_table,
    dropping_of,
    remarks_on,
)
from headtohead.errors import UsageError
from headtohead.files.safe_read import lines_of

_TAGGED = (".conll", ".bio", ".iob", ".conllu")
_SHORT_LINE = 400
"""Letters; a text whose lines are shorter on average may be one document a line."""
_LINES, _FEW_FOLDERS = 100, 20
_IMAGES_TO_DECODE = 500
_EXAMPLE = "a file or a folder: reviews.csv, book.txt, images/"
_FORMATS: Mapping[str, Collection[str]] = {
    **{choice: table.suffixes for choice, table in TABLES.items()},
    "conll": _TAGGED,
    "image_folder": IMAGES,
    "text": (".txt",),
}
"""The formats by their suffixes; the first is preferred where a folder holds as many files of several."""


def describe(path: str | Path, reading: ReadingOptions | None = None) -> DataDescription:
    """Look into a file or a folder; raise UsageError where nothing in it is known."""
    reading = reading or ReadingOptions()
    location = existing_path(str(path), "the path", _EXAMPLE)
    choice = _format([location] if location.is_file() else filter(Path.is_file, location.rglob("*")))
    if not reading.named() and _holds_tags(location, choice):
        choice = "conll"
    if choice is not None and choice in TABLES:
        return describe_table(choice, location, reading)
    if choice is None and (pair := _languages(location)) is not None:
        return _described_pairs(location, pair)
    if choice == "text" or (choice is None and location.is_file()):
        return _described_text(location, reading)
    if named := reading.named():
        unread = " and ".join(f"data.{name}" for name in named)
        raise UsageError(f"{unread} cannot be chosen for {path}, which is neither a table nor text: leave it out")
    if choice is not None:
        return _described_tags(location) if choice == "conll" else _described_images(location)
    known = sorted({suffix for suffixes in _FORMATS.values() for suffix in suffixes})
    raise UsageError(f"{path} holds no file of a known kind: give one ending in {', '.join(known)}")


def _format(files: Iterable[Path]) -> str | None:
    """Return the format that most of the files have; None where none has a known one."""
    suffixes = Counter(suffix_of(file) for file in files)
    counts = {choice: sum(suffixes[suffix] for suffix in known) for choice, known in _FORMATS.items()}
    most = max(counts, key=counts.__getitem__)
    return most if counts[most] else None


def _holds_tags(location: Path, choice: str | None) -> bool:
    """Return whether a file whose ending does not say so, or the first of a folder, holds words with their tags."""
    from headtohead.data.sources.line_files import are_tagged

    if choice not in ("text", "csv", None) or (choice is None and location.is_dir()):
        return False
    files = files_below(location, _FORMATS[choice], "the path") if choice else [location]
    return not any(suffix_of(file) == ".csv" for file in files) and are_tagged(decoded(files[0], "utf-8"))


def _described_tags(path: Path) -> DataDescription:
    from headtohead.data.sources.line_files import ConllFiles, refuse_annotated

    for file in sorted(path.rglob("*")) if path.is_dir() else ():  # which a folder is not searched for
        refuse_annotated(file)
    source = ConllFiles(files=FileSplits(path=str(path), missing="drop"))
    sentences = {
        split: [(one, partial(source.where, file, line)) for file in files for one, line in source.read(file)]
        for split, files in source.files.items()
    }
    if not sentences["train"]:
        raise source.nothing_in("train")
    tags = Counter(str(tag) for (_, own), _ in sentences["train"] for tag in own)
    rows: dict[str, int] = {split: len(own) for split, own in sentences.items() if own}
    dropping, remarks = dropping_of(source.left_out_facts())
    return DataDescription(
        str(path),
        "conll",
        "tagged_text",
        rows,
        reading_overrides("conll", path, "tagged_text", dropping),
        classes=dict(tags.most_common()),
        remarks=(*remarks, *_remarks_on_held_out_tags(sentences)),
    )


def _remarks_on_held_out_tags(sentences: Mapping[SplitName, Sequence[tuple[Tagged, Callable[[], str]]]]) -> list[str]:
    remarks = []
    try:
        classes = tag_classes([one for one, _ in sentences["train"]])
    except DataError as error:
        return [str(error)]
    for split in HELD_OUT:
        faults = []
        for one, where in sentences.get(split, ()):
            try:
                check_labels("tagged_text", one, classes, where)
            except DataError as error:
                faults.append(str(error))
        remarks += remarks_on(len(sentences.get(split, ())), faults, split)
    return remarks


def _described_images(path: Path) -> DataDescription:
    source = ImageFolder(path=str(path))
    files = source.files
    rows: dict[str, int] = {split: sum(map(len, classes.values())) for split, classes in files.items()}
    classes = {name: len(own) for name, own in files["train"].items()}
    if len(classes) == 1:  # nothing to tell apart
        overrides = reading_overrides("image_folder", path, "images", task="masked_image_modeling")
        remarks = (*_remarks_on_one_class(path, files), *_remarks_on_images(source))
        return DataDescription(str(path), "image_folder", "images", rows, overrides, remarks=remarks)
    overrides = reading_overrides("image_folder", path, "images")
    remarks = tuple(_remarks_on_images(source))
    return DataDescription(str(path), "image_folder", "images", rows, overrides, classes=classes, remarks=remarks)


def _remarks_on_images(source: ImageFolder) -> Iterator[str]:
    """Yield what a run would refuse, of a share of the images where decoding all of them takes long."""
    every = source.all_files()
    seen = every[:: max(1, -(-len(every) // _IMAGES_TO_DECODE))]
    _, refusal = source.decoded(seen)
    if refusal is not None:
        part = "" if len(seen) == len(every) else f", which decodes all {len(every):,} images"
        yield f"a run{part} refuses this: {refusal}"
    elif len(seen) < len(every):
        yield f"{len(seen):,} of {len(every):,} images were decoded, and are whole: a run decodes all of them"


def _remarks_on_one_class(path: Path, files: Mapping[SplitName, Mapping[str, Sequence[Path]]]) -> Iterable[str]:
    """Name the folder that holds classes where the only class is a folder with folders in it, as archives unpack."""
    (own,) = files["train"].values()
    above = {file.parent.parent for file in own}
    folders = sorted({file.parent.name for file in own})
    if len(above) == 1 and len(folders) > 1 and above != {path}:
        yield f"{above.pop()} holds the folders {names_in_short(folders)}: give it as the path where they are classes"


def _languages(path: Path) -> tuple[str, str] | None:
    """Return the endings of two files that go together line by line: train.de and train.en."""
    if path.is_file():
        return None
    endings = sorted({file.suffix[1:] for file in path.iterdir() if file.stem == "train" and file.suffix})
    return (endings[0], endings[1]) if len(endings) == 2 else None


def _described_pairs(path: Path, languages: tuple[str, str]) -> DataDescription:
    from headtohead.data.sources.line_files import ParallelText

    source, target = languages
    rows = {
        file.stem: len(lines_of(decoded(file, "utf-8")))
        for file in sorted(path.iterdir())
        if file.suffix == f".{source}"
    }
    lines = ParallelText(files=FileSplits(path=str(path), missing="drop"), source=source, target=target)
    try:
        for file in (file for files in lines.files.values() for file in files):
            deque(lines.read(file), maxlen=0)
        dropping, remarks = dropping_of(lines.left_out_facts())
    except DataError as error:
        dropping, remarks = {}, [f"a run refuses this: {error}"]
    own = {"source": source, "target": target, **dropping}
    return DataDescription(
        str(path),
        "parallel_text",
        "pairs_of_text",
        rows,
        reading_overrides("parallel_text", path, "pairs_of_text", own),
        remarks=tuple(remarks),
    )


def _described_text(path: Path, reading: ReadingOptions) -> DataDescription:
    named = reading.named()
    if tables := [f"data.{name}" for name in named if name != "encoding"]:
        raise UsageError(f"{' and '.join(tables)} cannot be chosen for {path}, which is not a table: leave it out")
    files = [path] if path.is_file() else files_below(path, (".txt",), "the path")
    texts = [decoded(file, reading.encoding or "utf-8") for file in files]
    if not any(text.strip() for text in texts):
        raise UsageError(f"{path} holds no text, only blanks or nothing: give a file with some")
    letters, lines = sum(map(len, texts)), sum(text.count("\n") + 1 for text in texts)
    remarks = [f"{letters:,} letters in {lines:,} lines of {len(files):,} file{'' if len(files) == 1 else 's'}"]
    blanks = sum(text.count("\n\n") for text in texts)
    units = {"file": len(files), "paragraph": blanks + 1}
    if len(files) == 1 and blanks > 20:
        remarks.append("data.documents=paragraph makes a document of each paragraph, so that splits share none")
    elif len(files) == 1 and lines > 20 and letters / lines < _SHORT_LINE:
        units["line"] = lines
        remarks.append("data.documents=line makes a document of each line")
    remarks += _remarks_on_layout(path, texts)
    packed = {"pattern": "**/*.txt*"} if path.is_dir() and any(file.suffix.lower() == ".gz" for file in files) else {}
    own = {**named, **packed, "tokenizer": "bpe", **fitting_context(texts, HeldOutShares())}
    return DataDescription(
        str(path), "text", "language", {"train": units["file"]}, reading_overrides("text", path, "language", own),
        remarks=tuple(remarks),
    )  # fmt: skip


def _remarks_on_layout(path: Path, texts: Sequence[str]) -> Iterator[str]:
    """Yield a hint where texts are rather a table, or lie in folders that may be their classes."""
    if path.is_file():
        widths = {line.count("\t") for line in texts[0].splitlines()[:_LINES] if line.strip()}
        if len(widths) == 1 and (tabs := widths.pop()) > 0:
            yield (
                f"its lines have {tabs + 1} fields between tabs: let the name of the file end in .tsv, and h2h data "
                "reads it as a table"
            )
        return
    folders = sorted({file.parent.name for file in files_below(path, (".txt",), "the path")})
    if 2 <= len(folders) <= _FEW_FOLDERS and not set(folders) & SPLIT_OF_NAME.keys():
        yield (
            f"the folders {names_in_short(folders)} are read as one text: where they are classes, write a table with "
            "the columns text and label"
        )

"""Published sets of texts as data of any kind: a repository of a hub at a revision, or a copy of it in a folder."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from headtohead.data.caching import Prepared
from headtohead.data.contracts import DataError, DataKind, SplitName
from headtohead.data.files import check_shares
from headtohead.data.hub import reading
from headtohead.data.hub.choosing import UNLABELLED, chosen_splits, hidden, is_unlabelled
from headtohead.data.hub.features import class_names_of
from headtohead.data.hub.fetching import fetched
from headtohead.data.hub.guessing import chosen_columns
from headtohead.data.hub.locating import Located, located
from headtohead.data.hub.published import Published
from headtohead.data.hub.schemas import Schema, schema_of
from headtohead.data.labelled import LabelledForm
from headtohead.data.language import Packing
from headtohead.data.tables.columns import Columns, kind_of
from headtohead.data.tables.table_files import Columnar, TableFiles
from headtohead.data.tagged import TaggedForm
from headtohead.data.texts import Form
from headtohead.data.tokenizers import TokenizerName
from headtohead.ranges import BatchSize, Length, Probability, Seed, Vocabulary

_TEXTS = ("text", "second_text", "source", "target")
"""Parts that say nothing where they are blank."""
_log = logging.getLogger(__name__)


class HubTables(TableFiles):
    """Columns and their parts are as in one's own tables; labels may be numbers of the names that the set publishes.
    Rows without a text or a label are left out, and counted."""

    name: ClassVar[str] = "hub"

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
        share_by: str | list[str] | None = None,
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
        about: dict[str, str] | None = None,
    ) -> None:
        check_shares(validation_share, test_share)
        super().__init__(
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
        self.published = Published(name, subset, revision, folder)
        self.asked_splits: dict[SplitName, str | None] = {
            "train": train_split,
            "validation": validation_split,
            "test": test_split,
        }
        self.about = about
        self._left_out: dict[str, int] = {}

    @cached_property
    def located(self) -> Located:
        return located(self.published)

    @cached_property
    def published_splits(self) -> dict[SplitName, str | None]:
        """The published split of each of ours; None where it is a share of the train rows."""
        return chosen_splits(self.published, self.asked_splits, self.located.splits)

    @cached_property
    def files(self) -> dict[SplitName, list[Path]]:
        chosen = self.published_splits.items()
        return {ours: [] if theirs is None else fetched(self.located, theirs) for ours, theirs in chosen}

    @cached_property
    def schema(self) -> Schema:
        """Of the first train file."""
        listed = self.located.splits[str(self.published_splits["train"])][0]
        return schema_of(self.located, listed, self.files["train"][0])

    @cached_property
    def chosen(self) -> tuple[DataKind, dict[str, str]]:
        features = {**self.schema.features, **self.located.features}
        return chosen_columns(self.columns, self.schema.column_names, features, str(self.published))

    @cached_property
    def published_classes(self) -> tuple[str, ...] | None:
        """As the card or the first file names them, by their numbers."""
        parts = self.chosen[1]
        column = parts.get("label") or parts.get("tags")
        if column is None:
            return None
        known = self.located.class_names(column)
        return known or class_names_of(self.schema.features, column)

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Given, else published; None: the labels of the train rows."""
        return self.class_names or self.published_classes

    @property
    def names_of_numbers(self) -> tuple[str, ...] | None:
        """What numbers in the files mean, though the published names be given in another order, or others for them;
        None where nothing is published: a number may then be a given name itself, else it is the place of one."""
        given, published = self.class_names, self.published_classes
        if given is None or published is None:
            return published
        return published if set(given) == set(published) else given

    @property
    def form(self) -> Form[Any]:
        kind = self.chosen[0]
        if kind == "labelled_text":
            return LabelledForm(self.classes, self.max_length)
        return TaggedForm(self.classes, self.max_length) if kind == "tagged_text" else super().form

    def sample_parameters(self) -> Mapping[str, Any]:
        """What numbers mean is told by the card too, which is none of the files."""
        names = self.names_of_numbers
        return {**super().sample_parameters(), **({"names": names} if names else {})}

    def told_files(self) -> Mapping[str, Any]:
        """Files of a commit never change: they are not read, though they may be large, to see whether they did."""
        if self.published.folder is not None:
            return super().told_files()
        splits = {str(ours): theirs for ours, theirs in self.published_splits.items()}
        files = {name: self.located.splits[name] for name in splits.values() if name is not None}
        listed = {name: [[file.path, file.size, file.sha256] for file in found] for name, found in files.items()}
        return {**self.located.identity(), "splits": splits, "listed": listed}

    def column_names(self, file: Path) -> Sequence[str]:
        return reading.column_names(file)

    def columns_of(self, file: Path, names: Sequence[str]) -> Columnar:
        return reading.columns_of(file, names)

    def pieces_of(self, file: Path, names: Sequence[str]) -> Iterator[Columnar]:
        """Without the rows that say nothing. Of labels, all are looked at to see whether some are kept back."""
        self._left_out.pop(file.name, None)
        whole = "label" in self.chosen[1]
        pieces = [self.columns_of(file, names)] if whole else reading.pieces_of(file, names)
        for piece in pieces:
            yield self._speaking(file, piece)

    def _speaking(self, file: Path, table: Columnar) -> Columnar:
        """Classes by their names."""
        parts = self.chosen[1]
        columns: dict[str, Sequence[Any]] = dict(table.columns)
        class_names = self.names_of_numbers
        for part in ("label", "tags"):
            if part in parts and class_names is not None:
                columns[parts[part]] = [_named(value, class_names) for value in columns[parts[part]]]
        blank = [columns[name] for part, name in parts.items() if part in _TEXTS and part != "text"]
        if self.chosen[0] == "labelled_text":
            blank.append(columns[parts["text"]])
        labels = columns[parts["label"]] if "label" in parts else None
        hides = labels is not None and self._hides(labels)
        kept = [
            place
            for place in range(len(table.numbers))
            if not any(_is_blank(column[place]) for column in blank)
            and not (labels is not None and (labels[place] is None or (hides and is_unlabelled(labels[place]))))
        ]
        if len(kept) == len(table.numbers):
            return Columnar(columns, table.numbers)
        self._left_out[file.name] = self._left_out.get(file.name, 0) + len(table.numbers) - len(kept)
        return Columnar(
            {name: [values[place] for place in kept] for name, values in columns.items()},
            [table.numbers[place] for place in kept],
        )

    def _hides(self, labels: Sequence[Any]) -> bool:
        """Whether -1 stands for a label that is kept back: it may be a class, by its name or among other numbers."""
        if self.classes is not None:
            return str(UNLABELLED) not in self.classes
        return all(map(is_unlabelled, labels))

    def read(self, file: Path) -> Iterator[tuple[Any, int]]:
        kind_of(Columns(**self.chosen[1]), self.column_names(file), file=f"{self.published}: {file.name}")
        samples = super().read(file)
        first = next(samples, None)
        if first is None:  # told as a whole split
            return
        yield first
        yield from samples
        if left_out := self._left_out.get(file.name):
            _log.info(
                "%s: %d rows of %s have no label or no text, and are left out", self.published, left_out, file.name
            )

    def nothing_in(self, name: SplitName) -> DataError:
        theirs = str(self.published_splits[name])
        others = [other for other in self.located.splits if other not in (theirs, self.published_splits["train"])]
        return hidden(self.published, name, theirs, others) if self._left_out else super().nothing_in(name)

    def where(self, file: Path | str, number: int) -> str:
        return reading.where(file, number)

    def told_source(self) -> str:
        return str(self.published)

    def provenance(self) -> Mapping[str, Any]:
        left_out = self._left_out if self._content is None else self._content.facts.get("left_out")
        return {**self.located.provenance(), **({"rows left out": dict(left_out)} if left_out else {})}

    def settled(self) -> Mapping[str, Any]:
        return self.located.settled()

    def view_parameters(self) -> Mapping[str, Any]:
        """Rows of another set or revision are other rows, though they may read alike."""
        origin = self.located.identity()
        return {**super().view_parameters(), **({"origin": origin} if origin else {})}

    def make(self) -> Prepared:
        self._left_out.clear()
        made = super().make()
        left_out = {"left_out": dict(self._left_out)} if self._left_out else {}
        return Prepared(made.tables, {**made.facts, **left_out})

    def __getstate__(self) -> dict[str, Any]:
        """The listing of a repository, which may be long, does not travel, nor what takes `datasets` to be unpacked."""
        return {name: value for name, value in super().__getstate__().items() if name not in ("located", "schema")}


def _named(value: Any, names: Sequence[str]) -> Any:
    """A number as the name of its class; a list, one by one; all else as it is."""
    if isinstance(value, list):
        return [_named(entry, names) for entry in value]
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return names[value] if is_number and 0 <= value < len(names) else value


def _is_blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())

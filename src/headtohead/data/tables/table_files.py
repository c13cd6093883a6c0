"""Tables of one's own as data of any kind: files of rows with named columns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from headtohead.data.classes import check_class_names
from headtohead.data.contracts import SPLIT_NAMES, DataError, DataKind, DataSource, SplitName
from headtohead.data.files import check_shares
from headtohead.data.labelled import LabelledForm
from headtohead.data.language import LanguageForm, Packing
from headtohead.data.pairs import PairForm
from headtohead.data.questions import QuestionForm
from headtohead.data.scored import ScoredForm
from headtohead.data.sharing import Keys
from headtohead.data.tables.columns import Columns, kind_of, sample_of
from headtohead.data.tables.file_samples import FileSamples
from headtohead.data.tagged import TaggedForm
from headtohead.data.texts import Form
from headtohead.data.tokenizers import TokenizerName
from headtohead.ranges import BatchSize, Length, Probability, Seed, Vocabulary


@dataclass(frozen=True)
class Columnar:
    """Columns of a file by name, and the number of each row in it."""

    columns: Mapping[str, Sequence[Any]]
    numbers: Sequence[int]


class TableFiles(FileSamples):
    """Subclasses read one file. The columns that are given say what kind of data it is."""

    def __init__(
        self,
        *,
        path: str | None = None,
        validation_path: str | None = None,
        test_path: str | None = None,
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
        self.columns = Columns(
            text=text_column,
            second_text=second_text_column,
            label=label_column,
            score=score_column,
            tags=tags_column,
            question=question_column,
            context=context_column,
            answer=answer_column,
            answer_start=answer_start_column,
            id=id_column,
            source=source_column,
            target=target_column,
        )
        self.share_by = (share_by,) if isinstance(share_by, str) else tuple(share_by or ())
        self._shared: dict[tuple[str, int], Keys] = {}
        self.class_names = check_class_names(class_names)
        self.corpus = LanguageForm(context_length, packing)
        self.asking = QuestionForm(self.max_length, stride)

    @abstractmethod
    def column_names(self, file: Path) -> Sequence[str]:
        """Those of a file, read as little of it as that takes."""

    def otherwise(self, file: Path) -> str:
        """What else may help where the columns of a file are not those that are needed, as it ends a sentence."""
        del file
        return ""

    @abstractmethod
    def columns_of(self, file: Path, names: Sequence[str]) -> Columnar:
        """These columns of a file."""

    def pieces_of(self, file: Path, names: Sequence[str]) -> Iterator[Columnar]:
        """The same, some rows after others where files of this kind can be read so."""
        yield self.columns_of(file, names)

    @cached_property
    def chosen(self) -> tuple[DataKind, dict[str, str]]:
        """The kind of data, and the column of each part."""
        file = self.files["train"][0]
        return kind_of(self.columns, self.column_names(file), file=str(file), otherwise=self.otherwise(file))

    @property
    def form(self) -> Form[Any]:
        kind = self.chosen[0]
        if kind == "labelled_text":
            return LabelledForm(self.class_names, self.max_length)
        if kind == "scored_text":
            return ScoredForm(self.max_length)
        if kind == "tagged_text":
            return TaggedForm(self.class_names, self.max_length)
        if kind == "questions":
            return self.asking
        return PairForm(self.max_length) if kind == "pairs_of_text" else self.corpus

    def longer(self, multiple: int) -> DataSource:
        if self.chosen[0] != "language":
            return super().longer(multiple)
        longer = copy(self)
        longer.corpus = self.corpus.longer(self.content.tables["test"], multiple)
        return longer

    def sample_parameters(self) -> Mapping[str, Any]:
        shared = {"share_by": self.share_by} if self.share_by else {}
        return {**super().sample_parameters(), "columns": self.chosen[1], **shared}

    def read(self, file: Path) -> Iterator[tuple[Any, int]]:
        kind, parts = self.chosen
        kind_of(Columns(**parts), self.column_names(file), file=str(file))
        shared = self._columns_to_share_by(file)
        for table in self.pieces_of(file, list(dict.fromkeys([*parts.values(), *shared]))):
            for place, number in enumerate(table.numbers):
                row = {part: table.columns[name][place] for part, name in parts.items()}
                sample = sample_of(kind, row, partial(self.where, file, number))
                if kind != "language" or sample.strip():
                    if shared:
                        self._shared[str(file), number] = [_key(table.columns[name][place]) for name in shared]
                    yield sample, number

    def _columns_to_share_by(self, file: Path) -> Sequence[str]:
        """None of files that nothing is drawn from."""
        if not self.share_by or file not in self.files["train"] or all(self.files.get(name) for name in SPLIT_NAMES):
            return ()
        names = self.column_names(file)
        for name in self.share_by:
            if name not in names:
                raise DataError(
                    f"data.share_by={name} is no column of {file}, which has {', '.join(names)}: choose from them, or "
                    f"null."
                )
        return self.share_by

    def shared_of(self, origin: tuple[str, int]) -> Keys:
        return self._shared.get(origin, ())

    def samples(self) -> Mapping[SplitName, Sequence[Any]]:
        found = super().samples()
        self._shared.clear()
        return found


def _key(value: Any) -> Hashable:
    """None where the cell is empty: such rows have nothing in common. A whole number is the same in a file that writes
    it with a point, as many do where another row of the column has none."""
    if value is None or value != value or value == [] or (isinstance(value, str) and not value.strip()):
        return None
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    return whole if isinstance(whole, str) else repr(whole)

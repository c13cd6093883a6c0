"""Every source of data provides a description, three splits, and batches by row numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from headtohead.data.batches.batch import Batch
from headtohead.data.splits.left_out_rows import LeftOutFacts
from headtohead.errors import UsageError

DataKind = Literal["language", "labelled_text", "scored_text", "tagged_text", "questions", "pairs_of_text", "images"]
SplitName = Literal["train", "validation", "test"]
WrittenAs = Literal["text", "label", "entities", "answer"]
SPLIT_NAMES: tuple[SplitName, ...] = ("train", "validation", "test")


class DataError(UsageError):
    """Bad data: the message names the file or field, the value and the fix."""


@dataclass(frozen=True)
class DataSpec:
    """The description of the data for a model and a task; it is known before any model is built."""

    kind: DataKind
    """language: token rows without labels; labelled_text: one label a row (one sentence, or two with token types);
    scored_text: the same with a number in place of the label; tagged_text: one tag a token; questions: a question and
    a context with the answer in it; pairs_of_text: source and target."""
    vocab_size: int = 0
    max_length: int = 0
    """Longest row of tokens that a batch can hold (source side)."""
    max_target_length: int = 0
    num_scored: int | None = None
    """The targets of a row that count, where the data itself decides it (answers); None means all."""
    answer_shares: tuple[float, ...] = ()
    """The frequency of each different answer in the train split, the most frequent first; empty without answers."""
    last_answer_shares: tuple[float, ...] = ()
    """The same of the last answers of the rows."""
    num_texts: int = 1
    """The texts of a row; two are distinguished by token types."""
    num_classes: int = 0
    """The number of labels, or of tags."""
    class_names: tuple[str, ...] = ()
    class_shares: tuple[float, ...] = ()
    """The frequency of each class in the train split; empty where there are no classes."""
    score_mean: float = 0.0
    """The mean of the scores in the train split."""
    score_deviation: float = 1.0
    has_unanswerable: bool = False
    """Whether some questions are not answered by their contexts."""
    written_as: WrittenAs = "text"
    """The meaning of text targets: themselves, or a label, entities or an answer in words."""
    label_words: tuple[str, ...] = ()
    """The texts that stand for labels."""
    image_shape: tuple[int, int, int] | None = None
    """Channels, height, width."""
    image_mean: tuple[float, ...] = ()
    """The mean of each channel, black being 0 and the brightest value 1: the model reads the rest, divided by the
    deviation; empty means 0.5, and so from -1 to 1."""
    image_deviation: tuple[float, ...] = ()
    pad_id: int = 0
    bos_id: int = 1
    eos_id: int = 2
    mask_id: int = 3
    num_special_ids: int = 5
    """Ids below this number stand for no text; masking never draws them."""
    special_ids: tuple[int, ...] = ()
    """Further ids that stand for no text, in a published tokenizer, whose special tokens may be anywhere."""
    tokenizer_hash: str = ""
    texts_hash: str = ""
    """Changes whenever the texts of validation or test change, and not with the tokenizer that reads them."""
    rows_follow_tokens: bool = False
    """Whether the tokenizer decides which text is in which row: rows are cut from a stream, or windows of a text."""
    data_hash: str = ""
    """Changes whenever the rows of any split change."""
    decode: Callable[[Sequence[int]], str] | None = field(default=None, compare=False, repr=False)
    """Token ids as text, for metrics that compare texts."""
    encode: Callable[[str], Sequence[int]] | None = field(default=None, compare=False, repr=False)
    """Text as token ids, without start and end; None where the data spells no text."""
    open_train: Callable[[], Split] | None = field(default=None, compare=False, repr=False)
    """The train split, for a task that shows a model examples of it."""

    def are_special(self, tokens: Tensor) -> Tensor:
        """Return a mask of the tokens that stand for no text."""
        special = tokens < self.num_special_ids
        return special | torch.isin(tokens, torch.tensor(self.special_ids)) if self.special_ids else special

    @cached_property
    def text_ids(self) -> Tensor:
        """Return the ids that stand for text, in ascending order: what replaces a token at random is drawn from
        them."""
        every = torch.arange(self.vocab_size)
        return every[~self.are_special(every)]


class Split(ABC):
    """The rows of one split, random access."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def batch(self, rows: np.ndarray) -> Batch:
        """Return these rows as one batch, in this order, padded to the longest of them where lengths differ."""

    def lengths(self) -> np.ndarray | None:
        """Return the tokens of each row where they differ (for length bucketing), else None."""
        return None

    def group_ids(self) -> np.ndarray | None:
        """Return the group of each row, where several rows are measured together: windows of one question."""
        return None


class DataSource(ABC):
    """A data set, as a YAML of conf/data builds it. Building is cheap; `prepare` does the work, once per machine, with
    a cache."""

    kind: ClassVar[DataKind | None] = None
    """The kind of every such source, so that a task can refuse it unread; None where the fields decide."""
    batch_size: int

    @abstractmethod
    def prepare(self) -> None:
        """Generate or read, tokenize, cache. Idempotent, safe when two processes call it at once."""

    @abstractmethod
    def spec(self) -> DataSpec:
        """Return the description, preparing the data where needed."""

    @abstractmethod
    def split(self, name: SplitName) -> Split:
        """Return a split, preparing the data where needed."""

    def windows(self, name: SplitName, *, length: int, stride: int) -> Split:
        """Return the texts of a split in overlapping windows, each token scored once; only for data that consists of
        long texts."""
        raise DataError(
            f"the {name} split has rows of its own, and windows of {length} tokens every {stride} slide over long "
            "texts: leave the stride out, or give data of kind language such as text."
        )

    def longer(self, multiple: int) -> DataSource:
        """Return the same problems or texts, tokenized in the same way, with test rows so many times as long; the other
        splits may be small. Raise DataError, here or when a split is requested, where there are no such rows."""
        del multiple
        raise DataError("its rows are as long as they are, and there are no longer ones")

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids as a person would read it."""

    def provenance(self) -> Mapping[str, Any]:
        """Return where its rows were published (set, subset, revision, licence), as JSON can hold it; empty for all
        others."""
        return {}

    def pinned_fields(self) -> Mapping[str, object]:
        """Return the configuration's fields that were null and have been resolved, so that a run can be repeated with
        the same rows on any machine."""
        return {}

    def ignored_fields(self) -> Mapping[str, object]:
        """Return the fields that were given a value although rows of this kind do not read them, such as those of a
        corpus where a table has labels; empty where every field is read."""
        return {}

    def reading(self) -> Mapping[str, Any]:
        """Return how its tokenizer reads its texts: tokenizer, vocab_size and, by split, bytes_per_token and
        unknown_share; where rows are truncated at a max_length, by split their cut_share; empty where there are no
        texts."""
        return {}

    def leaks(self) -> Mapping[str, Any]:
        """Return how many rows of validation and test occur in train as well, as data/splits/leaks.py counts them;
        empty where they were not counted."""
        return {}

    def left_out(self) -> LeftOutFacts:
        """Return how many rows of its files were left out for a missing value: rows, of how many, by part and by file;
        empty where none was."""
        return {}

    def tokenizer_facts(self) -> Mapping[str, object] | None:
        """Return how its texts become tokens, as JSON can hold it; None where the token ids are the data's own."""
        return None

    def take_tokenizer(self, facts: Mapping[str, object]) -> None:
        """Read texts with another run's tokenizer instead of learning one; nothing where there are none."""
        del facts

    def describe(self, batch: Batch) -> list[dict[str, Any]]:
        """Return one small dictionary per sample, for tables of samples."""
        del batch
        return []

"""What every source of data promises, whatever it holds: a description, three splits, batches by row numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from headtohead.data.batch import Batch
from headtohead.errors import UsageError

DataKind = Literal["language", "labelled_text", "scored_text", "tagged_text", "questions", "pairs_of_text", "images"]
SplitName = Literal["train", "validation", "test"]
WrittenAs = Literal["text", "label", "entities", "answer"]
SPLIT_NAMES: tuple[SplitName, ...] = ("train", "validation", "test")


class DataError(UsageError):
    """Bad data: the message names the file or field, the value and the fix."""


@dataclass(frozen=True)
class DataSpec:
    """What a model and a task must know of the data; it is known before any model is built."""

    kind: DataKind
    """language: token rows without labels; labelled_text: one label a row (one sentence, or two with token types);
    scored_text: the same with a number in place of the label; tagged_text: one tag a token; questions: a question and
    a context with the answer in it; pairs_of_text: source and target."""
    vocab_size: int = 0
    max_length: int = 0
    """Longest row of tokens that a batch can hold (source side)."""
    max_target_length: int = 0
    num_scored: int | None = None
    """Targets of a row that count, where the data itself says which (answers); None means all."""
    answer_shares: tuple[float, ...] = ()
    """How often each different answer occurs in the train split, the most frequent first; empty without answers."""
    last_answer_shares: tuple[float, ...] = ()
    """The same of the last answers of the rows."""
    num_texts: int = 1
    """Of a row; two are told apart by token types."""
    num_classes: int = 0
    """Of labels, or of tags."""
    class_names: tuple[str, ...] = ()
    class_shares: tuple[float, ...] = ()
    """How often each class occurs in the train split; empty where there are no classes."""
    score_mean: float = 0.0
    """Of the numbers of scored texts in the train split."""
    score_deviation: float = 1.0
    has_unanswerable: bool = False
    """Whether some questions are not answered by their contexts."""
    written_as: WrittenAs = "text"
    """What targets of text stand for: themselves, or a label, entities or an answer in words."""
    label_words: tuple[str, ...] = ()
    """The texts that stand for labels."""
    image_shape: tuple[int, int, int] | None = None
    """Channels, height, width."""
    image_mean: tuple[float, ...] = ()
    """Of each channel, black being 0 and the brightest value 1: what the model reads is what is left without it,
    divided by the deviation; empty means 0.5, and so from -1 to 1."""
    image_deviation: tuple[float, ...] = ()
    pad_id: int = 0
    bos_id: int = 1
    eos_id: int = 2
    mask_id: int = 3
    num_special_ids: int = 5
    """Ids below this number stand for no text; masking never draws them."""
    special_ids: tuple[int, ...] = ()
    """More that stand for no text, of a published tokenizer, whose special tokens lie anywhere."""
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
        """True where a token stands for no text."""
        special = tokens < self.num_special_ids
        return special | torch.isin(tokens, torch.tensor(self.special_ids)) if self.special_ids else special


class Split(ABC):
    """The rows of one split, random access."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of rows."""

    @abstractmethod
    def batch(self, rows: np.ndarray) -> Batch:
        """These rows as one batch, in this order, padded to the longest of them where lengths differ."""

    def lengths(self) -> np.ndarray | None:
        """Tokens of each row where they differ (for length bucketing), else None."""
        return None

    def wholes(self) -> np.ndarray | None:
        """The number of what each row is a part of, where parts are measured together: windows of one question."""
        return None


class DataSource(ABC):
    """What a YAML of conf/data builds. Building is cheap; `prepare` does the work, once per machine, with a cache."""

    kind: ClassVar[DataKind | None] = None
    """The kind of every such source, so that a task can refuse it unread; None where the fields decide."""
    batch_size: int

    @abstractmethod
    def prepare(self) -> None:
        """Generate or read, tokenize, cache. Idempotent, safe when two processes call it at once."""

    @abstractmethod
    def spec(self) -> DataSpec:
        """Prepares where needed."""

    @abstractmethod
    def split(self, name: SplitName) -> Split:
        """Prepares where needed."""

    def windows(self, name: SplitName, *, length: int, stride: int) -> Split:
        """The texts of a split in overlapping windows, each token scored once; only for data that is long texts."""
        raise DataError(
            f"the {name} split has rows of its own, and windows of {length} tokens every {stride} slide over long "
            "texts: leave the stride out, or give data of kind language such as text."
        )

    def longer(self, multiple: int) -> DataSource:
        """The same problems or texts, read with the same tokens, with test rows so many times as long; of the other
        splits there may be little. Raises DataError, here or when a split is asked for, where there are no such rows.
        """
        del multiple
        raise DataError("its rows are as long as they are, and there are no longer ones")

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Token ids as a person would read them."""

    def provenance(self) -> Mapping[str, Any]:
        """Where its rows were published (set, subset, revision, licence), as JSON can hold it; empty for all others."""
        return {}

    def settled(self) -> Mapping[str, Any]:
        """Fields of its configuration that were left null and are known by now, so that a run is made again from the
        same rows on any machine."""
        return {}

    def reading(self) -> Mapping[str, Any]:
        """How its tokenizer reads its texts: tokenizer, vocab_size and, by split, bytes_per_token and unknown_share;
        where rows are cut at a max_length, by split their cut_share; empty where there are no texts."""
        return {}

    def leaks(self) -> Mapping[str, Any]:
        """How many rows of validation and test stand in train as well, as data/leaks.py counts them; empty where nobody
        looked."""
        return {}

    def tokenizer_facts(self) -> Mapping[str, Any] | None:
        """How its texts become tokens, as JSON can hold it; None where the token ids are the data's own."""
        return None

    def take_tokenizer(self, facts: Mapping[str, Any]) -> None:
        """Read texts as another run did instead of learning a tokenizer; nothing where there are none."""
        del facts

    def describe(self, batch: Batch) -> list[dict[str, Any]]:
        """One small dictionary per sample, for tables of samples."""
        del batch
        return []

"""All sources of texts share one tokenizer trained on the train split, and a row format that defines a sample."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from headtohead.data.batches.batch import Batch
from headtohead.data.batches.disk_backed_texts import DiskBackedSequence
from headtohead.data.cache.arrow_columns import Table, ragged
from headtohead.data.cache.cached_source import CachedSource
from headtohead.data.cache.prepared_content import PreparedContent, fingerprint
from headtohead.data.data_source import SPLIT_NAMES, DataError, DataKind, DataSource, DataSpec, Split, SplitName
from headtohead.data.splits.leaks import (
    HELD_OUT,
    LEAKS,
    Compared,
    Matches,
    expected_repeats,
    leaks_between,
    texts_of_row,
)
from headtohead.data.splits.left_out_rows import LEFT_OUT, LeftOutFacts
from headtohead.data.tokenizers import (
    Tokenizer,
    TokenizerName,
    check_tokenizer,
    is_named,
    named_tokenizer,
    trained_tokenizer,
    usual_size,
)
from headtohead.data.tokenizers.tokenization_facts import facts_for_record, reading_facts
from headtohead.field_group import FieldGroup
from headtohead.ranges import BatchSize, Vocabulary

Sample = TypeVar("Sample")
SampleOrigin = Callable[[SplitName, int], str]
"""The origin of a row, in words, for messages."""
Decode = Callable[[Sequence[int]], str]

FEWEST_TOKENS = 8
"""The least that rows may be cut to."""


class RowFormat(ABC, Generic[Sample]):
    """The definition of a sample and of its row: one format for each kind of data, whatever the source."""

    kind: ClassVar[DataKind]

    @abstractmethod
    def texts(self, sample: Sample) -> Iterable[str]:
        """Yield the texts that the tokenizer learns from."""

    def new_samples(self) -> DiskBackedSequence:
        """Return an empty container for samples: a list, unless they are plain texts."""
        return []

    @abstractmethod
    def prepared(
        self, samples: Mapping[SplitName, Sequence[Sample]], tokenizer: Tokenizer, index: SampleOrigin
    ) -> PreparedContent:
        """Check and tokenize the samples: one table per split."""

    @abstractmethod
    def spec(self, content: PreparedContent) -> DataSpec:
        """Return the description, as far as it does not come from the tokenizer."""

    @abstractmethod
    def rows(self, source: TextSource, name: SplitName, table: Table) -> Split:
        """Return the rows of one split."""

    def windows(self, source: TextSource, name: SplitName, table: Table, *, length: int, stride: int) -> Split | None:
        """Return overlapping windows over long texts; None where rows are not such texts."""
        del source, name, table, length, stride
        return None

    @abstractmethod
    def described(self, batch: Batch, content: PreparedContent, decode: Decode) -> list[dict[str, Any]]:
        """Return one small dictionary per sample."""

    unit: ClassVar[str] = "rows"
    """The name of one of the `pieces`, in the plural."""

    def pieces(self, sample: Sample) -> Sequence[Compared]:
        """Return what is searched for in another split: the sample as a whole, unless it is a long text."""
        return texts_of_row(self.texts(sample))

    def without(self, sample: Sample, matches: Matches) -> Sample | None:
        """Return what is left of a train sample without the parts that are held out; None where nothing is."""
        shares = [matches.shares(piece) for piece in self.pieces(sample)]
        return None if any(shares) else sample

    def together(self, sample: Sample) -> Any:
        """Return the key of samples that must be in the same split, where splits are drawn; None where there is
        none."""
        del sample

    def classes_in(self, sample: Sample) -> Sequence[Hashable]:
        """Return what of a sample the train split must have seen: its label or tags, unless all classes are named."""
        del sample
        return ()

    def parameters(self) -> Mapping[str, object]:
        """Return the options of the format that determine the content."""
        return {}

    def view_parameters(self) -> Mapping[str, object]:
        """Return the options of the format that change rows without changing the content."""
        return {}


@dataclass(frozen=True)
class SplitTexts(Generic[Sample]):
    """All texts of samples, one by one, which can be iterated repeatedly."""

    form: RowFormat[Sample]
    samples: Sequence[Sample]

    def __iter__(self) -> Iterator[str]:
        return (text for sample in self.samples for text in self.form.texts(sample))


@dataclass(frozen=True)
class TokenizedRows(FieldGroup):
    """Options for making batches of tokens out of texts."""

    batch_size: BatchSize = 32
    """Rows of an optimizer step, over all devices."""
    tokenizer: TokenizerName = "bpe"
    """char, byte, bpe, unigram, wordpiece, a tokenizer.json, or hf:NAME of the hub."""
    vocab_size: Vocabulary | None = None


@dataclass(frozen=True)
class BucketedRows(TokenizedRows):
    """The same of rows that each batch pads to its longest, which may be of like lengths."""

    bucket_by_length: bool = True


class TextSource(CachedSource):
    """Subclasses define which samples there are, and their row format."""

    vocabulary_follows_texts: ClassVar[bool] = False
    """Whether a vocabulary of no given size grows with the texts; of generated ones, whose few words are known, it does
    not."""

    def __init__(self, rows: TokenizedRows) -> None:
        super().__init__(rows.batch_size)
        check_tokenizer(rows.tokenizer, rows.vocab_size)
        self.tokenizer_name, self.vocab_size = rows.tokenizer, rows.vocab_size
        self.bucket_by_length = isinstance(rows, BucketedRows) and rows.bucket_by_length
        self._taken: Tokenizer | None = None

    @property
    @abstractmethod
    def form(self) -> RowFormat[Any]:
        """Return the row format."""

    @abstractmethod
    def samples(self) -> Mapping[SplitName, Sequence[Any]]:
        """Return the samples of each split, in the type of the row format."""

    @abstractmethod
    def sample_parameters(self) -> Mapping[str, object]:
        """Return everything that determines the samples."""

    def left_out_facts(self) -> LeftOutFacts:
        """Return how many rows were left out when the samples were read, as `LeftOutRows` counts them."""
        return {}

    def overrides_for_share(self, share: float, lacking: Sequence[SplitName]) -> Sequence[str]:
        """Return the overrides that give the splits that lack it this share of all text; none where no field does."""
        del share, lacking
        return ()

    def origin_of(self, name: SplitName, row: int) -> str:
        return f"row {row} of the {name} split of data={self.name}"

    def parameters(self) -> Mapping[str, object]:
        size = self.vocab_size or ("by the texts" if self.vocabulary_follows_texts else None)
        chosen: dict[str, Any] = {"tokenizer": self.tokenizer_name, "vocab_size": size}
        if (known := self._known()) is not None:
            chosen = {"tokenizer": known.digest}
        return {**self.sample_parameters(), **self.form.parameters(), **chosen}

    def view_parameters(self) -> Mapping[str, object]:
        return self.form.view_parameters()

    def samples_apart(self) -> tuple[Mapping[SplitName, Sequence[object]], Mapping[str, object]]:
        """Return the samples, without those of train that are held out too where these are dropped, and the leaks that
        remain of validation and test in train."""
        samples, form = self.samples(), self.form
        if self.drop_shared:
            samples = {**samples, "train": self._without_shared(samples)}
        facts = leaks_between(samples, form.pieces, form.unit)
        if self.draws_its_rows:
            sizes = {name: facts[name]["rows"] for name in HELD_OUT}
            facts["expected"] = expected_repeats(samples["train"], form.pieces, sizes)
        return samples, facts

    def _without_shared(self, samples: Mapping[SplitName, Sequence[object]]) -> Sequence[object]:
        form, remaining = self.form, self.form.new_samples()
        matches = Matches.of({name: samples[name] for name in HELD_OUT}, form.pieces)
        rows = []
        for row, sample in enumerate(samples["train"]):
            left = form.without(sample, matches)
            if left is not None:
                rows.append(row)
                remaining.append(left)
        self.keep_of_train(np.array(rows, dtype=np.int64))
        if not rows:
            raise DataError(
                f"data.drop_shared=true leaves data={self.name} no row to train on: all of them stand in validation or "
                "test."
            )
        return remaining

    def keep_of_train(self, rows: np.ndarray) -> None:
        """Receive the indices of the remaining train samples, where some were dropped."""
        del rows

    def make(self) -> PreparedContent:
        samples, leaks = self.samples_apart()
        for name in SPLIT_NAMES:
            if not samples[name]:
                raise DataError(f"the {name} split of data={self.name} is empty: give it at least one sample.")
        tokenizer = self._known() or self._train_tokenizer(samples["train"])
        made = self.form.prepared(samples, tokenizer, self.origin_of)
        left_out = {LEFT_OUT: dict(facts)} if (facts := self.left_out_facts()) else {}
        reading = reading_facts(tokenizer, {name: SplitTexts(self.form, samples[name]) for name in SPLIT_NAMES})
        return PreparedContent(
            made.tables,
            {**made.facts, "tokenizer": tokenizer.to_dict(), "reading": reading, LEAKS: leaks, **left_out},
        )

    def _known(self) -> Tokenizer | None:
        """Return another run's tokenizer, or the one that data.tokenizer names; None where one is to be learned."""
        if self._taken is None and is_named(self.tokenizer_name):
            self._taken = named_tokenizer(self.tokenizer_name)
        return self._taken

    def _train_tokenizer(self, samples: Sequence[object]) -> Tokenizer:
        usual = None if self.vocabulary_follows_texts else usual_size(self.tokenizer_name)
        return trained_tokenizer(self.tokenizer_name, SplitTexts(self.form, samples), self.vocab_size or usual)

    def reading(self) -> Mapping[str, Any]:
        facts, cutting = self.content.facts.get("reading"), self.content.facts.get("cutting", {})
        return {**facts_for_record(self.tokenizer, facts), **cutting} if facts else {}

    def _texts_hash(self) -> str:
        facts = self.content.facts.get("reading")
        return fingerprint({name: facts[name]["digest"] for name in ("validation", "test")}) if facts else ""

    def tokenizer_facts(self) -> Mapping[str, object]:
        return self.tokenizer.to_dict()

    def take_tokenizer(self, facts: Mapping[str, object]) -> None:
        assert self._content is None, "rows were made with another tokenizer"
        self._taken = Tokenizer.from_dict(facts)

    def describe_rows(self) -> DataSpec:
        known = self.form.spec(self.content)
        tokenizer, special = self.tokenizer, self.tokenizer.special
        spec = replace(
            known,
            vocab_size=tokenizer.vocab_size,
            tokenizer_hash=tokenizer.digest,
            texts_hash=self._texts_hash(),
            encode=tokenizer.encode_one,
        )
        if tokenizer.kind != "published":
            return spec
        return replace(
            spec,
            pad_id=max(0, special.pad),
            bos_id=special.bos,
            eos_id=special.eos,
            mask_id=special.mask,
            num_special_ids=0,
            special_ids=special.others,
        )

    def open_split(self, name: SplitName) -> Split:
        return self.form.rows(self, name, self.content.tables[name])

    def windows(self, name: SplitName, *, length: int, stride: int) -> Split:
        result = self.form.windows(self, name, self.content.tables[name], length=length, stride=stride)
        return super().windows(name, length=length, stride=stride) if result is None else result

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer.from_dict(self.content.facts["tokenizer"])

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids)

    def describe(self, batch: Batch) -> list[dict[str, Any]]:
        return self.form.described(batch, self.content, self.decode)


def tokenizer_of(data: DataSource) -> Tokenizer | None:
    """Return the tokenizer that reads all texts of some data, of a mix that of its sources; None where they spell no
    text."""
    if isinstance(data, TextSource):
        return data.tokenizer
    facts = data.tokenizer_facts()
    return None if facts is None else Tokenizer.from_dict(facts)


def longest(content: PreparedContent, column: str) -> int:
    """Return the longest row over all splits."""
    return max(int(ragged(content.tables[name], column).lengths.max()) for name in SPLIT_NAMES)


def check_text(text: str, what: str, index: SampleOrigin, name: SplitName, row: int) -> None:
    if not text.strip():
        raise DataError(f"{index(name, row)}: its {what} is empty; remove the row, or give it one.")


def check_max_length(max_length: int | None) -> int | None:
    if max_length is not None and max_length < FEWEST_TOKENS:
        raise DataError(
            f"data.max_length={max_length} must be at least {FEWEST_TOKENS}; null means as long as the rows are."
        )
    return max_length

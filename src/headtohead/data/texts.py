"""What all sources of texts share: one tokenizer trained on the train split, and a form that says what a row is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from headtohead.data.batch import Batch
from headtohead.data.caching import Prepared, fingerprint
from headtohead.data.contracts import SPLIT_NAMES, DataError, DataKind, DataSpec, Split, SplitName
from headtohead.data.keeping import Keeps
from headtohead.data.leaks import HELD_OUT, LEAKS, Compared, Matches, expected_repeats, leaks_between, texts_of_row
from headtohead.data.reading_facts import reading_facts, told
from headtohead.data.source import CachedSource
from headtohead.data.storage import Table, ragged
from headtohead.data.tokenizers import (
    Tokenizer,
    TokenizerName,
    check_tokenizer,
    given_tokenizer,
    is_given,
    learned_tokenizer,
)

Sample = TypeVar("Sample")
Place = Callable[[SplitName, int], str]
"""Where a row comes from, in words, for messages."""
Decode = Callable[[Sequence[int]], str]

FEWEST_TOKENS = 8
"""The least that rows may be cut to."""


class Form(ABC, Generic[Sample]):
    """What a sample is, and how it becomes a row: one form for each kind of data, whatever the source."""

    kind: ClassVar[DataKind]

    @abstractmethod
    def texts(self, sample: Sample) -> Iterable[str]:
        """What the tokenizer learns from."""

    def keeping(self) -> Keeps:
        """What samples are gathered in: a list, unless they are nothing but texts."""
        return []

    @abstractmethod
    def prepared(self, samples: Mapping[SplitName, Sequence[Sample]], tokenizer: Tokenizer, place: Place) -> Prepared:
        """Checked and tokenized: one table per split."""

    @abstractmethod
    def spec(self, content: Prepared) -> DataSpec:
        """The description, as far as it does not come from the tokenizer."""

    @abstractmethod
    def rows(self, source: TextSource, name: SplitName, table: Table) -> Split:
        """The rows of one split."""

    def windows(self, source: TextSource, name: SplitName, table: Table, *, length: int, stride: int) -> Split | None:
        """Overlapping windows over long texts; None where rows are no such texts."""
        del source, name, table, length, stride
        return None

    @abstractmethod
    def described(self, batch: Batch, content: Prepared, decode: Decode) -> list[dict[str, Any]]:
        """One small dictionary per sample."""

    unit: ClassVar[str] = "rows"
    """What `pieces` are, in the plural."""

    def pieces(self, sample: Sample) -> Sequence[Compared]:
        """What is looked for in another split: the sample as a whole, unless it is a long text."""
        return texts_of_row(self.texts(sample))

    def without(self, sample: Sample, matches: Matches) -> Sample | None:
        """What is left of a train sample once what is held out is taken out of it; None: nothing."""
        shares = [matches.shares(piece) for piece in self.pieces(sample)]
        return None if any(shares) else sample

    def together(self, sample: Sample) -> Any:
        """Samples that have this alike stand in the same split, where splits are drawn; None tells nothing."""
        del sample

    def parameters(self) -> Mapping[str, Any]:
        """What of the form determines the content."""
        return {}

    def view_parameters(self) -> Mapping[str, Any]:
        """What of the form changes rows without changing the content."""
        return {}


@dataclass(frozen=True)
class TextsOf(Generic[Sample]):
    """All texts of samples, one by one, as often as they are asked for."""

    form: Form[Sample]
    samples: Sequence[Sample]

    def __iter__(self) -> Iterator[str]:
        return (text for sample in self.samples for text in self.form.texts(sample))


class TextSource(CachedSource):
    """Subclasses say which samples there are, and of which form."""

    def __init__(
        self, *, batch_size: int, tokenizer: TokenizerName, vocab_size: int | None, bucket_by_length: bool = False
    ) -> None:
        super().__init__(batch_size)
        check_tokenizer(tokenizer, vocab_size)
        self.tokenizer_name, self.vocab_size, self.bucket_by_length = tokenizer, vocab_size, bucket_by_length
        self._taken: Tokenizer | None = None

    @property
    @abstractmethod
    def form(self) -> Form[Any]:
        """What a sample is."""

    @abstractmethod
    def samples(self) -> Mapping[SplitName, Sequence[Any]]:
        """The samples of each split, as the form takes them."""

    @abstractmethod
    def sample_parameters(self) -> Mapping[str, Any]:
        """All that determines the samples."""

    def place(self, name: SplitName, row: int) -> str:
        return f"row {row} of the {name} split of data={self.name}"

    def parameters(self) -> Mapping[str, Any]:
        chosen: dict[str, Any] = {"tokenizer": self.tokenizer_name, "vocab_size": self.vocab_size}
        if (known := self._known()) is not None:
            chosen = {"tokenizer": known.digest}
        return {**self.sample_parameters(), **self.form.parameters(), **chosen}

    def view_parameters(self) -> Mapping[str, Any]:
        return self.form.view_parameters()

    def samples_apart(self) -> tuple[Mapping[SplitName, Sequence[Any]], Mapping[str, Any]]:
        """The samples, without those of train that are held out too where these are dropped; and what of validation and
        test stands in train."""
        samples, form = self.samples(), self.form
        if self.drop_shared:
            samples = {**samples, "train": self._without_shared(samples)}
        facts = leaks_between(samples, form.pieces, form.unit)
        if self.draws_its_rows:
            sizes = {name: facts[name]["rows"] for name in HELD_OUT}
            facts["expected"] = expected_repeats(samples["train"], form.pieces, sizes)
        return samples, facts

    def _without_shared(self, samples: Mapping[SplitName, Sequence[Any]]) -> Sequence[Any]:
        form, kept = self.form, self.form.keeping()
        matches = Matches.of({name: samples[name] for name in HELD_OUT}, form.pieces)
        rows = []
        for row, sample in enumerate(samples["train"]):
            left = form.without(sample, matches)
            if left is not None:
                rows.append(row)
                kept.append(left)
        self.keep_of_train(np.array(rows, dtype=np.int64))
        if not rows:
            raise DataError(
                f"data.drop_shared=true leaves data={self.name} no row to train on: all of them stand in validation or "
                "test."
            )
        return kept

    def keep_of_train(self, rows: np.ndarray) -> None:
        """Told which of its train samples are left, where some were dropped."""
        del rows

    def make(self) -> Prepared:
        samples, leaks = self.samples_apart()
        for name in SPLIT_NAMES:
            if not samples[name]:
                raise DataError(f"the {name} split of data={self.name} is empty: give it at least one sample.")
        tokenizer = self._known() or self._learned(samples["train"])
        made = self.form.prepared(samples, tokenizer, self.place)
        reading = reading_facts(tokenizer, {name: TextsOf(self.form, samples[name]) for name in SPLIT_NAMES})
        return Prepared(made.tables, {**made.facts, "tokenizer": tokenizer.to_dict(), "reading": reading, LEAKS: leaks})

    def _known(self) -> Tokenizer | None:
        """Another run's, or the one that data.tokenizer names; None where one is to be learned."""
        if self._taken is None and is_given(self.tokenizer_name):
            self._taken = given_tokenizer(self.tokenizer_name)
        return self._taken

    def _learned(self, samples: Sequence[Any]) -> Tokenizer:
        return learned_tokenizer(self.tokenizer_name, TextsOf(self.form, samples), self.vocab_size)

    def reading(self) -> Mapping[str, Any]:
        facts, cutting = self.content.facts.get("reading"), self.content.facts.get("cutting", {})
        return {**told(self.tokenizer, facts), **cutting} if facts else {}

    def _texts_hash(self) -> str:
        facts = self.content.facts.get("reading")
        return fingerprint({name: facts[name]["digest"] for name in ("validation", "test")}) if facts else ""

    def tokenizer_facts(self) -> Mapping[str, Any]:
        return self.tokenizer.to_dict()

    def take_tokenizer(self, facts: Mapping[str, Any]) -> None:
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
        found = self.form.windows(self, name, self.content.tables[name], length=length, stride=stride)
        return super().windows(name, length=length, stride=stride) if found is None else found

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer.from_dict(self.content.facts["tokenizer"])

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids)

    def describe(self, batch: Batch) -> list[dict[str, Any]]:
        return self.form.described(batch, self.content, self.decode)


def longest(content: Prepared, column: str) -> int:
    """Over all splits."""
    return max(int(ragged(content.tables[name], column).lengths.max()) for name in SPLIT_NAMES)


def check_text(text: str, what: str, place: Place, name: SplitName, row: int) -> None:
    if not text.strip():
        raise DataError(f"{place(name, row)}: its {what} is empty; remove the row, or give it one.")


def check_max_length(max_length: int | None) -> int | None:
    if max_length is not None and max_length < FEWEST_TOKENS:
        raise DataError(
            f"data.max_length={max_length} must be at least {FEWEST_TOKENS}; null means as long as the rows are."
        )
    return max_length

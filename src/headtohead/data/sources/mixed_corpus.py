"""Several corpora read as one, each with its share of every stretch of training rows."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from headtohead.data.batches.batch import Batch
from headtohead.data.batches.row_order import EpochOrder, Order, OrderedSplit, device_share
from headtohead.data.cache.cached_source import code_digest
from headtohead.data.cache.prepared_content import PreparedContent, prepared
from headtohead.data.data_source import SPLIT_NAMES, DataError, DataSource, DataSpec, Split, SplitName
from headtohead.data.row_formats.text_source import SplitTexts, TextSource
from headtohead.data.row_formats.token_rows import document_positions
from headtohead.data.splits.leaks import HELD_OUT, LEAKS, expected_repeats, leaks_between
from headtohead.data.splits.left_out_rows import LeftOutFacts, added_counts
from headtohead.data.tokenizers.tokenization_facts import facts_for_record, reading_facts
from headtohead.ranges import BatchSize, Range

_Item = TypeVar("_Item")
MixWeight = Annotated[float, Range(0.0, 1e9, above=True)]
_MIX_STREAM = 7
"""Keeps the shuffling of a batch apart from other uses of the same seed."""


class MixedCorpus(DataSource):
    """Rows of language from several sources, by weights; the first source's tokenizer reads them all.

    Training takes of each source as many rows as its weight says, to within one row at every step, and goes through a
    source again when it is used up. Validation and test are the rows of all sources, one source after another.
    """

    kind: ClassVar[Any] = "language"
    own_fields: ClassVar[tuple[str, ...]] = ("batch_size",)
    """Fields of the sources that are not read: the mix has its own."""
    fields_of_first: ClassVar[tuple[str, ...]] = ("tokenizer", "vocab_size")
    """Fields of all sources but the first that are not read, unless they are those of the first."""

    def __init__(
        self,
        *,
        sources: Mapping[str, DataSource] | None = None,  # by name, at least two; the first's tokenizer reads all
        weights: Mapping[str, MixWeight] | None = None,
        batch_size: BatchSize = 32,
    ) -> None:
        if not sources or len(sources) < 2:
            raise DataError("data.sources names fewer than two sources: data@data.sources.first=text, and a second one")
        weights = dict(weights or dict.fromkeys(sources, 1.0))
        if set(weights) != set(sources):
            raise DataError(
                f"data.weights has {', '.join(sorted(weights)) or 'nothing'}, and data.sources has "
                f"{', '.join(sorted(sources))}: give each source its weight"
            )
        if bad := [name for name, weight in weights.items() if not (weight > 0 and math.isfinite(weight))]:
            raise DataError(
                f"data.weights.{bad[0]}={weights[bad[0]]} must be above 0: leave out what is not to be read"
            )
        if kinds := [name for name, source in sources.items() if source.kind not in (None, "language")]:
            raise DataError(f"data.sources.{kinds[0]} holds no language: mix corpora, such as text or grammar_lm")
        self.sources, self.batch_size = dict(sources), batch_size
        self.weights = {name: weights[name] for name in sources}
        self._share_a_tokenizer = False
        self._facts: _MixFacts | None = None

    def prepare(self) -> None:
        first, *others = self.sources.values()
        first.prepare()
        if not self._share_a_tokenizer and (facts := first.tokenizer_facts()) is not None:
            for other in others:  # before it is asked for its own, which it would learn
                other.take_tokenizer(facts)
        self._share_a_tokenizer = True
        for other in others:
            other.prepare()

    def spec(self) -> DataSpec:
        self.prepare()
        specs = {name: source.spec() for name, source in self.sources.items()}
        first, known = next(iter(specs.items()))
        for name, spec in specs.items():
            for field in ("kind", "vocab_size", "max_length", "tokenizer_hash"):
                own, other = getattr(known, field), getattr(spec, field)
                if own != other:
                    raise DataError(
                        f"data.sources.{name} has {field}={other}, and {first} has {own}: rows of one batch must be "
                        "alike, so give both the same context_length and tokenizer"
                    )
        hashes = {field: [getattr(spec, field) for spec in specs.values()] for field in ("data_hash", "texts_hash")}
        data, texts = (hashlib.sha256(repr(values).encode()).hexdigest()[:16] for values in hashes.values())
        return replace(known, data_hash=data, texts_hash=texts, open_train=None)

    def split(self, name: SplitName) -> Split:
        self.prepare()
        splits = [source.split(name) for source in self.sources.values()]
        if name != "train":
            return _Concatenated(splits)
        for source, split in zip(self.sources, splits, strict=True):
            if isinstance(split, OrderedSplit):
                raise DataError(
                    f"data.sources.{source} is a stream, whose rows nobody has counted: mix sources that fit a disk"
                )
        return _Mixed(splits, list(self.weights.values()))

    def decode(self, ids: Sequence[int]) -> str:
        return next(iter(self.sources.values())).decode(ids)

    def describe(self, batch: Batch) -> list[dict[str, Any]]:
        return next(iter(self.sources.values())).describe(batch)

    def pinned_fields(self) -> Mapping[str, object]:
        pinned = {name: source.pinned_fields() for name, source in self.sources.items()}
        return {"sources": {name: own for name, own in pinned.items() if own}} if any(pinned.values()) else {}

    def provenance(self) -> Mapping[str, Any]:
        known = {name: source.provenance() for name, source in self.sources.items()}
        return {name: own for name, own in known.items() if own}

    def reading(self) -> Mapping[str, Any]:
        first = next(iter(self.sources.values()))
        return first.reading() if self._facts_of_texts is None else self._facts_of_texts.reading

    def leaks(self) -> Mapping[str, object]:
        return {} if self._facts_of_texts is None else self._facts_of_texts.leaks

    @property
    def _facts_of_texts(self) -> _MixFacts | None:
        """Return what is counted over the texts of all sources; None where one of them spells no texts."""
        texts = [source for source in self.sources.values() if isinstance(source, TextSource)]
        if self._facts is None and len(texts) == len(self.sources):
            self.prepare()
            self._facts = _facts_of_mix(texts)
        return self._facts

    def left_out(self) -> LeftOutFacts:
        return added_counts([source.left_out() for source in self.sources.values()])

    def tokenizer_facts(self) -> Mapping[str, object] | None:
        return next(iter(self.sources.values())).tokenizer_facts()

    def take_tokenizer(self, facts: Mapping[str, object]) -> None:
        for source in self.sources.values():
            source.take_tokenizer(facts)


class _Mixed(OrderedSplit):
    """The train split; a row's number is its index in its source, times the number of sources, plus the source's."""

    def __init__(self, splits: Sequence[Split], weights: Sequence[float]) -> None:
        self.splits, self.weights = list(splits), list(weights)

    def __len__(self) -> int:
        return sum(map(len, self.splits))

    def batch(self, rows: np.ndarray) -> Batch:
        return _joined(self.splits, rows % len(self.splits), rows // len(self.splits), rows)

    def order(self, *, batch_size: int, seed: int) -> Order:
        return MixedOrder(self, batch_size=batch_size, seed=seed)


class MixedOrder(Order):
    """Read rows at every step by seed and step alone, whatever the number of devices."""

    def __init__(self, split: _Mixed, *, batch_size: int, seed: int) -> None:
        self.batch_size, self._seed = batch_size, seed
        total = sum(split.weights)
        self._shares = [weight / total for weight in split.weights]
        self._orders = [
            EpochOrder(own, batch_size=1, seed=seed * len(split.splits) + index)
            for index, own in enumerate(split.splits)
        ]

    def step(self, step: int, *, rank: int = 0, world_size: int = 1) -> tuple[int, np.ndarray]:
        """Return the rows, and as epoch how many times sources have been begun again, all together."""
        before, after = self.counts(step * self.batch_size), self.counts((step + 1) * self.batch_size)
        rows: list[int] = []
        epoch = 0
        for source, order in enumerate(self._orders):
            epoch += before[source] // order.steps_per_epoch
            draws = (order.step(draw) for draw in range(before[source], after[source]))
            rows += [int(own[0]) * len(self._orders) + source for _, own in draws]
        shuffled = np.random.default_rng([self._seed, step, _MIX_STREAM]).permutation(np.array(rows, dtype=np.int64))
        return epoch, device_share(shuffled, rank=rank, world_size=world_size)

    def counts(self, draws: int) -> list[int]:
        """Return how many of the first draws are of each source: never fewer of any than of fewer draws."""
        counts, left, share_left = [], draws, 1.0
        for share in self._shares[:-1]:
            own = math.floor(left * min(1.0, share / share_left) + 0.5) if share_left > 0 else 0
            counts.append(min(own, left))
            left -= counts[-1]
            share_left -= share
        return [*counts, left]


class _Concatenated(Split):
    """Rows of one split after those of another."""

    def __init__(self, splits: Sequence[Split]) -> None:
        self._splits = list(splits)
        self._ends = np.cumsum([len(split) for split in splits])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def batch(self, rows: np.ndarray) -> Batch:
        sources = np.searchsorted(self._ends, rows, side="right")
        starts = np.concatenate([[0], self._ends[:-1]])
        return _joined(self._splits, sources, rows - starts[sources], rows)


def _joined(splits: Sequence[Split], sources: np.ndarray, indices: np.ndarray, rows: np.ndarray) -> Batch:
    """Return one batch of rows of several splits, in the order of `rows`."""
    present = [source for source in range(len(splits)) if (sources == source).any()] or [0]
    batches = [splits[source].batch(indices[sources == source]) for source in present]
    if any(batch.segments is not None for batch in batches):
        batches = [_with_documents(batch) for batch in batches]
    order = np.argsort(np.concatenate([np.flatnonzero(sources == source) for source in present]), kind="stable")
    tensors = {field.name: _field(field.name, batches) for field in fields(Batch) if field.name != "questions"}
    own: dict[str, Any] = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    joined = Batch(**own)
    ordered = joined.chosen(torch.from_numpy(order))
    return replace(ordered, rows=torch.from_numpy(np.asarray(rows, dtype=np.int64)))


def _with_documents(batch: Batch) -> Batch:
    """Return the rows with numbers of documents: rows of a corpus that has a single document have none."""
    if batch.segments is not None or batch.tokens is None:
        return batch
    segments, positions = document_positions(np.zeros(batch.tokens.shape, dtype=bool))
    return replace(batch, segments=segments, positions=positions)


def _field(name: str, batches: Sequence[Batch]) -> Tensor | None:
    values = [getattr(batch, name) for batch in batches]
    if all(value is None for value in values):
        return None
    if any(value is None for value in values):
        raise DataError(
            f"some of data.sources give {name} with their rows and others do not: give all the same packing"
        )
    if values[0].ndim == 0:
        return torch.stack(values).sum()
    if len({value.shape[1:] for value in values}) > 1:
        raise DataError("rows of data.sources differ in length: give all packing=apart or stream")
    return torch.cat(values)


@dataclass(frozen=True)
class _MixFacts:
    """The facts of a mix, in the form of those of a single source."""

    reading: Mapping[str, object]
    leaks: Mapping[str, object]


def _facts_of_mix(sources: Sequence[TextSource]) -> _MixFacts:
    """Return the facts of these sources together, from the cache if they are there: they are counted over all, as a
    text of one may stand in the test of another."""
    parameters = {
        "code": [code_digest(type(source)) for source in sources],
        "sources": [
            {"name": source.name, **source.parameters(), "drop_shared": source.drop_shared} for source in sources
        ],
    }
    facts = prepared("mix", parameters, lambda: _counted(sources)).facts
    return _MixFacts(facts_for_record(sources[0].tokenizer, facts["reading"]), facts[LEAKS])


def _counted(sources: Sequence[TextSource]) -> PreparedContent:
    samples = [source.samples_apart()[0] for source in sources]
    texts = {
        name: _Chained([SplitTexts(source.form, own[name]) for source, own in zip(sources, samples, strict=True)])
        for name in SPLIT_NAMES
    }
    # Rows that are drawn from a space repeat by chance, and that is not a leak of texts that somebody wrote.
    read = [index for index, source in enumerate(sources) if not source.draws_its_rows] or list(range(len(sources)))
    compared = {name: _Chained([samples[index][name] for index in read]) for name in SPLIT_NAMES}
    form = sources[read[0]].form
    leaks = leaks_between(compared, form.pieces, form.unit)
    if all(source.draws_its_rows for source in sources):
        sizes = {name: leaks[name]["rows"] for name in HELD_OUT}
        leaks["expected"] = expected_repeats(compared["train"], form.pieces, sizes)
    return PreparedContent({}, {"reading": reading_facts(sources[0].tokenizer, texts), LEAKS: leaks})


class _Chained(Generic[_Item]):
    """The items of several collections, one after another, which can be iterated repeatedly."""

    def __init__(self, parts: Sequence[Iterable[_Item]]) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[_Item]:
        return (item for part in self._parts for item in part)

"""A published corpus too large for a disk: fetched in pieces as training proceeds, tokenized ahead of it, and
discarded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import torch

from headtohead.data.batches.batch import Batch
from headtohead.data.cache.arrow_columns import Table, ragged
from headtohead.data.cache.cached_source import CachedSource, CachedSplit, code_digest
from headtohead.data.cache.paths import cache_root
from headtohead.data.cache.prepared_content import PreparedContent, fingerprint
from headtohead.data.data_source import DataError, Split, SplitName
from headtohead.data.row_formats.language_rows import LanguageSource, RowPacking, encoded
from headtohead.data.row_formats.text_source import TokenizedRows
from headtohead.data.row_formats.token_rows import as_tensor, byte_counter, document_positions, padded
from headtohead.data.sources.hub.dataset_location import DatasetLocation, locate_dataset
from headtohead.data.sources.hub.dataset_reference import DatasetReference
from headtohead.data.splits.leaks import LEAKS
from headtohead.data.streaming.parquet_shards import Shard, shards_of, texts_of
from headtohead.data.streaming.shard_cache import ShardCache
from headtohead.data.streaming.stream_order import InterleavedSplit, ShardStream, StreamFields, shards_and_rows_of
from headtohead.data.tokenizers import SpecialIds, Tokenizer
from headtohead.ranges import Rows

_LANE_STREAM = 4
"""Keeps the orders of lanes apart from other uses of the same seed."""


class StreamedRows(CachedSplit, InterleavedSplit):
    """Documents packed as in a split that is all there, unit by unit: the last row of a unit may be shorter, and is
    padded, so that no token is lost."""

    def __init__(
        self,
        source: CachedSource,
        name: SplitName,
        cache: ShardCache,
        shards: Mapping[int, int],
        *,
        row_length: int,
        lanes: int,
        window: int,
        borders: SpecialIds | None,
        tokenizer: Tokenizer,
    ) -> None:
        """Set up the rows; `shards` maps shards to their numbers of documents, and `window` is in documents of one
        lane."""
        super().__init__(source, name)
        self._cache, self._shards, self._step = cache, dict(shards), row_length - 1
        self._num_lanes = min(lanes, len(self._shards))
        largest = max(self._shards.values())
        self._window = max(1, -(-window // largest))
        self._borders = borders
        self._counter = lru_cache(maxsize=256)(lambda shard: byte_counter(tokenizer, cache.table(shard)))

    def __len__(self) -> int:
        """Return the rows of one pass; until every shard was read, estimate it by the size of those that were."""
        sizes = self._cache.known_sizes() or {0: self._cache.size(next(iter(self._shards)))}
        known = {shard: self._rows_of(size) for shard, size in sizes.items() if shard in self._shards}
        documents = sum(self._shards[shard] for shard in known)
        return round(sum(known.values()) * sum(self._shards.values()) / max(documents, 1))

    def lanes(self, seed: int) -> list[ShardStream]:
        shards, num_lanes = list(self._shards), self._num_lanes
        return [
            ShardStream(
                shards[lane::num_lanes],
                self.num_rows,
                self._cache.prefetch,
                window=self._window,
                seed=(seed, lane, _LANE_STREAM),
            )
            for lane in range(num_lanes)
        ]

    def num_rows(self, shard: int) -> int:
        return self._rows_of(self._cache.size(shard))

    def _rows_of(self, num_tokens: int) -> int:
        """Return the number of rows, each of which begins with the last token of the one before."""
        return -(-max(num_tokens - 1, 0) // self._step)

    def batch(self, rows: np.ndarray) -> Batch:
        shards, indices = shards_and_rows_of(rows)
        tokens = np.zeros((len(rows), self._step + 1), dtype=np.int64)
        valid = np.ones(tokens.shape, dtype=bool)
        num_bytes = 0
        for shard in np.unique(shards).tolist():
            own = np.flatnonzero(shards == shard)
            values = ragged(self._cache.table(shard), "tokens").values
            starts = indices[own] * self._step
            lengths = np.minimum(len(values) - starts, self._step + 1)
            packed, real = padded(values, starts, lengths)
            tokens[own, : packed.shape[1]], valid[own, : packed.shape[1]] = packed, real
            valid[own, packed.shape[1] :] = False
            num_bytes += int(self._counter(shard).count(packed[:, 1:][real[:, 1:]], starts + 1, starts + lengths))
        segments, positions = (
            (None, None) if self._borders is None else document_positions(self._borders.beginnings(tokens))
        )
        return Batch(
            rows=as_tensor(rows),
            tokens=torch.from_numpy(tokens),
            valid=None if valid.all() else torch.from_numpy(valid),
            segments=segments,
            positions=positions,
            num_bytes=torch.tensor(num_bytes),
        )


_GIGABYTE = 10**9


class StreamedCorpus(LanguageSource):
    """Parquet files of documents. The first documents are held out, the same under every seed, and no text of the train
    stream is one of theirs, whatever its case and white space; a tokenizer that is learned here learns from the
    documents after them."""

    name: ClassVar[str] = "stream"

    def __init__(
        self,
        *,
        published: DatasetReference = DatasetReference(),
        train_split: str = "train",
        text_column: str = "text",
        num_validation: Rows = 1_000,
        num_test: Rows = 1_000,
        num_learned: Rows = 20_000,
        stream: StreamFields = StreamFields(),
        packed: RowPacking = RowPacking(),
        rows: TokenizedRows = TokenizedRows(),
        about: dict[str, str] | None = None,
    ) -> None:
        super().__init__(rows, packed)
        if packed.packing == "none":
            raise DataError(
                "data.packing=none pads each document to the longest of its batch, which a stream does not know: "
                "choose apart or stream."
            )
        stream.check(num_validation=num_validation, num_test=num_test, num_learned=num_learned)
        self.published, self.train_split, self.text_column = published, train_split, text_column
        self.num_held_out: dict[SplitName, int] = {"test": num_test, "validation": num_validation}
        self.num_learned, self.lanes, self.shuffle_buffer = num_learned, stream.lanes, stream.shuffle_buffer
        self.keep_gigabytes, self.about = stream.keep_gigabytes, about

    @cached_property
    def located(self) -> DatasetLocation:
        return locate_dataset(self.published)

    @cached_property
    def addresses(self) -> list[str]:
        return self.located.addresses(self.train_split)

    def sample_parameters(self) -> Mapping[str, object]:
        folder, files = self.published.path, self.located.files(self.train_split)[self.train_split]
        written = [] if folder is None else [(folder / file.path).stat().st_mtime_ns for file in files]
        return {
            "files": [[file.path, file.size, file.sha256] for file in files],
            "origin": self.located.provenance(),
            "folder": [self.published.folder, written],
            "column": self.text_column,
            "held_out": self.num_held_out,
            "learned": self.num_learned,
        }

    def provenance(self) -> Mapping[str, Any]:
        return self.located.provenance()

    def pinned_fields(self) -> Mapping[str, object]:
        return self.located.pinned_fields()

    def view_parameters(self) -> Mapping[str, object]:
        return {**super().view_parameters(), "lanes": self.lanes, "shuffle_buffer": self.shuffle_buffer}

    def samples(self) -> Mapping[SplitName, Sequence[str]]:
        """Return the held-out documents, and under `train` those that a tokenizer learns from; none of them twice."""
        documents = (text for _, text in self._first_documents())
        held_out = {name: list(islice(documents, number)) for name, number in self.num_held_out.items()}
        train_texts = list(islice(documents, self.num_learned))
        if not train_texts:
            num_held_out = sum(self.num_held_out.values())
            raise DataError(
                f"{self.published} has no document left after data.num_validation and data.num_test, {num_held_out} in "
                f"sum: "
                f"lower them."
            )
        return {"train": train_texts, **held_out}

    def _first_documents(self) -> Iterator[tuple[int, str]]:
        """Yield each distinct text in the order of the files, with the number of its shard among all."""
        seen = set()
        for number, shard in enumerate(self._listed):
            for text in texts_of(self.addresses[shard.file], shard.row_group, self.text_column):
                if text.strip() and (digest := digest_of_text(text)) not in seen:
                    seen.add(digest)
                    yield number, text

    @cached_property
    def _listed(self) -> list[Shard]:
        """Read the shards from the files' footers once, and store them among the facts."""
        return shards_of(self.addresses, self.text_column)

    def make(self) -> PreparedContent:
        """Prepare the content; the train stream begins with the first shard that is not held out as a whole, so that
        there is a row 0."""
        made = super().make()
        documents = list(islice(self._first_documents(), sum(self.num_held_out.values()) + 1))
        held_out = [digest_of_text(text) for _, text in documents[:-1]]
        shards = [[shard.file, shard.row_group, shard.num_rows] for shard in self._listed[documents[-1][0] :]]
        leaks = {**made.facts[LEAKS], "of_all": False}
        return PreparedContent(made.tables, {**made.facts, "held_out": held_out, "units": shards, LEAKS: leaks})

    def open_split(self, name: SplitName) -> Split:
        if name != "train":
            return super().open_split(name)
        special = self.tokenizer.special if self._form.packing == "apart" else None
        return StreamedRows(
            self,
            name,
            self._cache(),
            {number: shard.num_rows for number, shard in enumerate(self._shards) if shard.num_rows},
            row_length=self._form.context_length + 1,
            lanes=self.lanes,
            window=self.shuffle_buffer,
            borders=special,
            tokenizer=self.tokenizer,
        )

    def _cache(self) -> ShardCache:
        """Return the cache shared by all runs on this machine that read the same texts with the same tokenizer,
        whatever their seeds."""
        content = {"content": self.content.digest, "code": code_digest(type(self)), **self.parameters()}
        folder = cache_root() / f"{self.name}_units" / fingerprint(content)
        return ShardCache(folder, self._tokens_of, max_bytes=int(self.keep_gigabytes * _GIGABYTE))

    @cached_property
    def _shards(self) -> list[Shard]:
        return [Shard(*entry) for entry in self.content.facts["units"]]

    @cached_property
    def _held_out(self) -> frozenset[str]:
        return frozenset(self.content.facts["held_out"])

    def _tokens_of(self, number: int) -> Table | None:
        shard = self._shards[number]
        texts = texts_of(self.addresses[shard.file], shard.row_group, self.text_column)
        remaining = [text for text in texts if text.strip() and digest_of_text(text) not in self._held_out]
        return encoded(self.tokenizer, remaining) if remaining else None

    def __getstate__(self) -> dict[str, Any]:
        """Drop the listing of a repository, which may be long, before pickling."""
        unsent = ("located", "addresses", "_listed", "_units", "_held_out")
        return {name: value for name, value in super().__getstate__().items() if name not in unsent}


def digest_of_text(text: str) -> str:
    """Return a digest that is the same for texts that differ only in case and white space."""
    alike = " ".join(text.casefold().split())
    return hashlib.blake2b(alike.encode(errors="surrogatepass"), digest_size=12).hexdigest()

"""A published corpus too large for a disk: read in pieces as training goes on, tokenized ahead of it, and let go."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar

from headtohead.data.caching import Prepared, fingerprint
from headtohead.data.contracts import DataError, Split, SplitName
from headtohead.data.hub.locating import Located, located
from headtohead.data.hub.published import Published
from headtohead.data.language import LanguageSource, Packing, encoded
from headtohead.data.leaks import LEAKS
from headtohead.data.places import cache_root
from headtohead.data.source import code_digest
from headtohead.data.storage import Table
from headtohead.data.streaming.rows import StreamedRows
from headtohead.data.streaming.shelf import Shelf
from headtohead.data.streaming.units import Unit, texts_of, units_of
from headtohead.data.tokenizers import TokenizerName
from headtohead.ranges import BatchSize, Count, Length, Positive, Rows, Vocabulary

_GIGABYTE = 10**9


class StreamedCorpus(LanguageSource):
    """Parquet files of documents. The first documents are held out, the same under every seed, and no text of the train
    stream is one of theirs, whatever its case and white space; a tokenizer that is learned here learns from the
    documents after them."""

    name: ClassVar[str] = "stream"

    def __init__(
        self,
        *,
        name: str | None = None,
        subset: str | None = None,
        revision: str | None = None,
        folder: str | None = None,
        train_split: str = "train",
        text_column: str = "text",
        num_validation: Rows = 1_000,
        num_test: Rows = 1_000,
        num_learned: Rows = 20_000,
        lanes: Count = 8,
        shuffle_buffer: Rows = 10_000,
        keep_gigabytes: Positive = 10.0,
        context_length: Length = 128,
        batch_size: BatchSize = 32,
        tokenizer: TokenizerName = "bpe",
        vocab_size: Vocabulary | None = None,
        packing: Packing = "apart",
        about: dict[str, str] | None = None,
    ) -> None:
        super().__init__(
            context_length=context_length,
            batch_size=batch_size,
            tokenizer=tokenizer,
            vocab_size=vocab_size,
            packing=packing,
        )
        if packing == "none":
            raise DataError(
                "data.packing=none pads each document to the longest of its batch, which a stream does not know: "
                "choose apart or stream."
            )
        counts = {
            "num_validation": num_validation,
            "num_test": num_test,
            "num_learned": num_learned,
            "lanes": lanes,
            "shuffle_buffer": shuffle_buffer,
        }
        for field, value in counts.items():
            if value < 1:
                raise DataError(f"data.{field}={value} must be at least 1.")
        if keep_gigabytes <= 0:
            raise DataError(f"data.keep_gigabytes={keep_gigabytes} must be above 0.")
        self.published, self.train_split, self.text_column = (
            Published(name, subset, revision, folder), train_split, text_column,
        )  # fmt: skip
        self.num_held_out: dict[SplitName, int] = {"test": num_test, "validation": num_validation}
        self.num_learned, self.lanes, self.shuffle_buffer = num_learned, lanes, shuffle_buffer
        self.keep_gigabytes, self.about = keep_gigabytes, about

    @cached_property
    def located(self) -> Located:
        return located(self.published)

    @cached_property
    def addresses(self) -> list[str]:
        return self.located.addresses(self.train_split)

    def sample_parameters(self) -> Mapping[str, Any]:
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

    def settled(self) -> Mapping[str, Any]:
        return self.located.settled()

    def view_parameters(self) -> Mapping[str, Any]:
        return {**super().view_parameters(), "lanes": self.lanes, "shuffle_buffer": self.shuffle_buffer}

    def samples(self) -> Mapping[SplitName, Sequence[str]]:
        """The held-out documents, and under `train` those that a tokenizer learns from; none of them twice."""
        documents = (text for _, text in self._first_documents())
        held_out = {name: list(islice(documents, number)) for name, number in self.num_held_out.items()}
        learned = list(islice(documents, self.num_learned))
        if not learned:
            wanted = sum(self.num_held_out.values())
            raise DataError(
                f"{self.published} has no document left after data.num_validation and data.num_test, {wanted} in sum: "
                f"lower them."
            )
        return {"train": learned, **held_out}

    def _first_documents(self) -> Iterator[tuple[int, str]]:
        """In the order of the files, each text once, with the number of its unit among all."""
        seen = set()
        for number, unit in enumerate(self._listed):
            for text in texts_of(self.addresses[unit.file], unit.row_group, self.text_column):
                if text.strip() and (digest := digest_of_text(text)) not in seen:
                    seen.add(digest)
                    yield number, text

    @cached_property
    def _listed(self) -> list[Unit]:
        """Read from the ends of the files: once, and then kept among the facts."""
        return units_of(self.addresses, self.text_column)

    def make(self) -> Prepared:
        """The train stream begins with the first unit that is not held out as a whole, so that there is a row 0."""
        made = super().make()
        documents = list(islice(self._first_documents(), sum(self.num_held_out.values()) + 1))
        held_out = [digest_of_text(text) for _, text in documents[:-1]]
        units = [[unit.file, unit.row_group, unit.num_rows] for unit in self._listed[documents[-1][0] :]]
        leaks = {**made.facts[LEAKS], "of_all": False}
        return Prepared(made.tables, {**made.facts, "held_out": held_out, "units": units, LEAKS: leaks})

    def open_split(self, name: SplitName) -> Split:
        if name != "train":
            return super().open_split(name)
        special = self.tokenizer.special if self._form.packing == "apart" else None
        return StreamedRows(
            self,
            name,
            self._shelf(),
            {number: unit.num_rows for number, unit in enumerate(self._units) if unit.num_rows},
            row_length=self._form.context_length + 1,
            lanes=self.lanes,
            window=self.shuffle_buffer,
            borders=special,
            tokenizer=self.tokenizer,
        )

    def _shelf(self) -> Shelf:
        """Shared by all runs on this machine that read the same texts in the same tokens, whatever their seeds."""
        content = {"content": self.content.digest, "code": code_digest(type(self)), **self.parameters()}
        folder = cache_root() / f"{self.name}_units" / fingerprint(content)
        return Shelf(folder, self._tokens_of, room=int(self.keep_gigabytes * _GIGABYTE))

    @cached_property
    def _units(self) -> list[Unit]:
        return [Unit(*entry) for entry in self.content.facts["units"]]

    @cached_property
    def _held_out(self) -> frozenset[str]:
        return frozenset(self.content.facts["held_out"])

    def _tokens_of(self, number: int) -> Table | None:
        unit = self._units[number]
        texts = texts_of(self.addresses[unit.file], unit.row_group, self.text_column)
        kept = [text for text in texts if text.strip() and digest_of_text(text) not in self._held_out]
        return encoded(self.tokenizer, kept) if kept else None

    def __getstate__(self) -> dict[str, Any]:
        """The listing of a repository, which may be long, does not travel."""
        unsent = ("located", "addresses", "_listed", "_units", "_held_out")
        return {name: value for name, value in super().__getstate__().items() if name not in unsent}


def digest_of_text(text: str) -> str:
    """The same for texts that differ in their case and white space alone."""
    alike = " ".join(text.casefold().split())
    return hashlib.blake2b(alike.encode(errors="surrogatepass"), digest_size=12).hexdigest()

"""From what was asked to the retrievers that answer: runs as they are, and what is built on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from headtohead.building.errors import ConfigurationError
from headtohead.examining.finished import FinishedRun, open_run
from headtohead.examining.retrieval.collection import Collection
from headtohead.examining.retrieval.cross_encoder import CrossEncoder
from headtohead.examining.retrieval.embedder import BATCH_SIZE, Embedder
from headtohead.examining.retrieval.index import Scales, build, check_scales, in_8_bits
from headtohead.examining.retrieval.retrievers import Dense, Fused, Lexical, ReadTogether, Reranked, Retriever

BM25 = "bm25"
NUM_JUDGED = 100
"""Documents that a cross-encoder reads for a query, unless another number is given."""


@dataclass(frozen=True)
class Options:
    """Beside the plain search by cosine."""

    pooling: str | None = None
    batch_size: int = BATCH_SIZE
    int8: Scales | None = None
    rerank: int | None = None
    """So many documents of BM25 are put in the order of each run's cosines."""
    fuse: bool = False
    cross_encoder: str | None = None
    relevant_class: str | None = None

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ConfigurationError(f"--batch-size {self.batch_size} must be at least 1")
        if self.int8 is not None:
            check_scales(self.int8)
        if self.relevant_class is not None and self.cross_encoder is None:
            raise ConfigurationError(f"--relevant-class {self.relevant_class} is of a --cross-encoder: give its run")


class Chosen:
    """The retrievers of some runs over one collection; what several need is made once."""

    def __init__(self, paths: Sequence[str], collection: Collection, options: Options) -> None:
        self.collection, self.options = collection, options
        runs = [open_run(path) for path in paths if path != BM25]
        self.names_bm25 = BM25 in paths
        self.plain = [self._dense(run, name) for run, name in zip(runs, _names(runs), strict=True)]

    @cached_property
    def lexical(self) -> Lexical:
        return Lexical(self.collection)

    @cached_property
    def built(self) -> list[Retriever]:
        """What the options ask for besides, of each run."""
        options, found = self.options, list[Retriever]()
        for one in self.plain:
            if options.int8 is not None:
                rounded = in_8_bits(one.embedder, self.collection, one.index, options.int8)
                found.append(Dense(f"{one.name} int8", "retrieval_int8", one.embedder, rounded))
            if options.rerank is not None:
                found.append(Reranked(self.lexical, one, options.rerank))
            if options.fuse:
                found.append(Fused(self.lexical, one))
        return [*found, *self._judged()]

    @property
    def measured(self) -> list[Retriever]:
        """All of them, BM25 first."""
        return [self.lexical, *self.plain, *self.built]

    @property
    def asked(self) -> list[Retriever]:
        """What the options ask for, else the runs as they are."""
        plain = [*([self.lexical] if self.names_bm25 else []), *self.plain]
        return self.built or plain

    def _judged(self) -> list[Retriever]:
        options = self.options
        if options.cross_encoder is None:
            return []
        run = open_run(options.cross_encoder)
        judge = CrossEncoder(run, options.relevant_class, options.batch_size)
        number = options.rerank or NUM_JUDGED
        name = run.record.name or run.record.id
        return [ReadTogether(first, judge, self.collection, number, name) for first in (self.lexical, *self.plain)]

    def _dense(self, run: FinishedRun, name: str) -> Dense:
        embedder = Embedder(run, self.options.pooling, self.options.batch_size)
        return Dense(name, "retrieval", embedder, build(embedder, self.collection))


def _names(runs: Sequence[FinishedRun]) -> list[str]:
    """Of the runs, or their ids where two have one name, or that of BM25."""
    names = [run.record.name or run.record.id for run in runs]
    return [
        run.record.id if names.count(name) > 1 or name == BM25 else name for run, name in zip(runs, names, strict=True)
    ]

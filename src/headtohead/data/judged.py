"""Texts, or pairs of texts, with one judgment each, a class or a grade, padded batch by batch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch

from headtohead.data.batch import Batch
from headtohead.data.caching import Prepared
from headtohead.data.contracts import SPLIT_NAMES, SplitName
from headtohead.data.reading_facts import cutting_facts, share_cut
from headtohead.data.rows import as_tensor, padded
from headtohead.data.source import CachedSource, CachedSplit
from headtohead.data.storage import Ragged, Table, numbers, ragged
from headtohead.data.texts import Decode, Form, Place, TextSource, check_text
from headtohead.data.tokenizers import SpecialIds, Tokenizer, shortened

Judged = TypeVar("Judged", bound=tuple[Any, ...])
"""One text or two, then the judgment."""


class JudgedForm(Form[Judged]):
    """A row is a start token, the text and an end token: the first can be pooled, and so can the last. Of a pair, each
    text has its end token, and token types tell them apart."""

    judgment: ClassVar[str]
    """Its name, in tables and for people."""
    max_length: int | None

    @abstractmethod
    def judgments(
        self, samples: Mapping[SplitName, Sequence[Judged]], place: Place
    ) -> tuple[Mapping[SplitName, np.ndarray], Mapping[str, Any]]:
        """Numbers of all samples, checked, and facts that tell what the numbers mean."""

    @abstractmethod
    def told(self, judgment: float, facts: Mapping[str, Any]) -> Any:
        """A number of these as a person would write it."""

    def parameters(self) -> Mapping[str, Any]:
        return {"max_length": self.max_length}

    def texts(self, sample: Judged) -> Iterable[str]:
        return _texts_of(sample)

    def prepared(self, samples: Mapping[SplitName, Sequence[Judged]], tokenizer: Tokenizer, place: Place) -> Prepared:
        judgments, facts = self.judgments(samples, place)
        tables: dict[str, Table] = {}
        cut: dict[str, float] = {}
        for name in SPLIT_NAMES:
            for row, sample in enumerate(samples[name]):
                for text in _texts_of(sample):
                    check_text(text, "text", place, name, row)
            columns = zip(*(_texts_of(sample) for sample in samples[name]), strict=True)
            whole = [tokenizer.encode(texts) for texts in columns]
            parts = shortened(whole, self.max_length)
            cut[name] = share_cut(whole, parts)
            first = {"first": parts[0].lengths + 2} if len(parts) == 2 else {}
            tables[name] = {"tokens": tokenizer.framed(*parts), self.judgment: judgments[name], **first}
        return Prepared(tables, {**facts, **cutting_facts(self.max_length, cut)})

    def rows(self, source: TextSource, name: SplitName, table: Table) -> JudgedRows:
        first = numbers(table, "first") if "first" in table else None
        judgments = numbers(table, self.judgment)
        return JudgedRows(source, name, ragged(table, "tokens"), judgments, source.bucket_by_length, first)

    def described(self, batch: Batch, content: Prepared, decode: Decode) -> list[dict[str, Any]]:
        assert batch.tokens is not None and batch.targets is not None
        samples = []
        for place, (row, judgment) in enumerate(zip(batch.rows, batch.targets, strict=True)):
            tokens = batch.tokens[place].numpy()
            texts = {"text": decode(tokens.tolist())}
            if batch.token_types is not None:
                end = SpecialIds.of(content.facts.get("tokenizer", {})).border(tokens)
                texts = {"text": decode(tokens[:end].tolist()), "second text": decode(tokens[end:].tolist())}
            samples.append({"row": int(row), **texts, self.judgment: self.told(judgment.item(), content.facts)})
        return samples


class JudgedRows(CachedSplit):
    """Padded to the longest of the batch."""

    def __init__(
        self,
        source: CachedSource,
        name: SplitName,
        tokens: Ragged,
        judgments: np.ndarray,
        bucket_by_length: bool,
        first: np.ndarray | None = None,
    ) -> None:
        """`first` are the lengths of the first texts of pairs, with start and end."""
        super().__init__(source, name)
        self._tokens, self._judgments, self._first, self._bucket_by_length = tokens, judgments, first, bucket_by_length

    def __len__(self) -> int:
        return len(self._judgments)

    def lengths(self) -> np.ndarray | None:
        return self._tokens.lengths if self._bucket_by_length else None

    def batch(self, rows: np.ndarray) -> Batch:
        tokens, valid = padded(self._tokens.values, self._tokens.offsets[rows], self._tokens.lengths[rows])
        judgments = self._judgments[rows]
        return Batch(
            rows=as_tensor(rows),
            tokens=as_tensor(tokens),
            valid=torch.from_numpy(valid),
            token_types=None if self._first is None else second_part(valid, self._first[rows]),
            targets=torch.tensor(judgments) if judgments.dtype.kind == "f" else as_tensor(judgments),
        )


def second_part(valid: np.ndarray, first: np.ndarray) -> torch.Tensor:
    """1 for the tokens after the first part, whose lengths are given; 0 for it, and for padding."""
    return as_tensor(valid & (np.arange(valid.shape[1]) >= first[:, None]))


def _texts_of(sample: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(str(text) for text in sample[:-1])

"""Texts, or pairs of texts, with a number each: how alike two sentences are, how many stars a review gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from headtohead.data.batch import Batch
from headtohead.data.caching import Prepared
from headtohead.data.contracts import SPLIT_NAMES, DataSpec, SplitName
from headtohead.data.labelled import second_part
from headtohead.data.reading_facts import cutting_facts, share_cut
from headtohead.data.rows import as_tensor, padded
from headtohead.data.source import CachedSource, CachedSplit
from headtohead.data.storage import Ragged, Table, numbers, ragged
from headtohead.data.texts import Decode, Form, Place, TextSource, check_text, longest
from headtohead.data.tokenizers import SpecialIds, Tokenizer, shortened

Scored = tuple[str, float]
ScoredPair = tuple[str, str, float]


class ScoredForm(Form[Scored | ScoredPair]):
    """A row is a start token, the text and an end token; of a pair, each text has its end token, and token types tell
    them apart."""

    kind = "scored_text"

    def __init__(self, max_length: int | None = None) -> None:
        self.max_length = max_length

    def parameters(self) -> Mapping[str, Any]:
        return {"max_length": self.max_length}

    def texts(self, sample: Scored | ScoredPair) -> Iterable[str]:
        return _texts_of(sample)

    def prepared(
        self, samples: Mapping[SplitName, Sequence[Scored | ScoredPair]], tokenizer: Tokenizer, place: Place
    ) -> Prepared:
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
            scores = np.array([sample[-1] for sample in samples[name]], dtype=np.float64)
            tables[str(name)] = {"tokens": tokenizer.framed(*parts), "score": scores, **first}
        return Prepared(tables, cutting_facts(self.max_length, cut))

    def spec(self, content: Prepared) -> DataSpec:
        scores = numbers(content.tables["train"], "score")
        return DataSpec(
            kind=self.kind,
            num_texts=2 if "first" in content.tables["train"] else 1,
            max_length=longest(content, "tokens"),
            score_mean=float(scores.mean()),
            score_deviation=float(scores.std()),
        )

    def rows(self, source: TextSource, name: SplitName, table: Table) -> ScoredRows:
        first = numbers(table, "first") if "first" in table else None
        return ScoredRows(
            source, name, ragged(table, "tokens"), numbers(table, "score"), source.bucket_by_length, first
        )

    def described(self, batch: Batch, content: Prepared, decode: Decode) -> list[dict[str, Any]]:
        assert batch.tokens is not None and batch.targets is not None
        samples = []
        for place, (row, score) in enumerate(zip(batch.rows, batch.targets, strict=True)):
            tokens = batch.tokens[place].numpy()
            texts = {"text": decode(tokens.tolist())}
            if batch.token_types is not None:
                end = SpecialIds.of(content.facts.get("tokenizer", {})).border(tokens)
                texts = {"text": decode(tokens[:end].tolist()), "second text": decode(tokens[end:].tolist())}
            samples.append({"row": int(row), **texts, "score": float(score)})
        return samples


class ScoredRows(CachedSplit):
    """Padded to the longest of the batch."""

    def __init__(
        self,
        source: CachedSource,
        name: SplitName,
        tokens: Ragged,
        scores: np.ndarray,
        bucket_by_length: bool,
        first: np.ndarray | None = None,
    ) -> None:
        """`first` are the lengths of the first texts of pairs, with start and end."""
        super().__init__(source, name)
        self._tokens, self._scores, self._first, self._bucket_by_length = tokens, scores, first, bucket_by_length

    def __len__(self) -> int:
        return len(self._scores)

    def lengths(self) -> np.ndarray | None:
        return self._tokens.lengths if self._bucket_by_length else None

    def batch(self, rows: np.ndarray) -> Batch:
        tokens, valid = padded(self._tokens.values, self._tokens.offsets[rows], self._tokens.lengths[rows])
        return Batch(
            rows=as_tensor(rows),
            tokens=as_tensor(tokens),
            valid=torch.from_numpy(valid),
            token_types=None if self._first is None else second_part(valid, self._first[rows]),
            targets=torch.tensor(self._scores[rows]),
        )


def _texts_of(sample: Scored | ScoredPair) -> tuple[str, ...]:
    return tuple(str(text) for text in sample[:-1])

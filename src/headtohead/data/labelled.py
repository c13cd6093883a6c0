"""Texts with one label each, or pairs of texts with one label a pair, padded batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch

from headtohead.data.batch import Batch
from headtohead.data.caching import Prepared
from headtohead.data.classes import Classes, Label, class_shares
from headtohead.data.contracts import SPLIT_NAMES, DataSpec, SplitName
from headtohead.data.reading_facts import cutting_facts, share_cut
from headtohead.data.rows import as_tensor, padded
from headtohead.data.source import CachedSource, CachedSplit
from headtohead.data.storage import Ragged, Table, numbers, ragged, smallest_integer
from headtohead.data.texts import Decode, Form, Place, TextSource, check_text, longest
from headtohead.data.tokenizers import SpecialIds, Tokenizer, shortened

Labelled = tuple[str, Label]
LabelledPair = tuple[str, str, Label]
"""The label is the number of a class, or its name."""


class LabelledForm(Form[Labelled | LabelledPair]):
    """A row is a start token, the text and an end token: the first can be pooled, and so can the last. Of a pair, each
    text has its end token, and token types tell them apart."""

    kind = "labelled_text"

    def __init__(self, class_names: Sequence[str] | None = None, max_length: int | None = None) -> None:
        """Without names, the classes are the labels of the train split."""
        self.class_names, self.max_length = class_names, max_length

    def parameters(self) -> Mapping[str, Any]:
        return {"class_names": self.class_names, "max_length": self.max_length}

    def texts(self, sample: Labelled | LabelledPair) -> Iterable[str]:
        return _texts_of(sample)

    def prepared(
        self, samples: Mapping[SplitName, Sequence[Labelled | LabelledPair]], tokenizer: Tokenizer, place: Place
    ) -> Prepared:
        given = self.class_names
        classes = Classes(tuple(given)) if given else Classes.found(sample[-1] for sample in samples["train"])
        tables: dict[str, Table] = {}
        cut: dict[str, float] = {}
        for name in SPLIT_NAMES:
            labels = np.zeros(len(samples[name]), dtype=smallest_integer(len(classes.names)))
            for row, sample in enumerate(samples[name]):
                labels[row] = classes.number_of(sample[-1], "label", partial(place, name, row))
                for text in _texts_of(sample):
                    check_text(text, "text", place, name, row)
            columns = zip(*(_texts_of(sample) for sample in samples[name]), strict=True)
            whole = [tokenizer.encode(texts) for texts in columns]
            parts = shortened(whole, self.max_length)
            cut[name] = share_cut(whole, parts)
            first = {"first": parts[0].lengths + 2} if len(parts) == 2 else {}
            tables[str(name)] = {"tokens": tokenizer.framed(*parts), "label": labels, **first}
        return Prepared(tables, {"class_names": classes.names, **cutting_facts(self.max_length, cut)})

    def spec(self, content: Prepared) -> DataSpec:
        names = tuple(content.facts["class_names"])
        return DataSpec(
            kind=self.kind,
            num_texts=2 if "first" in content.tables["train"] else 1,
            max_length=longest(content, "tokens"),
            num_classes=len(names),
            class_names=names,
            class_shares=class_shares(numbers(content.tables["train"], "label"), len(names)),
        )

    def rows(self, source: TextSource, name: SplitName, table: Table) -> LabelledRows:
        first = numbers(table, "first") if "first" in table else None
        return LabelledRows(
            source, name, ragged(table, "tokens"), numbers(table, "label"), source.bucket_by_length, first
        )

    def described(self, batch: Batch, content: Prepared, decode: Decode) -> list[dict[str, Any]]:
        assert batch.tokens is not None and batch.targets is not None
        samples = []
        for place, (row, label) in enumerate(zip(batch.rows, batch.targets, strict=True)):
            tokens = batch.tokens[place].numpy()
            texts = {"text": decode(tokens.tolist())}
            if batch.token_types is not None:
                end = SpecialIds.of(content.facts.get("tokenizer", {})).border(tokens)
                texts = {"text": decode(tokens[:end].tolist()), "second text": decode(tokens[end:].tolist())}
            samples.append({"row": int(row), **texts, "label": content.facts["class_names"][int(label)]})
        return samples


class LabelledSource(TextSource):
    """A source of labelled texts that knows its classes."""

    kind = "labelled_text"
    class_names: ClassVar[tuple[str, ...]]

    @property
    def form(self) -> LabelledForm:
        return LabelledForm(self.class_names)


class LabelledRows(CachedSplit):
    """Padded to the longest of the batch."""

    def __init__(
        self,
        source: CachedSource,
        name: SplitName,
        tokens: Ragged,
        labels: np.ndarray,
        bucket_by_length: bool,
        first: np.ndarray | None = None,
    ) -> None:
        """`first` are the lengths of the first texts of pairs, with start and end."""
        super().__init__(source, name)
        self._tokens, self._labels, self._first, self._bucket_by_length = tokens, labels, first, bucket_by_length

    def __len__(self) -> int:
        return len(self._labels)

    def lengths(self) -> np.ndarray | None:
        return self._tokens.lengths if self._bucket_by_length else None

    def batch(self, rows: np.ndarray) -> Batch:
        tokens, valid = padded(self._tokens.values, self._tokens.offsets[rows], self._tokens.lengths[rows])
        return Batch(
            rows=as_tensor(rows),
            tokens=as_tensor(tokens),
            valid=torch.from_numpy(valid),
            token_types=None if self._first is None else second_part(valid, self._first[rows]),
            targets=as_tensor(self._labels[rows]),
        )


def second_part(valid: np.ndarray, first: np.ndarray) -> torch.Tensor:
    """1 for the tokens after the first part, whose lengths are given; 0 for it, and for padding."""
    return as_tensor(valid & (np.arange(valid.shape[1]) >= first[:, None]))


def _texts_of(sample: Labelled | LabelledPair) -> tuple[str, ...]:
    return tuple(str(text) for text in sample[:-1])

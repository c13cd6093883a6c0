"""Texts, or pairs of texts, with one judgment each, a class or a grade, padded batch by batch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch

from headtohead.data.batches.batch import Batch
from headtohead.data.cache.arrow_columns import Ragged, Table, numbers, ragged, smallest_integer
from headtohead.data.cache.cached_source import CachedSource, CachedSplit
from headtohead.data.cache.prepared_content import PreparedContent
from headtohead.data.data_source import SPLIT_NAMES, DataSpec, SplitName
from headtohead.data.row_formats.class_names import Classes, Label, class_shares
from headtohead.data.row_formats.text_source import Decode, RowFormat, SampleOrigin, TextSource, check_text, longest
from headtohead.data.row_formats.token_rows import as_tensor, padded
from headtohead.data.tokenizers import SpecialIds, Tokenizer, shortened
from headtohead.data.tokenizers.tokenization_facts import cutting_facts, share_cut

LabelledText = TypeVar("LabelledText", bound=tuple[Any, ...])
"""One text or two, then the judgment."""


class LabelledTextFormat(RowFormat[LabelledText]):
    """A row is a start token, the text and an end token: the first can be pooled, and so can the last. In a pair, each
    text has its end token, and token types distinguish them."""

    target_name: ClassVar[str]
    """Its name, in tables and for people."""
    max_length: int | None

    @abstractmethod
    def targets(
        self, samples: Mapping[SplitName, Sequence[LabelledText]], index: SampleOrigin
    ) -> tuple[Mapping[SplitName, np.ndarray], Mapping[str, object]]:
        """Return the judgments of all samples as checked numbers, and facts that give the numbers their meaning."""

    @abstractmethod
    def describe_target(self, target_name: float, facts: Mapping[str, object]) -> Any:
        """Return a judgment as a person would write it."""

    def parameters(self) -> Mapping[str, object]:
        return {"max_length": self.max_length}

    def texts(self, sample: LabelledText) -> Iterable[str]:
        return _texts_of(sample)

    def prepared(
        self, samples: Mapping[SplitName, Sequence[LabelledText]], tokenizer: Tokenizer, index: SampleOrigin
    ) -> PreparedContent:
        targets, facts = self.targets(samples, index)
        tables: dict[str, Table] = {}
        cut: dict[str, float] = {}
        for name in SPLIT_NAMES:
            for row, sample in enumerate(samples[name]):
                for text in _texts_of(sample):
                    check_text(text, "text", index, name, row)
            columns = zip(*(_texts_of(sample) for sample in samples[name]), strict=True)
            untruncated = [tokenizer.encode(texts) for texts in columns]
            parts = shortened(untruncated, self.max_length)
            cut[name] = share_cut(untruncated, parts)
            first = {"first": parts[0].lengths + 2} if len(parts) == 2 else {}
            tables[name] = {"tokens": tokenizer.framed(*parts), self.target_name: targets[name], **first}
        return PreparedContent(tables, {**facts, **cutting_facts(self.max_length, cut)})

    def rows(self, source: TextSource, name: SplitName, table: Table) -> LabelledTextRows:
        first = numbers(table, "first") if "first" in table else None
        targets = numbers(table, self.target_name)
        return LabelledTextRows(source, name, ragged(table, "tokens"), targets, source.bucket_by_length, first)

    def described(self, batch: Batch, content: PreparedContent, decode: Decode) -> list[dict[str, Any]]:
        assert batch.tokens is not None and batch.targets is not None
        samples = []
        for index, (row, target_name) in enumerate(zip(batch.rows, batch.targets, strict=True)):
            tokens = batch.tokens[index].numpy()
            texts = {"text": decode(tokens.tolist())}
            if batch.token_types is not None:
                end = SpecialIds.of(content.facts.get("tokenizer", {})).border(tokens)
                texts = {"text": decode(tokens[:end].tolist()), "second text": decode(tokens[end:].tolist())}
            samples.append(
                {"row": int(row), **texts, self.target_name: self.describe_target(target_name.item(), content.facts)}
            )
        return samples


class LabelledTextRows(CachedSplit):
    """Padded to the longest of the batch."""

    def __init__(
        self,
        source: CachedSource,
        name: SplitName,
        tokens: Ragged,
        targets: np.ndarray,
        bucket_by_length: bool,
        first: np.ndarray | None = None,
    ) -> None:
        """Set up the rows; `first` holds the lengths of the first texts of pairs, with start and end."""
        super().__init__(source, name)
        self._tokens, self._judgments, self._first, self._bucket_by_length = tokens, targets, first, bucket_by_length

    def __len__(self) -> int:
        return len(self._judgments)

    def lengths(self) -> np.ndarray | None:
        return self._tokens.lengths if self._bucket_by_length else None

    def batch(self, rows: np.ndarray) -> Batch:
        tokens, valid = padded(self._tokens.values, self._tokens.offsets[rows], self._tokens.lengths[rows])
        targets = self._judgments[rows]
        return Batch(
            rows=as_tensor(rows),
            tokens=as_tensor(tokens),
            valid=torch.from_numpy(valid),
            token_types=None if self._first is None else second_segment(valid, self._first[rows]),
            targets=torch.tensor(targets) if targets.dtype.kind == "f" else as_tensor(targets),
        )


def second_segment(valid: np.ndarray, first: np.ndarray) -> torch.Tensor:
    """Return 1 for the tokens after the first part, whose lengths are given; 0 for it, and for padding."""
    return as_tensor(valid & (np.arange(valid.shape[1]) >= first[:, None]))


def _texts_of(sample: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(str(text) for text in sample[:-1])


Scored = tuple[str, float]
ScoredPair = tuple[str, str, float]


class ScoreFormat(LabelledTextFormat[Scored | ScoredPair]):
    """Each text has a grade, any number."""

    kind = "scored_text"
    target_name = "score"

    def __init__(self, max_length: int | None = None) -> None:
        self.max_length = max_length

    def targets(
        self, samples: Mapping[SplitName, Sequence[Scored | ScoredPair]], index: SampleOrigin
    ) -> tuple[Mapping[SplitName, np.ndarray], Mapping[str, object]]:
        del index
        return {name: np.array([one[-1] for one in own], dtype=np.float64) for name, own in samples.items()}, {}

    def describe_target(self, target_name: float, facts: Mapping[str, object]) -> Any:
        del facts
        return target_name

    def spec(self, content: PreparedContent) -> DataSpec:
        scores = numbers(content.tables["train"], "score")
        return DataSpec(
            kind=self.kind,
            num_texts=2 if "first" in content.tables["train"] else 1,
            max_length=longest(content, "tokens"),
            score_mean=float(scores.mean()),
            score_deviation=float(scores.std()),
        )


Labelled = tuple[str, Label]
LabelledPair = tuple[str, str, Label]
"""The label is the number of a class, or its name."""


class ClassFormat(LabelledTextFormat[Labelled | LabelledPair]):
    """Each text is of a class."""

    kind = "labelled_text"
    target_name = "label"

    def __init__(self, class_names: Sequence[str] | None = None, max_length: int | None = None) -> None:
        """Set up the format; without names, the classes are the labels of the train split."""
        self.class_names, self.max_length = class_names, max_length

    def parameters(self) -> Mapping[str, object]:
        return {"class_names": self.class_names, **super().parameters()}

    def classes_in(self, sample: Labelled | LabelledPair) -> Sequence[Label]:
        return () if self.class_names else (sample[-1],)

    def targets(
        self, samples: Mapping[SplitName, Sequence[Labelled | LabelledPair]], index: SampleOrigin
    ) -> tuple[Mapping[SplitName, np.ndarray], Mapping[str, object]]:
        class_names = self.class_names
        classes = (
            Classes(tuple(class_names))
            if class_names
            else Classes.from_labels(sample[-1] for sample in samples["train"])
        )
        dtype = smallest_integer(len(classes.names))
        labels = {
            name: np.array(
                [classes.number_of(one[-1], "label", partial(index, name, row)) for row, one in enumerate(own)],
                dtype=dtype,
            )
            for name, own in samples.items()
        }
        return labels, {"class_names": classes.names}

    def describe_target(self, target_name: float, facts: Mapping[str, Any]) -> Any:
        return facts["class_names"][int(target_name)]

    def spec(self, content: PreparedContent) -> DataSpec:
        names = tuple(content.facts["class_names"])
        return DataSpec(
            kind=self.kind,
            num_texts=2 if "first" in content.tables["train"] else 1,
            max_length=longest(content, "tokens"),
            num_classes=len(names),
            class_names=names,
            class_shares=class_shares(numbers(content.tables["train"], "label"), len(names)),
        )


class LabelledSource(TextSource):
    """A source of labelled texts that knows its classes."""

    kind = "labelled_text"
    class_names: ClassVar[tuple[str, ...]]

    @property
    def form(self) -> ClassFormat:
        return ClassFormat(self.class_names)

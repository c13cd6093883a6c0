"""Procedural tasks share one decoding of ids, and one conversion of problems into the rows of each form."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch

from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.cache.arrow_columns import Ragged, numbers, ragged
from headtohead.data.cache.cached_source import CachedSource, CachedSplit
from headtohead.data.cache.prepared_content import PreparedContent
from headtohead.data.data_source import SPLIT_NAMES, DataError, DataSpec, Split, SplitName
from headtohead.data.generated.problem_forms import (
    FIRST_ID,
    AnswerSpan,
    Layout,
    ProblemForm,
    Problems,
    keys_of,
    rendered,
    spec_of_answers,
)
from headtohead.data.row_formats.labelled_text import ClassFormat, LabelledTextRows
from headtohead.data.row_formats.text_pairs import PairFormat, PairRows
from headtohead.data.row_formats.text_source import longest
from headtohead.data.row_formats.token_rows import as_tensor, padded
from headtohead.data.splits.sample_splits import only_test
from headtohead.data.tokenizers import BOS, EOS, PAD, SPECIAL_TOKENS


class ProceduralSource(CachedSource):
    """Subclasses provide the problems of each split; their form determines the rows, and for which tasks."""

    draws_its_rows = True
    forms: ClassVar[tuple[ProblemForm, ...]]
    layout: ClassVar[Layout] = "after"
    separator: ClassVar[str] = ">"
    """Stands between prompt and answer."""

    def __init__(
        self,
        *,
        form: ProblemForm,
        symbols: Sequence[str],
        class_names: Sequence[str] = (),
        batch_size: int,
        seed: int,
    ) -> None:
        super().__init__(batch_size)
        if form not in self.forms:
            raise DataError(f"data.form={form} is not a form of data={self.name}: choose {' or '.join(self.forms)}.")
        self.form, self.seed = form, seed
        self.symbols = (*symbols, self.separator) if self.layout == "after" else tuple(symbols)
        self.class_names = tuple(class_names)

    @abstractmethod
    def problems(self, name: SplitName) -> Problems:
        """Return the problems of a split, in any order: no prompt is in two splits, nor twice in one."""

    @abstractmethod
    def problem_parameters(self) -> Mapping[str, object]:
        """Return everything that determines the problems, without the seed."""

    def parameters(self) -> Mapping[str, object]:
        return {**self.problem_parameters(), "form": self.form, "seed": self.seed}

    def make(self) -> PreparedContent:
        last_id = FIRST_ID + len(self.symbols) - 1
        tables = {str(name): rendered(self.problems(name), self.form, self.layout, last_id) for name in SPLIT_NAMES}
        return PreparedContent(tables, {"class_names": self.class_names})

    def describe_rows(self) -> DataSpec:
        return replace(self._known_of_rows(), vocab_size=FIRST_ID + len(self.symbols))

    def _known_of_rows(self) -> DataSpec:
        if self.form == "pairs":
            return PairFormat().spec(self.content)
        if self.form == "labelled":
            return ClassFormat().spec(self.content)
        targets = [ragged(self.content.tables[name], "targets") for name in SPLIT_NAMES]
        most = max(int(np.add.reduceat(rows.values != PAD, rows.offsets[:-1]).max()) for rows in targets)
        trained = ragged(self.content.tables["train"], "targets")
        indices = np.flatnonzero(trained.values != PAD)
        rows = np.searchsorted(trained.offsets, indices, side="right")
        return spec_of_answers(
            rows, trained.values[indices], max_length=longest(self.content, "tokens"), num_scored=most
        )

    def open_split(self, name: SplitName) -> Split:
        table = self.content.tables[name]
        if self.form == "pairs":
            return PairRows(self, name, ragged(table, "source"), ragged(table, "target"), bucket_by_length=True)
        if self.form == "labelled":
            return LabelledTextRows(self, name, ragged(table, "tokens"), numbers(table, "label"), bucket_by_length=True)
        return ProceduralRows(self, name, ragged(table, "tokens"), ragged(table, "targets"))

    def decode(self, ids: Sequence[int]) -> str:
        """Return symbols with spaces between; no padding, no start, no end."""
        return " ".join(self._symbol(int(token)) for token in ids if int(token) not in (PAD, BOS, EOS))

    def describe(self, batch: Batch) -> list[dict[str, Any]]:
        if self.form == "pairs":
            return PairFormat().described(batch, self.content, self.decode)
        if self.form == "labelled":
            return ClassFormat().described(batch, self.content, self.decode)
        assert batch.tokens is not None and batch.targets is not None
        described = []
        for row, tokens, targets in zip(batch.rows, batch.tokens, batch.targets, strict=True):
            answers = self.decode(targets[targets != IGNORED].tolist())
            described.append({"row": int(row), "text": self.decode(tokens.tolist()), "answers": answers})
        return described

    def _symbol(self, token: int) -> str:
        if token < FIRST_ID:
            return SPECIAL_TOKENS[token]
        # A model may have been given a larger vocabulary than its data's.
        index = token - FIRST_ID
        return self.symbols[index] if index < len(self.symbols) else f"<{token}>"


class ProceduralRows(CachedSplit):
    """Rows with targets of their own, padded to the longest of the batch where their lengths differ."""

    def __init__(self, source: CachedSource, name: SplitName, tokens: Ragged, targets: Ragged) -> None:
        super().__init__(source, name)
        self._tokens, self._targets = tokens, targets
        lengths = tokens.lengths
        self._lengths = lengths if lengths.min() < lengths.max() else None

    def __len__(self) -> int:
        return len(self._tokens)

    def lengths(self) -> np.ndarray | None:
        return self._lengths

    def batch(self, rows: np.ndarray) -> Batch:
        starts, lengths = self._tokens.offsets[rows], self._tokens.lengths[rows]
        tokens, valid = padded(self._tokens.values, starts, lengths)
        targets, _ = padded(self._targets.values, starts, lengths)
        return Batch(
            rows=as_tensor(rows),
            tokens=as_tensor(tokens),
            valid=None if self._lengths is None else torch.from_numpy(valid),
            targets=as_tensor(np.where(targets == PAD, IGNORED, targets.astype(np.int64))),
        )


_SHARES: dict[SplitName, tuple[float, float]] = {"test": (0.0, 0.1), "validation": (0.1, 0.2), "train": (0.2, 1.0)}
"""The prompts of a split: those whose key, as a fraction, is in this range. So short prompts, of which there are few,
are in every split, and no split depends on the size of another."""
_NUMBERS_AT_ONCE = 2**22
"""Tokens that are drawn together, so that memory stays small."""
_FEWEST = 128
"""Rows of a split that a draw hopes for at least: enough to see whether there are new ones left."""
_NEW_AT_LEAST = 0.02


class DrawnSource(ProceduralSource):
    """Subclasses define how problems of given lengths are drawn; the test split may have a length of its own."""

    def __init__(
        self,
        *,
        sizes: Mapping[SplitName, int],
        spans: Mapping[SplitName, AnswerSpan],
        form: ProblemForm,
        symbols: Sequence[str],
        class_names: Sequence[str] = (),
        batch_size: int,
        seed: int,
    ) -> None:
        super().__init__(form=form, symbols=symbols, class_names=class_names, batch_size=batch_size, seed=seed)
        self.sizes, self.spans = sizes, spans

    @abstractmethod
    def draw(self, size: int, span: AnswerSpan, generator: np.random.Generator) -> Problems:
        """Draw at most as many problems of these lengths, all lines as wide as the longest; some may be equal."""

    @abstractmethod
    def drawn_parameters(self) -> Mapping[str, object]:
        """Return everything that determines the problems beside their lengths and their number."""

    def longer(self, multiple: int) -> DrawnSource:
        """Return longer test problems; no prompt of the test split is one for training, whatever the lengths."""
        usual, own = self.spans["train"], self.spans["test"]
        if own != usual:
            raise DataError(
                f"its test rows have a length of their own already (data.test_length={own.longest}): set that to null"
            )
        longer = copy(self)
        longer.sizes, longer.spans = only_test(self.sizes), {**self.spans, "test": self.longer_span(multiple)}
        return longer

    def longer_span(self, multiple: int) -> AnswerSpan:
        """Return the lengths of test rows so many times as long: short and long ones alike."""
        return self.spans["train"].times(multiple)

    def problem_parameters(self) -> Mapping[str, object]:
        spans = {name: [span.shortest, span.longest] for name, span in self.spans.items()}
        return {**self.drawn_parameters(), "sizes": dict(self.sizes), "spans": spans}

    def problems(self, name: SplitName) -> Problems:
        num_problems, span = self.sizes[name], self.spans[name]
        low, high = _SHARES[name]
        generator = np.random.default_rng([self.seed, SPLIT_NAMES.index(name), 2])
        parts: list[Problems] = []
        seen = np.zeros(0, dtype=np.uint64)
        while len(seen) < num_problems:
            size = max(int(1.1 * (num_problems - len(seen))), _FEWEST) / (high - low)
            drawn = self.draw(int(min(size, max(_NUMBERS_AT_ONCE // span.longest, 1))), span, generator)
            keys = keys_of(drawn.prompts, self.seed)
            index = keys / 2.0**64
            own = np.flatnonzero((index >= low) & (index < high))
            first = own[np.sort(np.unique(keys[own], return_index=True)[1])]
            new = first[~np.isin(keys[first], seen)]
            if len(new) <= _NEW_AT_LEAST * len(own):
                raise self._exhausted(name, len(seen) + len(new))
            parts.append(drawn[new])
            seen = np.concatenate([seen, keys[new]])
        return Problems.together(parts)[slice(num_problems)]

    def _exhausted(self, name: SplitName, num_distinct: int) -> DataError:
        return DataError(
            f"data={self.name} has too few different problems under these settings: about {num_distinct} for the "
            f"{name} "
            f"split, and data.num_{name}={self.sizes[name]} are requested: lower it, or allow longer problems or more "
            f"symbols."
        )

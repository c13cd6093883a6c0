"""What procedural tasks share: one reading of ids, and one way from problems into the rows of each form."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch

from headtohead.data.answers import spec_of_answers
from headtohead.data.batch import IGNORED, Batch
from headtohead.data.caching import Prepared
from headtohead.data.contracts import SPLIT_NAMES, DataError, DataSpec, Split, SplitName
from headtohead.data.generated.problems import FIRST_ID, Layout, ProblemForm, Problems, rendered
from headtohead.data.judged import JudgedRows
from headtohead.data.labelled import LabelledForm
from headtohead.data.pairs import PairForm, PairRows
from headtohead.data.rows import as_tensor, padded
from headtohead.data.source import CachedSource, CachedSplit
from headtohead.data.storage import Ragged, numbers, ragged
from headtohead.data.texts import longest
from headtohead.data.tokenizers import BOS, EOS, PAD, SPECIAL_TOKENS


class ProceduralSource(CachedSource):
    """Subclasses give the problems of each split; their form decides what rows they are, and for which tasks."""

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
        """The problems of a split, in any order: no prompt is in two splits, nor twice in one."""

    @abstractmethod
    def problem_parameters(self) -> Mapping[str, Any]:
        """All that determines the problems, the seed apart."""

    def parameters(self) -> Mapping[str, Any]:
        return {**self.problem_parameters(), "form": self.form, "seed": self.seed}

    def make(self) -> Prepared:
        last_id = FIRST_ID + len(self.symbols) - 1
        tables = {str(name): rendered(self.problems(name), self.form, self.layout, last_id) for name in SPLIT_NAMES}
        return Prepared(tables, {"class_names": self.class_names})

    def describe_rows(self) -> DataSpec:
        return replace(self._known_of_rows(), vocab_size=FIRST_ID + len(self.symbols))

    def _known_of_rows(self) -> DataSpec:
        if self.form == "pairs":
            return PairForm().spec(self.content)
        if self.form == "labelled":
            return LabelledForm().spec(self.content)
        asked = [ragged(self.content.tables[name], "targets") for name in SPLIT_NAMES]
        most = max(int(np.add.reduceat(rows.values != PAD, rows.offsets[:-1]).max()) for rows in asked)
        trained = ragged(self.content.tables["train"], "targets")
        places = np.flatnonzero(trained.values != PAD)
        rows = np.searchsorted(trained.offsets, places, side="right")
        return spec_of_answers(
            rows, trained.values[places], max_length=longest(self.content, "tokens"), num_scored=most
        )

    def open_split(self, name: SplitName) -> Split:
        table = self.content.tables[name]
        if self.form == "pairs":
            return PairRows(self, name, ragged(table, "source"), ragged(table, "target"), bucket_by_length=True)
        if self.form == "labelled":
            return JudgedRows(self, name, ragged(table, "tokens"), numbers(table, "label"), bucket_by_length=True)
        return AskedRows(self, name, ragged(table, "tokens"), ragged(table, "targets"))

    def decode(self, ids: Sequence[int]) -> str:
        """Symbols with spaces between; no padding, no start, no end."""
        return " ".join(self._symbol(int(token)) for token in ids if int(token) not in (PAD, BOS, EOS))

    def describe(self, batch: Batch) -> list[dict[str, Any]]:
        if self.form == "pairs":
            return PairForm().described(batch, self.content, self.decode)
        if self.form == "labelled":
            return LabelledForm().described(batch, self.content, self.decode)
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
        place = token - FIRST_ID
        return self.symbols[place] if place < len(self.symbols) else f"<{token}>"


class AskedRows(CachedSplit):
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

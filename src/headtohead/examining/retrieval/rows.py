"""Texts as the rows that a run reads: its own tokens, the frame of its data, no longer than it was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headtohead.architectures.encoder_decoder import EncoderDecoder
from headtohead.building.making import target_of
from headtohead.data.contracts import DataError, DataSource
from headtohead.data.storage import Ragged
from headtohead.data.texts import TextSource
from headtohead.data.tokenizers import Tokenizer, shortened
from headtohead.tracking.store import RunFolder

if TYPE_CHECKING:
    from headtohead.examining.finished import FinishedRun


@dataclass(frozen=True)
class Rows:
    """Tokens of each text, and how many texts were cut."""

    tokens: Ragged
    num_cut: int


class RowMaker:
    """A text to be continued has a start and no end; a source has neither; all others stand between both."""

    def __init__(self, run: FinishedRun) -> None:
        kept = RunFolder.open(run.folder).read_tokenizer()
        # The tokenizer that the run kept spares a look at its data.
        self.tokenizer = _of_data(run.data) if kept is None else Tokenizer.from_dict(kept)
        task = target_of(run.config["task"])
        is_source = "pairs_of_text" in task.data_kinds or isinstance(run.model, EncoderDecoder)
        self.has_start = not is_source
        self.has_end = not is_source and task.head != "language_model"
        given = run.config["model"].get("max_length")
        self.max_length = int(given) if given else run.data.spec().max_length

    def rows(self, texts: Sequence[str]) -> Rows:
        for number, text in enumerate(texts):
            if not text.strip():
                raise DataError(f"text {number} is empty, and has no vector: give it some words, or leave it out")
        whole = self.tokenizer.encode(texts)
        room = self.max_length - self.has_start - self.has_end
        return Rows(self._framed(whole.cut(np.full(len(whole), room))), int((whole.lengths > room).sum()))

    def pairs(self, first: Sequence[str], second: Sequence[str]) -> tuple[Ragged, np.ndarray]:
        """Two texts in one row, each with its end, and the lengths of the first parts with start and end."""
        parts = shortened([self.tokenizer.encode(first), self.tokenizer.encode(second)], self.max_length)
        return self.tokenizer.framed(*parts), parts[0].lengths + 2

    def _framed(self, texts: Ragged) -> Ragged:
        if not self.has_start:
            return texts
        framed = self.tokenizer.framed(texts)
        return framed if self.has_end else framed.cut(framed.lengths - 1)


def _of_data(data: DataSource) -> Tokenizer:
    if not isinstance(data, TextSource):
        raise DataError(
            "the data of this run spells no text, so that none can be embedded: give a run that was trained on text"
        )
    return data.tokenizer

"""Back-translation by the user's own runs: for pairs, the source is regenerated from its target (Sennrich et al. 2016,
https://arxiv.org/abs/1511.06709); for labelled texts, each becomes a paraphrase by way of another language."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np

from headtohead.data.augmentation.augmentation import checked_rate
from headtohead.data.augmentation.text_rewriting import TextRewriting
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.cache.arrow_columns import Ragged, Table, digest_of, ragged, slices
from headtohead.data.cache.parallel_map import progress_bar
from headtohead.data.cache.prepared_content import PreparedContent, prepared
from headtohead.data.data_source import DataError, DataSource, Split
from headtohead.data.splits.sample_splits import numbers_of
from headtohead.ranges import Beams, Probability

_log = logging.getLogger(__name__)
_ROWS = 64
"""Translated at once."""
_FIELD = "augmentation.steps.back_translation"


class Translator(Protocol):
    """A finished run that writes a text for a text."""

    @property
    def digest(self) -> str:
        """Return the digest of its weights: another run translates differently."""

    def __call__(self, texts: Sequence[str]) -> list[str]:
        """Translate each text, in order; empty where nothing was written."""


OpenTranslators = Callable[[Mapping[str, str], int], Sequence[Translator]]
"""A function of the folders of runs, by the fields that name them, and a number of beams, to the translators that a
text passes through."""


class BackTranslation(TextRewriting):
    """Each row is replaced with this probability. Those that the run learns from are translated once, before training,
    and cached; others stay as they are."""

    data_kinds: ClassVar[tuple[str, ...]] = ("labelled_text", "pairs_of_text")
    cannot: ClassVar[dict[str, str]] = {
        "language": "the rows of a corpus are cut from it at lengths of their own, which other text would not have: "
        "use token_replacement, token_dropping or span_masking",
        "questions": "its answers are marked by their places, which would move: use span_masking",
        "tagged_text": "the words of a translation have no tags: use synonyms",
    }

    def __init__(
        self, run: str | None = None, back: str | None = None, rate: Probability = 0.5, beams: Beams = 4
    ) -> None:
        """Set up the translation: `run` translates; for labelled texts `back` translates its output back."""
        self.rate = checked_rate(rate, "steps.back_translation.rate")
        if run is None:
            raise DataError(f"{_FIELD}.run is missing: give the folder of a finished run that translates.")
        self.run, self.back, self.beams = run, back, beams
        self._open: OpenTranslators | None = None
        self._open_training_rows: Callable[[], Split] | None = None

    def take(self, open_translators: OpenTranslators, open_training_rows: Callable[[], Split]) -> None:
        """Receive the function that opens runs as translators, and the train rows that the run learns from; called
        before `bind`."""
        self._open, self._open_training_rows = open_translators, open_training_rows

    def bind(self, source: DataSource) -> None:
        super().bind(source)
        if self.spec.kind == "pairs_of_text" and self.back is not None:
            raise DataError(
                f"{_FIELD}.back={self.back} has no use with pairs, whose sources {_FIELD}.run writes from their "
                "targets: leave it null, and give a run that was trained from target to source"
            )
        if self.spec.kind == "labelled_text" and self.back is None:
            raise DataError(
                f"{_FIELD}.back is missing: give the folder of a finished run that translates back what {_FIELD}.run "
                "writes"
            )
        assert self._open is not None, "take is called first"
        folders = {f"{_FIELD}.{field}": folder for field, folder in (("run", self.run), ("back", self.back)) if folder}
        self._translators = list(self._open(folders, self.beams))

    def prepare(self) -> None:
        _ = self._translations

    def rewritten(self, tokens: np.ndarray, draws: np.random.Generator) -> np.ndarray:
        """Return the tokens unchanged: translations are looked up by row in `part`."""
        del draws
        return tokens

    def part(self, batch: Batch, row: int, number: int, tokens: np.ndarray, draws: np.random.Generator) -> np.ndarray:
        """Replace both texts of a row, or none."""
        if number == 0:
            self._replaces = bool(draws.random() < self.rate)
        again = self._translations.of(int(batch.rows[row]), number)
        return again.astype(np.int64) if self._replaces and len(again) else tokens

    @cached_property
    def _translations(self) -> _Translations:
        """Return the translations, from the cache if the same rows were translated by the same runs before."""
        assert self._open_training_rows is not None, "take is called first"
        split = self._open_training_rows()
        rows = numbers_of(split)
        key = {
            "data": self.spec.data_hash,
            "rows": digest_of(rows),
            "runs": [translator.digest for translator in self._translators],
            "beams": self.beams,
            "code": hashlib.sha256(Path(__file__).read_bytes()).hexdigest(),
        }
        table = prepared("back_translation", key, partial(self._made, split)).tables["train"]
        return _Translations(rows, [ragged(table, column) for column in sorted(table)])

    def _made(self, split: Split) -> PreparedContent:
        texts: list[list[str]] = []
        with progress_bar("translating there and back", len(split)) as report:
            for rows in slices(len(split), _ROWS):
                indices = np.arange(rows.start, rows.stop)
                for column, own in enumerate(self._texts(split.batch(indices))):
                    for translate in self._translators:
                        own = translate(own)
                    texts += [[]] if len(texts) == column else []
                    texts[column] += own
                report(len(indices))
        empty = sum(not text for own in texts for text in own)
        _log.info("%d texts translated; %d came back empty and stay as they are", sum(map(len, texts)), empty)
        table: Table = {f"text_{column}": self.tokenizer.encode(own) for column, own in enumerate(texts)}
        return PreparedContent({"train": table})

    def _texts(self, batch: Batch) -> list[list[str]]:
        """Return the texts to be translated, by column."""
        if self.spec.kind == "pairs_of_text":
            assert batch.targets is not None
            targets = [row[row != IGNORED].tolist() for row in batch.targets]
            return [[self.tokenizer.decode(target) for target in targets]]
        rows = [[self.tokenizer.decode(part.tolist()) for part in parts] for parts in self.parts_of(batch)]
        return [list(column) for column in zip(*rows, strict=True)]

    def __getstate__(self) -> dict[str, object]:
        """Drop the models before pickling: another process reads the cached translations itself."""
        made = self._translations
        return {**self.__dict__, "_translations": made, "_open": None, "_open_learned": None, "_translators": []}


@dataclass(frozen=True)
class _Translations:
    """The translated tokens of the rows with these numbers, in ascending order, for each text of a row."""

    rows: np.ndarray
    texts: list[Ragged]

    def of(self, row: int, number: int) -> np.ndarray:
        """Return the translation; empty where nothing was written, or the row was not requested."""
        index = int(np.searchsorted(self.rows, row))
        is_there = index < len(self.rows) and self.rows[index] == row
        return self.texts[number][index] if is_there else self.rows[:0]

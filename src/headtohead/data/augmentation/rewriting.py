"""Augmentations that write a text anew: from its tokens to other tokens for the same row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import ClassVar

import numpy as np
import torch

from headtohead.data.augmentation.contracts import Draws
from headtohead.data.augmentation.token_rows import OfTokens
from headtohead.data.batch import IGNORED, Batch
from headtohead.data.judged import second_part
from headtohead.data.rows import as_tensor, padded
from headtohead.data.storage import Ragged
from headtohead.data.tokenizers import framed, shortened


class Rewriting(OfTokens):
    """Labelled texts one by one, the sources of pairs, tagged texts word by word, each word keeping its tag. Rows are
    never longer than the longest of the data, for which models are made: the ends of longer ones are cut off."""

    data_kinds: ClassVar[tuple[str, ...]] = ("labelled_text", "pairs_of_text", "tagged_text")
    cannot: ClassVar[dict[str, str]] = {
        "language": "the rows of a corpus are cut from it at lengths of their own, which other text would not have: "
        "use token_replacement, token_dropping or span_masking",
        "questions": "its answers are marked by their places, which would move: use span_masking",
    }

    @abstractmethod
    def rewritten(self, tokens: np.ndarray, draws: np.random.Generator) -> np.ndarray:
        """Other tokens for those of a text, among which there are no special ones."""

    def __call__(self, batch: Batch, draws: Draws) -> Batch:
        generators = draws.generators()
        batch = replace(batch, original_tokens=None)  # a text written anew is itself what is predicted
        if self.spec.kind == "pairs_of_text":
            return self._of_pairs(batch, generators)
        if self.spec.kind == "tagged_text":
            return self._of_words(batch, generators)
        return self._of_texts(batch, generators)

    def part(self, batch: Batch, row: int, number: int, tokens: np.ndarray, draws: np.random.Generator) -> np.ndarray:
        """Other tokens for one of the texts of a row."""
        del batch, row, number
        return self._again(tokens, draws)

    def parts_of(self, batch: Batch) -> Iterator[list[np.ndarray]]:
        """The one or two texts of each labelled row, without start and end."""
        for tokens in _real(batch):
            if batch.token_types is None:
                yield [tokens[1:-1]]
            else:
                border = self.tokenizer.special.border(tokens)
                yield [tokens[1 : border - 1], tokens[border:-1]]

    def _of_texts(self, batch: Batch, draws: Sequence[np.random.Generator]) -> Batch:
        """Rows are a start token, a text, an end token, and of pairs another text and its end token."""
        parts = [
            [self.part(batch, row, number, text, draws[row]) for number, text in enumerate(texts)]
            for row, texts in enumerate(self.parts_of(batch))
        ]
        sides = [_rows(side) for side in zip(*parts, strict=True)]
        sides = shortened(sides, self.spec.max_length)
        whole = self.tokenizer.framed(*sides)
        tokens, valid = padded(whole.values, whole.offsets[:-1], whole.lengths)
        types = second_part(valid, sides[0].lengths + 2) if len(sides) == 2 else None
        return replace(
            batch, original_tokens=None, tokens=as_tensor(tokens), valid=torch.from_numpy(valid), token_types=types
        )

    def _of_pairs(self, batch: Batch, draws: Sequence[np.random.Generator]) -> Batch:
        sources = _rows([self.part(batch, row, 0, tokens, draws[row]) for row, tokens in enumerate(_real(batch))])
        sources = sources.cut(np.full(len(sources), self.spec.max_length))
        tokens, valid = padded(sources.values, sources.offsets[:-1], sources.lengths)
        return replace(batch, tokens=as_tensor(tokens), valid=torch.from_numpy(valid))

    def _of_words(self, batch: Batch, draws: Sequence[np.random.Generator]) -> Batch:
        """The tag of a word stays with the first token of it that says something."""
        assert batch.targets is not None
        all_tokens, all_tags = [], []
        for row, tokens in enumerate(_real(batch)):
            tags = batch.targets[row].numpy()[1 : len(tokens) - 1]
            words = np.split(tokens[1:-1], np.flatnonzero(tags != IGNORED)[1:])
            again = [self._again(word, draws[row]) for word in words]
            new_tags = [np.full(len(word), IGNORED) for word in again]
            for own, word, tag in zip(new_tags, again, tags[tags != IGNORED], strict=bool((tags != IGNORED).any())):
                own[int(np.argmax(~self.tokenizer.blank[word]))] = tag
            all_tokens.append(np.concatenate(again))
            all_tags.append(np.concatenate(new_tags))
        room = np.full(len(all_tokens), self.spec.max_length - 2)
        read = self.tokenizer.framed(_rows(all_tokens).cut(room))
        tagged = framed(_rows(all_tags).cut(room), start=IGNORED, end=IGNORED)
        new_tokens, valid = padded(read.values, read.offsets[:-1], read.lengths)
        targets, _ = padded(tagged.values, tagged.offsets[:-1], tagged.lengths)
        targets = np.where(valid, targets, IGNORED)
        return replace(
            batch,
            original_tokens=None,
            tokens=as_tensor(new_tokens),
            valid=torch.from_numpy(valid),
            targets=as_tensor(targets),
        )

    def _again(self, tokens: np.ndarray, draws: np.random.Generator) -> np.ndarray:
        """Special tokens among them, masks of another augmentation, stay where they are; a text never becomes empty."""
        special = self.spec.are_special(torch.from_numpy(tokens)).numpy()
        parts = [np.zeros(0, dtype=np.int64)]
        for is_special, places in groupby(range(len(tokens)), key=special.__getitem__):
            own = tokens[list(places)]
            parts.append(own if is_special else np.asarray(self.rewritten(own, draws), dtype=np.int64))
        again = np.concatenate(parts)
        return again if len(again) else tokens


def _real(batch: Batch) -> Iterator[np.ndarray]:
    """The tokens of each row, without padding."""
    assert batch.tokens is not None
    for row, tokens in enumerate(batch.tokens.numpy()):
        yield tokens if batch.valid is None else tokens[batch.valid[row].numpy()]


def _rows(rows: Sequence[np.ndarray]) -> Ragged:
    return Ragged.of_lengths(np.concatenate(rows), np.array([len(row) for row in rows]))

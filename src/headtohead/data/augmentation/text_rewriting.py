"""Augmentations that rewrite a text: from its tokens to other tokens for the same row."""

from __future__ import annotations

import json
import random
import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from headtohead.data.augmentation.augmentation import AugmentedTokens, Draws, checked_rate
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.cache.arrow_columns import Ragged
from headtohead.data.data_source import DataError, DataSource
from headtohead.data.row_formats.labelled_text import second_segment
from headtohead.data.row_formats.token_rows import as_tensor, padded
from headtohead.data.sources.local_files import decoded
from headtohead.data.tokenizers import framed, letter_bytes, library_of, shortened
from headtohead.files.safe_read import lines_of
from headtohead.ranges import Probability


class TextRewriting(AugmentedTokens):
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
        """Return other tokens for those of a text, which contain no special ones."""

    def __call__(self, batch: Batch, draws: Draws) -> Batch:
        generators = draws.generators()
        batch = replace(batch, original_tokens=None)  # a text rewritten is itself what is predicted
        if self.spec.kind == "pairs_of_text":
            return self._of_pairs(batch, generators)
        if self.spec.kind == "tagged_text":
            return self._of_words(batch, generators)
        return self._of_texts(batch, generators)

    def part(self, batch: Batch, row: int, number: int, tokens: np.ndarray, draws: np.random.Generator) -> np.ndarray:
        """Return other tokens for one of the texts of a row."""
        del batch, row, number
        return self._again(tokens, draws)

    def parts_of(self, batch: Batch) -> Iterator[list[np.ndarray]]:
        """Yield the one or two texts of each labelled row, without start and end."""
        for tokens in _real(batch):
            if batch.token_types is None:
                yield [tokens[1:-1]]
            else:
                border = self.tokenizer.special.border(tokens)
                yield [tokens[1 : border - 1], tokens[border:-1]]

    def _of_texts(self, batch: Batch, draws: Sequence[np.random.Generator]) -> Batch:
        """Rewrite labelled rows: a start token, a text, an end token, and for pairs another text and its end token."""
        parts = [
            [self.part(batch, row, number, text, draws[row]) for number, text in enumerate(texts)]
            for row, texts in enumerate(self.parts_of(batch))
        ]
        sides = [_rows(side) for side in zip(*parts, strict=True)]
        sides = shortened(sides, self.spec.max_length)
        rows = self.tokenizer.framed(*sides)
        tokens, valid = padded(rows.values, rows.offsets[:-1], rows.lengths)
        types = second_segment(valid, sides[0].lengths + 2) if len(sides) == 2 else None
        return replace(
            batch, original_tokens=None, tokens=as_tensor(tokens), valid=torch.from_numpy(valid), token_types=types
        )

    def _of_pairs(self, batch: Batch, draws: Sequence[np.random.Generator]) -> Batch:
        sources = _rows([self.part(batch, row, 0, tokens, draws[row]) for row, tokens in enumerate(_real(batch))])
        sources = sources.cut(np.full(len(sources), self.spec.max_length))
        tokens, valid = padded(sources.values, sources.offsets[:-1], sources.lengths)
        return replace(batch, tokens=as_tensor(tokens), valid=torch.from_numpy(valid))

    def _of_words(self, batch: Batch, draws: Sequence[np.random.Generator]) -> Batch:
        """Rewrite tagged words; the tag of a word stays with its first token that stands for text."""
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
        """Rewrite a text; special tokens in it, masks of another augmentation, stay where they are, and a text never
        becomes empty."""
        special = self.spec.are_special(torch.from_numpy(tokens)).numpy()
        parts = [np.zeros(0, dtype=np.int64)]
        for is_special, indices in groupby(range(len(tokens)), key=special.__getitem__):
            own = tokens[list(indices)]
            parts.append(own if is_special else np.asarray(self.rewritten(own, draws), dtype=np.int64))
        again = np.concatenate(parts)
        return again if len(again) else tokens


def _real(batch: Batch) -> Iterator[np.ndarray]:
    """Yield the tokens of each row, without padding."""
    assert batch.tokens is not None
    for row, tokens in enumerate(batch.tokens.numpy()):
        yield tokens if batch.valid is None else tokens[batch.valid[row].numpy()]


def _rows(rows: Sequence[np.ndarray]) -> Ragged:
    return Ragged.of_lengths(np.concatenate(rows), np.array([len(row) for row in rows]))


# Words are replaced by synonyms from a table of the user's (synonym replacement of Wei and Zou 2019,
# https://arxiv.org/abs/1901.11196).


_WORD = re.compile(r"\w+(?:['’-]\w+)*")


class Synonyms(TextRewriting):
    """Each word that the table knows, capitals apart, becomes one of its synonyms with this probability; each of them
    is as likely. A capital at the beginning stays, and so do words all in capitals."""

    def __init__(self, path: str | None = None, rate: Probability = 0.2) -> None:
        self.rate = checked_rate(rate, "steps.synonyms.rate")
        self.table = read_table(path)

    def rewritten(self, tokens: np.ndarray, draws: np.random.Generator) -> np.ndarray:
        text = self.tokenizer.decode(tokens.tolist())
        again = _WORD.sub(lambda match: self._instead(match[0], draws), text)
        return tokens if again == text else self.tokenizer.encode([again]).values

    def _instead(self, word: str, draws: np.random.Generator) -> str:
        known = self.table.get(word.lower())
        if known is None or draws.random() >= self.rate:
            return word
        synonym = known[int(draws.integers(len(known)))]
        if word.isupper() and len(word) > 1:
            return synonym.upper()
        return synonym[:1].upper() + synonym[1:] if word[0].isupper() else synonym


def read_table(path: str | None) -> dict[str, tuple[str, ...]]:
    """Read a table with a line for each word: the word, then its synonyms, separated by tabs; blank lines and comments
    after # are skipped."""
    field = "augmentation.steps.synonyms.path"
    if path is None:
        raise DataError(f"{field} is missing: give a file with a word and its synonyms a line, with tabs between.")
    file = Path(path).expanduser()
    if not file.is_file():
        raise DataError(f"{field}={path} does not exist (from {Path.cwd()}): correct the path.")
    table: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(lines_of(decoded(file, "utf-8", may_differ=False)), 1):
        if not line.strip() or line.startswith("#"):
            continue
        word, *synonyms = (part.strip() for part in line.split("\t"))
        synonyms = [synonym for synonym in synonyms if synonym]
        if not _WORD.fullmatch(word) or not synonyms:
            raise DataError(
                f"{file}, line {number} is not a word and its synonyms with tabs between ({line[:40]!r}): correct it."
            )
        table[word.lower()] = (*table.get(word.lower(), ()), *synonyms)
    if not table:
        raise DataError(f"{field}={path} holds no words: give one and its synonyms a line, with tabs between.")
    return table


# BPE-dropout (Provilkov et al. 2020, https://arxiv.org/abs/1910.13267): words fall into other pieces each time, since
# merges are left out at random while they are put together.


class BpeDropout(TextRewriting):
    """Each possible merge is skipped with this probability at each merge step; the text stays the same to the
    letter."""

    def __init__(self, rate: Probability = 0.1) -> None:
        self.rate = checked_rate(rate, "steps.bpe_dropout.rate")

    def bind(self, source: DataSource) -> None:
        super().bind(source)
        if not self._merges or '"ByteLevel"' not in json.dumps(self._description.get("pre_tokenizer")):
            raise DataError(
                f"augmentation=bpe_dropout leaves out merges of bytes, and data.tokenizer={self.tokenizer.kind} has "
                "none: use data.tokenizer=bpe, or a published byte-level BPE"
            )

    @cached_property
    def _description(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(self.tokenizer.merges or "{}")
        return read

    @cached_property
    def _merges(self) -> dict[tuple[str, str], int]:
        """Return the rank of each merge, written as two words or as a pair."""
        merges = self._description.get("model", {}).get("merges") or []
        pairs = (tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in merges)
        return {(first, second): rank for rank, (first, second) in enumerate(pairs)}

    @cached_property
    def _ids(self) -> dict[str, int]:
        ids: dict[str, int] = self._description["model"]["vocab"]
        return ids

    @cached_property
    def _letters(self) -> list[str]:
        """Return the letter of each byte."""
        return [letter for letter, _ in sorted(letter_bytes().items(), key=lambda item: item[1])]

    def rewritten(self, tokens: np.ndarray, draws: np.random.Generator) -> np.ndarray:
        text = b"".join(self.tokenizer.pieces[token] for token in tokens.tolist())
        chance = random.Random(int(draws.integers(2**63)))
        again = [self._ids[piece] for word in self._words(text) for piece in self._pieces(word, chance)]
        return np.array(again, dtype=np.int64)

    def _words(self, text: bytes) -> list[str]:
        """Return the words of a text as letters. A text that was cut within a character is one word, since the library
        reads whole ones."""
        try:
            decoded = text.decode()
        except UnicodeDecodeError:
            return ["".join(self._letters[byte] for byte in text)]
        pre_tokenizer = library_of(self.tokenizer.merges).pre_tokenizer
        return [word for word, _ in pre_tokenizer.pre_tokenize_str(decoded)]

    def _pieces(self, word: str, chance: random.Random) -> list[str]:
        """Merge as BPE does, with some merges skipped: the merge learned first, again and again."""
        pieces = list(word)
        while True:
            best = None
            for index in range(len(pieces) - 1):
                rank = self._merges.get((pieces[index], pieces[index + 1]))
                if rank is not None and chance.random() >= self.rate and (best is None or rank < best[0]):
                    best = rank, index
            if best is None:
                return pieces
            index = best[1]
            pieces[index : index + 2] = [pieces[index] + pieces[index + 1]]

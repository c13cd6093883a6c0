"""Sentences with one tag per word, such as B-PER, I-PER and O; the first piece of a word carries its tag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch

from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.cache.arrow_columns import Ragged, Table, ragged
from headtohead.data.cache.cached_source import CachedSource, CachedSplit
from headtohead.data.cache.prepared_content import PreparedContent
from headtohead.data.data_source import DataError, DataSpec, SplitName
from headtohead.data.row_formats.class_names import Classes, Label, class_shares, is_whole
from headtohead.data.row_formats.text_source import Decode, RowFormat, SampleOrigin, TextSource, check_text, longest
from headtohead.data.row_formats.token_rows import as_tensor, padded
from headtohead.data.tokenizers import Tokenizer, framed
from headtohead.data.tokenizers.tokenization_facts import cutting_facts

Tagged = tuple[Sequence[str], Sequence[Label]]
"""Words and their tags, by name or by number."""
OUTSIDE = "O"
"""The tag of a word that belongs to no entity."""


class TagFormat(RowFormat[Tagged]):
    """A row is a start token, the words and an end token. Words are tokenized one by one, all but the first with the
    space before them."""

    kind = "tagged_text"

    def __init__(self, class_names: Sequence[str] | None = None, max_length: int | None = None) -> None:
        """Set up the format; without names, the tags are those of the train split."""
        self.class_names, self.max_length = class_names, max_length

    def parameters(self) -> Mapping[str, object]:
        return {"class_names": self.class_names, "max_length": self.max_length}

    def classes_in(self, sample: Tagged) -> Sequence[Label]:
        return () if self.class_names else tuple(set(sample[1]))

    def texts(self, sample: Tagged) -> Iterable[str]:
        return (" ".join(sample[0]),)

    def prepared(
        self, samples: Mapping[SplitName, Sequence[Tagged]], tokenizer: Tokenizer, index: SampleOrigin
    ) -> PreparedContent:
        classes = Classes(tuple(self.class_names)) if self.class_names else tag_classes(samples["train"])
        tables: dict[str, Table] = {}
        for name, sentences in samples.items():
            numbers = []
            for row, (words, tags) in enumerate(sentences):
                _check_words(words, tags, index, name, row)
                numbers += [classes.number_of(tag, "tag", partial(index, name, row)) for tag in tags]
            tables[str(name)] = self._tokenized([words for words, _ in sentences], np.array(numbers), tokenizer)
        cut = {name: float(np.mean(ragged(table, "lost").lengths > 0)) for name, table in tables.items()}
        return PreparedContent(tables, {"class_names": classes.names, **cutting_facts(self.max_length, cut)})

    def _tokenized(self, sentences: Sequence[Sequence[str]], numbers: np.ndarray, tokenizer: Tokenizer) -> Table:
        spaced = [f" {word}" if index else word for words in sentences for index, word in enumerate(words)]
        by_word = _with_unknown_words(tokenizer.encode(spaced), tokenizer)
        ends_of_sentences = np.cumsum([0, *(len(words) for words in sentences)])
        tokens = Ragged(by_word.values, by_word.offsets[ends_of_sentences])
        # A space that is a token of its own belongs to no word: the tag goes to the first token with text.
        has_text = ~tokenizer.blank[by_word.values]
        indices = np.where(has_text, np.arange(len(has_text)), len(has_text))
        first_tokens = np.minimum.reduceat(indices, by_word.offsets[:-1])
        tags = np.full(len(by_word.values), IGNORED, dtype=np.int32)
        tags[first_tokens] = numbers
        tags_by_sentence = Ragged(tags, tokens.offsets)
        lost = Ragged(tags[:0], np.zeros(len(tokens) + 1, dtype=np.int64))
        if self.max_length is not None:
            room = np.full(len(tokens), self.max_length - 2)
            lost = _truncated_tags(tags_by_sentence, room)
            tokens, tags_by_sentence = tokens.cut(room), tags_by_sentence.cut(room)
        tags_of_row = framed(tags_by_sentence, start=IGNORED, end=IGNORED)
        return {"tokens": tokenizer.framed(tokens), "tags": tags_of_row, "lost": lost}

    def spec(self, content: PreparedContent) -> DataSpec:
        names = tuple(content.facts["class_names"])
        tags = ragged(content.tables["train"], "tags").values
        return DataSpec(
            kind=self.kind,
            max_length=longest(content, "tokens"),
            num_classes=len(names),
            class_names=names,
            class_shares=class_shares(tags[tags != IGNORED], len(names)),
        )

    def rows(self, source: TextSource, name: SplitName, table: Table) -> TaggedRows:
        return TaggedRows(source, name, table, source.bucket_by_length)

    def described(self, batch: Batch, content: PreparedContent, decode: Decode) -> list[dict[str, Any]]:
        """Return sentences in which words that carry a tag other than O are written word/tag."""
        assert batch.tokens is not None and batch.targets is not None
        samples: list[dict[str, Any]] = []
        for row, tokens, tags in zip(batch.rows, batch.tokens.numpy(), batch.targets.numpy(), strict=True):
            first_tokens = np.flatnonzero(tags != IGNORED)
            real = len(tokens) if batch.valid is None else int(batch.valid[len(samples)].sum())
            last = real - 1  # the end token
            words = [
                decode(tokens[start:end].tolist())
                for start, end in zip(first_tokens, [*first_tokens[1:], last], strict=True)
            ]
            names = [content.facts["class_names"][tag] for tag in tags[first_tokens]]
            tagged_words = [
                word.strip() + ("" if tag == OUTSIDE else f"/{tag}") for word, tag in zip(words, names, strict=True)
            ]
            samples.append({"row": int(row), "text": decode(tokens.tolist()), "tags": " ".join(tagged_words)})
        return samples


class TaggedRows(CachedSplit):
    """Padded to the longest of the batch; padding has no tag."""

    def __init__(self, source: CachedSource, name: SplitName, table: Table, bucket_by_length: bool) -> None:
        super().__init__(source, name)
        self._tokens, self._tags, self._lost = (ragged(table, column) for column in ("tokens", "tags", "lost"))
        self._bucket_by_length = bucket_by_length

    def __len__(self) -> int:
        return len(self._tokens)

    def lengths(self) -> np.ndarray | None:
        return self._tokens.lengths if self._bucket_by_length else None

    def batch(self, rows: np.ndarray) -> Batch:
        starts, lengths = self._tokens.offsets[rows], self._tokens.lengths[rows]
        tokens, valid = padded(self._tokens.values, starts, lengths)
        tags, _ = padded(self._tags.values, starts, lengths)
        return Batch(
            rows=as_tensor(rows),
            tokens=as_tensor(tokens),
            valid=torch.from_numpy(valid),
            targets=as_tensor(np.where(valid, tags, IGNORED)),
            lost_tags=self._beyond(rows),
        )

    def _beyond(self, rows: np.ndarray) -> torch.Tensor | None:
        """Return the tags of truncated words; None where no row of the split was truncated."""
        if not len(self._lost.values):
            return None
        tags, is_lost = padded(self._lost.values, self._lost.offsets[rows], self._lost.lengths[rows])
        return as_tensor(np.where(is_lost, tags, IGNORED))


def _with_unknown_words(words: Ragged, tokenizer: Tokenizer) -> Ragged:
    """Replace a word of which a tokenizer leaves nothing, such as a lone joiner of emojis, by an unknown token: it has
    a tag."""
    num_speaking = np.concatenate([[0], np.cumsum(~tokenizer.blank[words.values])])[words.offsets]
    silent = num_speaking[1:] == num_speaking[:-1]
    if not silent.any():
        return words
    if tokenizer.special.unk < 0:
        raise DataError(
            "some words have no token to carry their tag, and this tokenizer none for unknown words: choose another "
            "data.tokenizer, such as bpe."
        )
    values = np.insert(words.values, words.offsets[1:][silent], tokenizer.special.unk)
    return Ragged.of_lengths(values, words.lengths + silent)


def _truncated_tags(tags: Ragged, room: np.ndarray) -> Ragged:
    """Return the tags of the words that begin beyond a row's room."""
    beyond = np.arange(len(tags.values)) - np.repeat(tags.offsets[:-1], tags.lengths) >= np.repeat(room, tags.lengths)
    is_lost = beyond & (tags.values != IGNORED)
    before = np.concatenate([[0], np.cumsum(is_lost)])
    return Ragged(tags.values[is_lost], before[tags.offsets])


def tag_classes(sentences: Sequence[Tagged]) -> Classes:
    """Return the tags of the train split: O first, then one entity after another, its B before its I."""
    names = Classes.from_labels(chain.from_iterable(tags for _, tags in sentences)).names
    if names and all(is_whole(name) for name in names):
        raise DataError(
            f"the tags are numbers ({', '.join(names[:5])} ...), which do not say where an entity begins: name them in "
            f"their order, data.class_names=[O,B-PER,I-PER]."
        )
    by_entity = sorted(names, key=lambda name: (name != OUTSIDE, name.partition("-")[2] or name, name))
    return Classes(tuple(by_entity), are_given=False)


def _check_words(words: Sequence[str], tags: Sequence[Label], index: SampleOrigin, name: SplitName, row: int) -> None:
    if not words:
        raise DataError(f"{index(name, row)} has no words: remove the row, or give it some.")
    if len(words) != len(tags):
        raise DataError(f"{index(name, row)} has {len(words)} words and {len(tags)} tags: give each word one tag.")
    for word in words:
        check_text(word, "word", index, name, row)

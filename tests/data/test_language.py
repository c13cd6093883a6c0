"""Rows of tokens cut from documents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from headtohead.config.compose.composition import compose_checked
from headtohead.config.origins.from_weights import build_data
from headtohead.data.cache.arrow_columns import Ragged
from headtohead.data.cache.prepared_content import PreparedContent
from headtohead.data.data_source import SPLIT_NAMES, DataError, SplitName
from headtohead.data.row_formats.language_rows import LanguageSource, Packing, RowPacking
from headtohead.data.row_formats.text_source import TokenizedRows
from headtohead.data.tokenizers import BOS, EOS, PAD, TokenizerName

TRAIN = ["abcdefg", "hij", "k", "lmnopqrstuvwxyz" * 2, "ab", "cd"]
HELD = ["abc", "dé f", "hijkl–mn"]


class FixedTexts(LanguageSource):
    """These documents, in one folder of the cache for each tokenizer."""

    name: ClassVar[str] = "given"

    def __init__(
        self,
        packing: Packing,
        *,
        context_length: int = 7,
        tokenizer: TokenizerName = "char",
        train: list[str] = TRAIN,
        texts: Mapping[SplitName, list[str]] | None = None,
    ) -> None:
        super().__init__(TokenizedRows(batch_size=2, tokenizer=tokenizer), RowPacking(context_length, packing))
        ours: Mapping[SplitName, list[str]] = {"train": train, "validation": HELD, "test": HELD[::-1]}
        self.texts = dict(texts or ours)

    def samples(self) -> Mapping[SplitName, list[str]]:
        return self.texts

    def sample_parameters(self) -> Mapping[str, Any]:
        return {"texts": self.texts}


def all_rows(source: FixedTexts, name: SplitName = "train"):  # type: ignore[no-untyped-def]
    split = source.split(name)
    return split.batch(np.arange(len(split)))


def framed_ids(source: FixedTexts, name: SplitName) -> list[int]:
    tokenizer = source.tokenizer
    return [token for text in source.texts[name] for token in (BOS, *tokenizer.encode([text]).values.tolist(), EOS)]


@pytest.mark.parametrize("packing", ["apart", "stream"])
def test_packed_rows_follow_the_stream_and_share_one_token(packing: Packing) -> None:
    source = FixedTexts(packing)
    stream = framed_ids(source, "train")
    tokens = all_rows(source).tokens
    assert tokens.shape == ((len(stream) - 1) // 7, 8)
    for row, line in enumerate(tokens.tolist()):
        assert line == stream[7 * row : 7 * row + 8]


def test_documents_apart_have_numbers_and_positions_of_their_own() -> None:
    batch = all_rows(FixedTexts("apart"))
    for tokens, segments, positions in zip(batch.tokens, batch.segments, batch.positions, strict=True):
        document, index = 0, -1
        for column, token in enumerate(tokens.tolist()):
            begins = token == BOS
            document, index = document + begins, 0 if begins else index + 1
            assert (int(segments[column]), int(positions[column])) == (document, index)


def test_a_stream_knows_no_documents() -> None:
    batch = all_rows(FixedTexts("stream"))
    assert batch.segments is None and batch.positions is None and batch.valid is None


def test_one_document_needs_no_numbers() -> None:
    source = FixedTexts("apart", train=["abcdefghijklmnopqrstuvwxyz"])
    assert all_rows(source).segments is None


def test_unpacked_rows_hold_one_document_each_padded_to_the_longest() -> None:
    source = FixedTexts("none", context_length=99)
    split = source.split("train")
    batch = split.batch(np.array([2, 0]))
    assert batch.tokens[:, 0].tolist() == [BOS, BOS]
    assert batch.valid.sum(1).tolist() == [3, 9] and batch.tokens.shape == (2, 9)
    assert (batch.tokens[~batch.valid] == PAD).all()
    assert [source.decode(row.tolist()) for row in batch.tokens] == ["k", "abcdefg"]
    assert split.lengths().tolist() == [len(text) + 2 for text in TRAIN]


def test_long_documents_are_cut_so_that_every_token_is_predicted_once() -> None:
    source = FixedTexts("none", context_length=7)
    batch = all_rows(source)
    targets = [token for row, valid in zip(batch.tokens, batch.valid, strict=True) for token in row[valid].tolist()[1:]]
    assert targets == [token for token in framed_ids(source, "train") if token != BOS]
    assert int(batch.valid.sum(1).max()) == 8 and int(batch.valid.sum(1).min()) >= 2


@pytest.mark.parametrize("tokenizer", ["char", "byte", "bpe"])
@pytest.mark.parametrize("packing", ["apart", "stream", "none"])
@pytest.mark.parametrize("name", ["train", "validation"])
def test_bytes_of_a_batch_are_those_of_its_targets(tokenizer: TokenizerName, packing: Packing, name: SplitName) -> None:
    source = FixedTexts(packing, tokenizer=tokenizer, context_length=5)
    batch = all_rows(source, name)
    if packing == "none":
        assert int(batch.num_bytes) == len("".join(source.texts[name]).encode())
        return
    # Packed rows leave out the end of the stream, which does not fill a row; the first token is not a target.
    assert int(batch.num_bytes) == sum(bytes_of_tokens(source, name)[1 : 5 * len(batch.tokens) + 1])


def bytes_of_tokens(source: FixedTexts, name: SplitName) -> list[int]:
    """Count bytes one by one: for characters from the text itself, known to the tokenizer or not."""
    counted: list[int] = []
    for text in source.texts[name]:
        if source.tokenizer.kind == "char":
            inner = [len(character.encode()) for character in text]
        else:
            inner = [len(source.tokenizer.pieces[token]) for token in source.tokenizer.encode([text]).values]
        counted += [0, *inner, 0]
    return counted


@pytest.mark.parametrize("tokenizer", ["wordpiece", "unigram"])
@pytest.mark.parametrize("packing", ["apart", "stream", "none"])
def test_bytes_are_those_of_the_text_whatever_a_tokenizer_makes_of_it(
    tokenizer: TokenizerName, packing: Packing
) -> None:
    texts = ["A  Tale of Two Cities, naïve\n\tand Café ", " zzz Ünknown wörd 日本 ", "abc abc"]
    source = FixedTexts(packing, context_length=1, tokenizer=tokenizer, train=texts)
    split, windows = source.split("train"), source.windows("train", length=4, stride=2)
    one_by_one = [int(split.batch(np.array([row])).num_bytes) for row in range(len(split))]
    total = len("".join(texts).encode())
    assert sum(one_by_one) == int(all_rows(source).num_bytes) == total
    assert int(windows.batch(np.arange(len(windows))).num_bytes) == total


def test_bytes_of_an_unknown_character_belong_to_the_row_that_predicts_it() -> None:
    source = FixedTexts("stream", context_length=1)
    split = source.split("validation")
    counted = [int(split.batch(np.array([row])).num_bytes) for row in range(len(split))]
    assert counted == bytes_of_tokens(source, "validation")[1:]
    assert max(counted) == 3


def test_bytes_of_unknown_characters_are_counted_batch_by_batch() -> None:
    source = FixedTexts("none", context_length=20)
    split = source.split("validation")
    counted = [int(split.batch(np.array([row])).num_bytes) for row in range(len(split))]
    assert counted == [len(text.encode()) for text in HELD] == [3, 5, 10]


@pytest.mark.parametrize("packing", ["apart", "stream"])
@pytest.mark.parametrize("sizes", [(99, 20, 9), (9, 20, 99), (20, 9, 99), (9, 9, 9)], ids=str)
def test_the_length_that_a_refusal_names_fits_all_splits(sizes: tuple[int, ...], packing: Packing) -> None:
    texts = {name: ["a" * size] for name, size in zip(SPLIT_NAMES, sizes, strict=True)}
    source, fitting = FixedTexts(packing, context_length=500, texts=texts), min(sizes) + 1
    for name, size in zip(SPLIT_NAMES, sizes, strict=True):
        why = f"{size + 2} tokens, too few for one row of data.context_length=500 and one more: give more text or"
        with pytest.raises(DataError, match=f"the {name} split of data=given has {why} data.context_length={fitting} "):
            source.split(name)
    shorter = FixedTexts(packing, context_length=fitting, texts=texts)
    assert min(len(shorter.split(name)) for name in SPLIT_NAMES) == 1


@pytest.mark.parametrize("seed", [0, 2])
@pytest.mark.parametrize("kind", ["text", "paragraphs", "csv", "grammar_lm"])
def test_the_fields_that_a_refusal_names_give_every_split_a_row(kind: str, seed: int, tmp_path: Path) -> None:
    """Shares of held-out rows, where they are drawn, or the numbers of generated ones; either is enough by itself."""
    lines = [f"tale {n} of a bird" + ", and another" * (n % 4) for n in range(60)]
    (tmp_path / "a.txt").write_text("\n\n".join(lines))
    (tmp_path / "a.csv").write_text("\n".join(["text", *(line.replace(",", "") for line in lines)]))
    data = {
        "text": ["data=text", f"data.path={tmp_path}/a.txt"],
        "paragraphs": ["data=text", f"data.path={tmp_path}/a.txt", "data.documents=paragraph"],
        "csv": ["data=csv", f"data.path={tmp_path}/a.csv", "data.text_column=text", "data.tokenizer=char"],
        "grammar_lm": [
            "data=grammar_lm",
            "data.num_train=300",
            "data.num_validation=1",
            "data.num_test=1",
            "data.tokenizer=char",
            "data.max_sentences=1",
        ],
    }[kind]  # fmt: skip
    data = [*data, f"data.seed={seed}", "data.context_length=250"]
    with pytest.raises(DataError, match="give more text or data") as refused:
        build_data(compose_checked("train", data)).split("validation")
    more, shorter = str(refused.value).removesuffix(" at most.").rsplit(" or ", 2)[1:]
    assert more.count("data.") == 2
    for fields in (more, shorter):
        source = build_data(compose_checked("train", [*data, *fields.split()]))
        assert min(len(source.split(name)) for name in SPLIT_NAMES) >= 1


@pytest.mark.parametrize("num_tokens", [0, 1])
def test_of_a_text_that_fills_no_row_no_length_is_named(num_tokens: int) -> None:
    source = FixedTexts("stream")
    tokens = Ragged.of_lengths(np.zeros(num_tokens, np.uint8), np.array([num_tokens]))
    tables = {**source.content.tables, "test": {**source.content.tables["test"], "tokens": tokens}}
    source._content = PreparedContent(tables, source.content.facts, source.content.digest)
    with pytest.raises(DataError, match=r"data\.context_length=7 and one more: give more text\.$"):
        source.split("test")


def test_rows_of_another_length_are_other_data_from_the_same_cache() -> None:
    short, long = FixedTexts("stream", context_length=4), FixedTexts("stream", context_length=9)
    assert short.content.digest == long.content.digest
    assert short.spec().data_hash != long.spec().data_hash
    assert (short.spec().max_length, long.spec().max_length) == (5, 10)


def test_only_train_text_teaches_the_tokenizer() -> None:
    known = {piece.decode() for piece in FixedTexts("stream").tokenizer.pieces[5:]}
    assert known == set("abcdefghijklmnopqrstuvwxyz")


def test_described_rows_show_where_documents_begin() -> None:
    source = FixedTexts("apart", context_length=11)
    (sample,) = source.describe(source.split("train").batch(np.array([0])))
    assert sample == {"row": 0, "text": "abcdefg ¶ hi"}


def test_packed_rows_are_views_of_the_file() -> None:
    split = FixedTexts("stream").split("train")
    assert not split._rows.flags.writeable and split._rows.base is not None  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("context_length", 0, "data.context_length=0 must be at least 1"),
        ("packing", "tight", "data.packing=tight is unknown: choose one of apart, stream, none"),
    ],
)
def test_senseless_rows_are_refused(field: str, value: Any, message: str) -> None:
    arguments = {"packing": "apart", field: value}
    with pytest.raises(DataError, match=message):
        FixedTexts(**arguments)


def test_batches_hold_integers_as_torch_indexes_with_them(tmp_path: Path) -> None:
    batch = all_rows(FixedTexts("apart"))
    assert {batch.tokens.dtype, batch.segments.dtype, batch.positions.dtype, batch.rows.dtype} == {torch.int64}

"""Overlapping windows: what each scores, how much it has in sight, and bytes counted once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from from_fields import from_fields
from headtohead.data.batches.batch import IGNORED
from headtohead.data.cache.arrow_columns import Ragged
from headtohead.data.data_source import DataError, Split
from headtohead.data.generated.recall_problems import AssociativeRecall
from headtohead.data.generated.sentence_grammar import SentenceGrammar
from headtohead.data.row_formats.language_rows import StridedRows
from headtohead.data.row_formats.token_rows import ByteCounter
from headtohead.data.sources.text_files import TextFiles

CASES = [(length, stride) for length in (1, 2, 4, 7, 50) for stride in (1, 2, 3, 7) if stride <= length]
LENGTHS = [2, 3, 1, 9, 30, 5, 8]


def documents() -> Ragged:
    """Return documents whose tokens are their own positions in the stream."""
    return Ragged.of_lengths(np.arange(sum(LENGTHS)), np.array(LENGTHS))


def windows(length: int, stride: int) -> Split:
    values = documents().values
    sizes = np.where(np.arange(len(values)) == 0, 0, 1)  # padding is token 0
    counter = ByteCounter(sizes, values + 5, np.zeros(0, dtype=np.int64))
    return StridedRows(documents(), length=length, stride=stride, byte_counter=counter)


def scored(split: Split) -> list[tuple[int, int]]:
    """Return each scored token with the number of tokens that its window sees."""
    result = []
    for row in range(len(split)):
        batch = split.batch(np.array([row]))
        assert batch.tokens is not None and batch.targets is not None
        for index, target in enumerate(batch.targets[0].tolist()):
            if target != IGNORED:
                assert batch.tokens[0, index] == target - 1
                result.append((target, index + 1))
    return result


@pytest.mark.parametrize(("length", "stride"), CASES)
def test_every_token_but_a_documents_first_is_scored_once_and_in_order(length: int, stride: int) -> None:
    offsets = documents().offsets
    expected = [token for start, end in pairwise(offsets) for token in range(start + 1, end)]
    assert [token for token, _ in scored(windows(length, stride))] == expected


@pytest.mark.parametrize(("length", "stride"), CASES)
def test_every_token_sees_all_of_its_document_or_at_least_length_minus_stride(length: int, stride: int) -> None:
    first_ones = documents().offsets[:-1]
    for token, sight in scored(windows(length, stride)):
        before = token - first_ones[first_ones <= token][-1]
        assert sight <= length and (sight == before or sight > length - stride)


def test_rows_of_one_batch_are_padded_and_say_where() -> None:
    batch = windows(7, 3).batch(np.array([0, 2, 3]))
    assert batch.valid is not None and batch.targets is not None and batch.num_bytes is not None
    assert batch.valid.sum(1).tolist() == [1, 7, 5]
    assert (batch.targets[~batch.valid] == IGNORED).all()
    assert int(batch.num_bytes) == int((batch.targets != IGNORED).sum()) == 1 + 7 + 1


def test_bytes_of_all_windows_are_those_of_the_text_unknown_characters_included(tmp_path) -> None:
    text = "".join("abcdefg hij\n"[index * 7 % 12] for index in range(900)) + "é日x" * 20
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    source = from_fields(
        TextFiles, path=str(tmp_path / "a.txt"), context_length=16, validation_share=0.1, test_share=0.1
    )
    rows = source.windows("test", length=16, stride=5)
    total = sum(int(rows.batch(np.array([row])).num_bytes) for row in range(len(rows)))  # type: ignore[arg-type]
    assert total == len(text[round(0.9 * len(text)) :].encode()) - _before_a_line_ends(text)


def _before_a_line_ends(text: str) -> int:
    """Return where the test split begins: after the last line's end before its share."""
    cut = round(0.9 * len(text))
    return len(text[cut:].encode()) - len(text[text.rfind("\n", 0, cut) + 1 or cut :].encode())


@pytest.mark.parametrize(("length", "stride"), [(4, 0), (4, 5), (0, 1)])
def test_windows_that_would_leave_tokens_out_are_refused(length: int, stride: int) -> None:
    with pytest.raises(DataError, match="choose a"):
        windows(length, stride)


@pytest.mark.parametrize(
    "source", [from_fields(AssociativeRecall, num_train=4), from_fields(SentenceGrammar, num_train=30)], ids=type
)
def test_data_that_is_no_long_text_refuses_windows(source: AssociativeRecall | SentenceGrammar) -> None:
    with pytest.raises(DataError, match="leave the stride out"):
        source.windows("test", length=8, stride=4)

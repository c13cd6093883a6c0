"""Packed documents taken apart and put together, and rows read backwards."""

from __future__ import annotations

import torch

from headtohead.components.component import Context
from headtohead.components.sequence_ops.ragged_rows import (
    find_document_starts,
    one_row_per_document,
    reordered,
    reversed_order,
)

SEGMENTS = torch.tensor([[0, 0, 0, 1, 1, 2], [7, 7, 7, 7, 7, 7]])
X = torch.arange(24.0).view(2, 6, 2)


def test_a_document_starts_where_the_number_changes_and_not_at_the_rows_first_token() -> None:
    result = find_document_starts(Context(segments=SEGMENTS))
    assert result is not None
    assert result.tolist() == [[False, False, False, True, False, True], [False] * 6]
    assert find_document_starts(Context()) is None and one_row_per_document(X, Context()) is None


def test_every_document_gets_a_row_of_its_own_and_finds_back() -> None:
    valid = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    rows = one_row_per_document(X, Context(segments=SEGMENTS, valid=valid))
    assert rows is not None and rows.x.shape == (4, 6, 2)
    assert rows.valid.sum(1).tolist() == [3, 2, 1, 4]
    torch.testing.assert_close(rows.x[1, :2], X[0, 3:5])
    assert (rows.x[1, 2:] == 0).all()
    torch.testing.assert_close(rows.back(rows.x * 2), X * 2)


def test_padding_stays_where_it_is_when_a_row_is_read_backwards() -> None:
    valid = torch.arange(6)[None] < torch.tensor([6, 4])[:, None]
    order = reversed_order(valid, 6, X.device)
    assert order.tolist() == [[5, 4, 3, 2, 1, 0], [3, 2, 1, 0, 4, 5]]
    torch.testing.assert_close(reordered(reordered(X, order), order), X)
    torch.testing.assert_close(reordered(X, reversed_order(None, 6, X.device)), X.flip(1))

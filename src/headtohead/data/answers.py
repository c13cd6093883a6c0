"""What the answers of some rows are, for the best guess without a look at the questions."""

from __future__ import annotations

import numpy as np

from headtohead.data.contracts import DataSpec


def spec_of_answers(rows: np.ndarray, answers: np.ndarray, *, max_length: int, num_scored: int) -> DataSpec:
    """Of rows of a language with these answers in the train split, row after row; `rows` says which is whose."""
    is_last = np.append(rows[1:] != rows[:-1], True)
    return DataSpec(
        "language",
        max_length=max_length,
        num_scored=num_scored,
        answer_shares=shares_of(answers),
        last_answer_shares=shares_of(answers[is_last]),
    )


def shares_of(answers: np.ndarray) -> tuple[float, ...]:
    """How often each different one occurs, the most frequent first."""
    counts = np.sort(np.bincount(answers))[::-1]
    return tuple((counts[counts > 0] / len(answers)).tolist())

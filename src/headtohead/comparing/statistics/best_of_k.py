"""The best of k trials to be expected, from n that were run (https://arxiv.org/abs/1909.03004), without its bias
(https://arxiv.org/abs/2011.05500): the mean over all choices of k among them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def expected_best(values: Sequence[float | None], *, larger_is_better: bool) -> NDArray[np.float64]:
    """For k = 1 ... n. None, a trial that diverged, is infinitely bad, and so is the mean while it can be the best."""
    from scipy import special

    worst = -np.inf if larger_is_better else np.inf
    trials = np.array([worst if value is None else value for value in values], dtype=np.float64)
    ordered = np.sort(trials) if larger_is_better else np.sort(trials)[::-1]
    num_trials = len(ordered)
    ranks, k = np.arange(1, num_trials + 1), np.arange(1, num_trials + 1)[:, None]
    chances = special.comb(ranks - 1, k - 1) / special.comb(num_trials, k)
    # 0 x infinity counts as nothing: that trial cannot be the best of so many
    result: NDArray[np.float64] = np.where(chances > 0, chances * np.where(chances > 0, ordered, 0.0), 0.0).sum(axis=1)
    return result

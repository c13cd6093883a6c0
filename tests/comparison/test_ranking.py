"""Rankings over shares of the budget, and where they turn."""

from __future__ import annotations

import numpy as np
import pytest

from headtohead.comparison.analyses.budget_ranking import BudgetRanking, ranking_of
from headtohead.comparison.contrasts import Values

SHARES = (0.25, 0.5, 1.0)


def curves(noise: float, num_seeds: int = 5) -> dict[float, Values]:
    """fast leads by log(share / 0.4) and then loses; late comes last throughout."""
    rng = np.random.default_rng(0)
    level = rng.normal(size=num_seeds)

    def runs(mean: float) -> dict[int, float | None]:
        apart = rng.normal(size=num_seeds)
        return dict(enumerate((level + mean + noise * (apart - apart.mean())).tolist()))

    return {s: {"fast": runs(float(np.log(s / 0.4))), "slow": runs(0.0), "late": runs(9.0)} for s in SHARES}


def ranked(values: dict[float, Values], direction: str = "min") -> BudgetRanking:
    return ranking_of(
        values,
        ["slow", "fast", "late"],
        metric="test/loss",
        direction="min" if direction == "min" else "max",
        alpha=0.05,
    )


def test_a_planted_change_of_the_lead_is_ranked_and_located() -> None:
    ranking = ranked(curves(0.01))
    orders = [[standing.arm for standing in each.standings] for each in ranking.shares]
    assert orders == [["fast", "slow", "late"], ["slow", "fast", "late"], ["slow", "fast", "late"]]
    (pair,) = ranking.pairs
    (crossing,) = pair.crossings
    assert crossing.at == pytest.approx(0.4, abs=1e-6) and crossing.decided and pair.leader == "fast"
    assert pair.sentences == ["fast leads before 40% of the budget and slow after it (surely at 25% and at 50%)"]
    assert ranking.changes


def test_where_larger_is_better_the_lead_is_the_others() -> None:
    ranking = ranked(curves(0.01), "max")
    assert [standing.arm for standing in ranking.shares[0].standings] == ["late", "slow", "fast"]
    assert ranking.pairs[0].leader == "slow"


def test_curves_that_cross_within_their_interval_give_no_verdict_but_the_crossing_point() -> None:
    (pair,) = (pair for pair in ranked(curves(1.0)).pairs if "late" not in (pair.first, pair.second))
    assert all("within their interval" in message and "no verdict" in message for message in pair.sentences)
    assert pair.crossings[0].at == pytest.approx(0.4)


def test_an_arm_that_diverged_ranks_last_and_crosses_nothing() -> None:
    values = {share: {arm: dict(runs) for arm, runs in each.items()} for share, each in curves(0.01).items()}
    values[0.25]["fast"][1] = None
    ranking = ranked({share: values[share] for share in SHARES})
    last = ranking.shares[0].standings[-1]
    assert (last.arm, last.rank, last.mean, last.diverged) == ("fast", 3, None, 1)
    assert not ranking.pairs and "fast has runs that diverged" in ranking.remarks[0]


def test_one_seed_and_one_share_cross_nowhere() -> None:
    assert not ranked(curves(0.01, num_seeds=1)).pairs
    assert not ranked({1.0: curves(0.01)[1.0]}).pairs

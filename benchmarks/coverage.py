"""Measure what 95 % intervals cover, and how often equal means are told apart, by the shape of the values and the
number of seeds: the table of docs/verdicts.md."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headtohead.comparison.statistics.exact_tests import ExactTestGuard, exact_p
from headtohead.comparison.statistics.means import paired
from headtohead.comparison.statistics.value_shapes import is_skewed

STUDIES, ARMS, ALPHA = 4000, 4, 0.05
SEEDS = (3, 5, 8, 10)
Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
SHAPES: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "t, 3 degrees": lambda rng, shape: rng.standard_t(3, size=shape),
    "lognormal": lambda rng, shape: rng.lognormal(size=shape) - np.exp(0.5),
    "bimodal 90/10": lambda rng, shape: np.where(rng.random(shape) < 0.9, 0.1, -0.9) + 0.01 * rng.normal(size=shape),
}


def figures(draw: Draw, num_seeds: int) -> tuple[float, float, float]:
    """Shares of studies whose arms, each against a baseline without spread, all have its mean: the first arm's interval
    covers it, a t-test alone tells it apart, and a verdict does."""
    rng = np.random.default_rng(0)
    guard = ExactTestGuard((num_seeds, num_seeds), ALPHA, ALPHA)
    values = draw(rng, (STUDIES, ARMS, num_seeds))
    message = paired(values[:, 0], np.zeros_like(values[:, 0])).p() < ALPHA
    provided = 0
    for study in values[message]:
        if guard.suffices:
            provided += exact_p(study[0].tolist(), [0.0] * num_seeds, paired=True) < ALPHA
        else:
            provided += not is_skewed(study.tolist())
    return float(1 - message.mean()), float(message.mean()), provided / STUDIES


def main() -> None:
    print(f"{STUDIES} studies of {ARMS} arms: share of 95 % intervals that hold the mean / of false verdicts")
    print(f"{'shape':<15}" + "".join(f"{f'{n} seeds':>16}" for n in SEEDS))
    for shape, draw in SHAPES.items():
        result = [figures(draw, num_seeds) for num_seeds in SEEDS]
        print(f"{shape:<15}" + "".join(f"{100 * held:>8.0f} / {100 * false:>4.1f}" for held, _, false in result))


if __name__ == "__main__":
    main()

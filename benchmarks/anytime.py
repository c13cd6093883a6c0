"""Simulate what evidence that is looked at after every seed keeps, and what it costs: the tables of docs/study.md on
seeds that are added until it is decided."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from headtohead.comparison.contrasts import Registration, SeedRounds
from headtohead.comparison.statistics.e_processes import (
    Floats,
    discordant_pairs,
    sign_flips,
    t_mixture,
    two_proportions,
)
from headtohead.comparison.verdicts.seed_evidence import equivalent_by
from headtohead.comparison.verdicts.seed_rounds import EndedRun, follow_rounds

ALPHA, FAMILY, LAST, START, MOST = 0.05, 9, 30, 3, 20
MARGIN = 1.0
"""The margin, in standard deviations of an arm."""
AT_ONCE, CONDUCTED = 1000, 300
EFFECTS, FAMILIES = (1.0, 1.66, 3.2), (1, 3, 9)
Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
ARMS: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "t, 3 degrees": lambda rng, shape: rng.standard_t(3, size=shape),
    "lognormal": lambda rng, shape: rng.lognormal(size=shape),
    "bimodal 90/10": lambda rng, shape: np.where(rng.random(shape) < 0.9, 0.1, -0.9) + 0.01 * rng.normal(size=shape),
}
"""The values of one arm over its seeds; arms of equal distribution have differences that are symmetric."""
ZERO_MEANS: dict[str, Draw] = {
    "normal": ARMS["normal"],
    "t, 3 degrees": ARMS["t, 3 degrees"],
    "lognormal": lambda rng, shape: rng.lognormal(size=shape) - math.exp(0.5),
    "bimodal 90/10": ARMS["bimodal 90/10"],
}
"""Differences of mean 0 from arms that are not equal: an arm against a baseline without spread."""


def false_verdicts(draw: Draw, studies: int) -> tuple[float, float, float]:
    """Return the shares of studies in which equal arms are told apart by a user who looks at 2, 3 ... 30 seeds and
    stops at the first look that suits: with one contrast, with any of nine against one baseline within Holm, each at a
    number of seeds of its own; and the share in which arms that differ by the margin are called equivalent."""
    errors = np.zeros(3)
    for rng, count in _portions(studies):
        arms = draw(rng, (count, FAMILY + 1, LAST))
        shared = rng.normal(size=(count, 1, LAST))
        differences = (arms + shared)[:, 1:] - (arms + shared)[:, :1]
        best = both(differences).max(axis=-1)
        equivalent = equivalent_by(differences[:, 0] + MARGIN, MARGIN).max(axis=-1)
        errors += [
            (best[:, 0] >= needed(1)).sum(),
            (best.max(axis=-1) >= needed(FAMILY)).sum(),
            (equivalent >= needed(1)).sum(),
        ]
    return tuple((errors / studies).tolist())


def unequal_shapes(draw: Draw, studies: int) -> tuple[float, float]:
    """Return the shares in which a difference of mean 0 is called one, by the t mixture alone and by both."""
    errors = np.zeros(2)
    for rng, count in _portions(studies):
        differences = draw(rng, (count, LAST))
        result = t_mixture(differences).max(axis=-1), both(differences).max(axis=-1)
        errors += [(evidence >= needed(1)).sum() for evidence in result]
    return tuple((errors / studies).tolist())


def false_rates(rate: float, studies: int) -> tuple[float, float]:
    """Return the shares in which equal solve rates are told apart: paired arms, half of whose seeds decide alone, and
    unpaired ones."""
    errors = np.zeros(2)
    for rng, count in _portions(studies):
        own, shared = rng.random((count, 2, LAST)) < rate, rng.random((count, 1, LAST)) < rate
        paired = np.where(rng.random((count, 1, LAST)) < 0.5, shared, own).astype(float)
        single = own.astype(float)
        result = discordant_pairs(paired[:, 0] - paired[:, 1]), two_proportions(single[:, 0], single[:, 1])
        errors += [(evidence.max(axis=-1) >= needed(1)).sum() for evidence in result]
    return tuple((errors / studies).tolist())


def price(effect: float, contrasts: int, studies: int) -> tuple[float, float, float]:
    """Return the median number of seeds after which a contrast of so many finds a normal difference, and the shares of
    studies that have found it by 10 and by 20 seeds."""
    seeds = []
    for rng, count in _portions(studies):
        reached = np.maximum.accumulate(both(rng.normal(size=(count, MOST)) + effect), axis=-1) >= needed(contrasts)
        reached[:, : START - 1] = False
        seeds.append(np.where(reached.any(axis=-1), reached.argmax(axis=-1) + 1, math.inf))
    number = np.concatenate(seeds)
    return float(np.median(number)), float((number <= 10).mean()), float((number <= MOST).mean())


def conducted(effect: float, studies: int) -> tuple[float, float, float]:
    """Return what the rounds themselves make of one contrast, futility counted in: the shares of studies that decide it
    and that stop for futility, and the median number of seeds that the arms got."""
    reasons, seeds = [], []
    for study in range(studies):
        rng = np.random.default_rng(study)
        values = {"arm": rng.normal(size=MOST) + effect, "baseline": np.zeros(MOST)}
        registration = Registration(direction="max", alpha=ALPHA)
        progress = follow_rounds(
            SeedRounds(START, MOST),
            list(values),
            [("arm", "baseline")],
            registration,
            lambda arm, seed, values=values: EndedRun(float(values[arm][seed])),  # type: ignore[misc]
        )
        (stop,) = progress.stops.values()
        reasons.append(stop.reason)
        seeds.append(stop.num_seeds)
    return reasons.count("decided") / studies, reasons.count("futile") / studies, float(np.median(seeds))


def both(differences: Floats) -> Floats:
    """Return after each seed what both e-processes have reached: a contrast is decided where both did, at any time."""
    reached = [np.maximum.accumulate(process(differences), axis=-1) for process in (t_mixture, sign_flips)]
    return np.minimum(*reached)


def needed(contrasts: int) -> float:
    """Return the evidence at which the first of so many contrasts is decided after Holm's correction."""
    return math.log(contrasts / ALPHA)


def _portions(studies: int) -> Iterator[tuple[np.random.Generator, int]]:
    rng = np.random.default_rng(0)
    for start in range(0, studies, AT_ONCE):
        yield rng, min(AT_ONCE, studies - start)


def main(studies: int = 10_000) -> None:
    print(f"false verdicts of equal arms, per cent of {studies} studies that look after each of {LAST} seeds")
    print(f"{'shape of an arm':<18}{'one contrast':>14}{'any of nine':>14}{'equivalent':>14}")
    for shape, draw in ARMS.items():
        print(f"{shape:<18}" + "".join(f"{100 * share:>14.1f}" for share in false_verdicts(draw, studies)))
    print(f"\n{'solve rate':<18}{'paired':>14}{'unpaired':>14}")
    for rate in (0.1, 0.5, 0.9):
        print(f"{rate:<18}" + "".join(f"{100 * share:>14.1f}" for share in false_rates(rate, studies)))
    print(f"\n{'mean 0, unequal':<18}{'t mixture':>14}{'both':>14}")
    for shape, draw in ZERO_MEANS.items():
        print(f"{shape:<18}" + "".join(f"{100 * share:>14.1f}" for share in unequal_shapes(draw, studies)))
    print("\nseeds in the median / found by 10 / by 20 seeds, per cent")
    print(f"{'effect in sd':<14}" + "".join(f"{f'{number} contrasts':>20}" for number in FAMILIES))
    for effect in EFFECTS:
        cells = [price(effect, number, studies) for number in FAMILIES]
        message = [
            f"{f'over {MOST}' if median > MOST else f'{median:.0f}'} / {100 * ten:.0f} / {100 * twenty:.0f}"
            for median, ten, twenty in cells
        ]
        print(f"{effect:<14}" + "".join(f"{cell:>20}" for cell in message))
    print(
        f"\n{CONDUCTED} studies of one contrast, futility counted in: decided / futile, per cent, seeds in the median"
    )
    for effect in (0.0, *EFFECTS):
        decided, futile, seeds = conducted(effect, CONDUCTED)
        print(f"{effect:<14}{f'{100 * decided:.0f} / {100 * futile:.0f}, {seeds:.0f} seeds':>20}")


if __name__ == "__main__":
    main()

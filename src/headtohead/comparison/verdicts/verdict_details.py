"""Estimate what other test rows would say: the seeds of a study share one test set, which is a sample too (Bouthillier
et al. 2021, https://arxiv.org/abs/2103.03098). A paired bootstrap over its rows complements the interval over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from headtohead.comparison.comparability import seed_of
from headtohead.comparison.contrasts import Verdict
from headtohead.comparison.statistics.means import difference_interval
from headtohead.comparison.verdicts.verdict_text import sentence
from headtohead.records.record import RunRecord
from headtohead.records.row_sums import RowFile, read_rows

Runs = dict[str, dict[int, RunRecord]]
"""The runs by arm and seed."""
_MOST_SAMPLES, _FEWEST_SAMPLES, _DRAWN_WITH = 2000, 400, 0
_AT_ONCE, _ALTOGETHER = 2**22, 2**25
"""Numbers drawn at once, and by all samples of a large set."""


@dataclass(frozen=True)
class RowInterval:
    """The rows of a test that all runs of a contrast share."""

    num_rows: int
    interval: tuple[float, float] | None = None
    """The interval of the difference, over other rows of the kind and the same seeds."""
    refusal: str | None = None
    """The reason why there is none."""


def with_rows(verdicts: Sequence[Verdict], records: Iterable[RunRecord], metric: str) -> list[Verdict]:
    """Return the verdicts with what is known of other rows, where the runs kept the scores of single ones. `metric` has
    its stage: test/accuracy."""
    runs: Runs = {}
    for record in records:
        if record.status == "finished":
            runs.setdefault(record.arm, {})[seed_of(record)] = record
    reader = _RowReader(metric)
    return [_with_rows(verdict, runs, metric, reader) for verdict in verdicts]


class _RowReader:
    """Reads the rows of runs; those of a baseline stay, since the next verdict is against it too."""

    def __init__(self, metric: str) -> None:
        self._stage, _, self._metric = metric.partition("/")
        self._baseline, self._files = "", dict[Path, RowFile | None]()

    def of(self, runs: Iterable[RunRecord]) -> list[RowFile | None]:
        return [None if run.path is None else read_rows(run.path, self._stage, self._metric) for run in runs]

    def of_baseline(self, name: str, runs: Iterable[RunRecord]) -> list[RowFile | None]:
        if name != self._baseline:
            self._baseline, self._files = name, {}
        of_arm = list(runs)
        new = [run for run in of_arm if run.path is not None and run.path not in self._files]
        self._files.update(zip((run.path for run in new if run.path), self.of(new), strict=True))
        return [None if run.path is None else self._files[run.path] for run in of_arm]


def over_rows(verdict: Verdict, runs: Runs, metric: str, reader: _RowReader) -> RowInterval | None:
    """Return nothing where no rows were kept, and where each seed has rows of its own: there the seeds tell."""
    name = metric.partition("/")[2]
    arms = [runs.get(name, {}) for name in (verdict.arm, verdict.baseline)]
    shared = arms[0].keys() & arms[1].keys() if verdict.method != "Welch's t" else None
    chosen = [[run for seed, run in sorted(arm.items()) if shared is None or seed in shared] for arm in arms]
    files = [reader.of(chosen[0]), reader.of_baseline(verdict.baseline, chosen[1])]
    known = [file for arm in files for file in arm if file is not None]
    if not all(chosen) or len(known) < sum(map(len, chosen)) or _differ([run for arm in chosen for run in arm], known):
        return None
    first, second = ([file for file in arm if file is not None] for arm in files)
    ratios = [[file.of(name) for file in arm] for arm in (first, second)]
    complete = [[ratio for ratio in arm if ratio is not None] for arm in ratios]
    num_rows = len(known[0].rows)
    if len(complete[0]) + len(complete[1]) < len(known):
        return RowInterval(num_rows, refusal=f"{name} is one figure of the whole set, not a mean over its rows")
    if num_rows < 2:
        return RowInterval(num_rows, refusal="one row has no spread")
    return RowInterval(num_rows, _bootstrapped(complete[0], complete[1], verdict.level))


def _with_rows(verdict: Verdict, runs: Runs, metric: str, reader: _RowReader) -> Verdict:
    if verdict.method not in ("paired t", "Welch's t", "e-process", "none"):
        return verdict
    result = over_rows(verdict, runs, metric, reader)
    if result is None:
        return verdict
    interval = difference_interval(result.interval, verdict.metric, _values(runs, verdict, metric))
    extended = replace(verdict, num_rows=result.num_rows, row_interval=interval, row_refusal=result.refusal)
    return replace(extended, sentence=sentence(extended))


def _values(runs: Runs, verdict: Verdict, metric: str) -> list[float]:
    stage, _, name = metric.partition("/")
    both = [run for arm in dict.fromkeys((verdict.arm, verdict.baseline)) for run in runs.get(arm, {}).values()]
    return [run.metrics[stage][name] for run in both if name in run.metrics[stage]]


def _differ(runs: Sequence[RunRecord], files: Sequence[RowFile]) -> bool:
    """Return whether the runs were not all tested on the same rows."""
    evaluations = {run.comparability.evaluation for run in runs}
    return len(evaluations) > 1 or any(not np.array_equal(file.rows, files[0].rows) for file in files)


_Ratio = tuple[np.ndarray, np.ndarray]


def _bootstrapped(first: Sequence[_Ratio], second: Sequence[_Ratio], level: float) -> tuple[float, float]:
    """Percentiles of the difference of the arms' means over seeds, rows drawn with replacement: the same ones for every
    run. A ratio of sums is recomputed from the drawn rows."""
    columns = np.stack([column for ratio in (*first, *second) for column in ratio], axis=1).astype(np.float64)
    rng, num_rows = np.random.default_rng(_DRAWN_WITH), len(columns)
    samples = min(_MOST_SAMPLES, max(_FEWEST_SAMPLES, _ALTOGETHER // num_rows))
    differences = np.empty(samples)
    at_once = max(1, _AT_ONCE // num_rows)
    for start in range(0, samples, at_once):
        count = min(at_once, samples - start)
        weights = rng.multinomial(num_rows, np.full(num_rows, 1 / num_rows), size=count)
        sums = weights @ columns
        with np.errstate(invalid="ignore", divide="ignore"):
            means = sums[:, 0::2] / sums[:, 1::2]
        of_arms = means[:, : len(first)].mean(axis=1), means[:, len(first) :].mean(axis=1)
        differences[start : start + count] = of_arms[0] - of_arms[1]
    low, high = np.nanquantile(differences, [level / 2, 1 - level / 2])
    return float(low), float(high)


UNKNOWN = "what its record does not say"
"""The words for the kernel of runs whose record names none, such as those of other programs."""


def kernels_of(records: Iterable[RunRecord]) -> tuple[str, ...]:
    """Return the kernels of the mixers of one arm; empty if it has none."""
    return tuple(sorted({kernel for record in records for kernel in _kernels(record)}))


def with_kernels(verdicts: Sequence[Verdict], records: Iterable[RunRecord]) -> list[Verdict]:
    """Verdicts on runs of equal time or energy name the kernels of both arms; others stay as they are."""
    measured = [record for record in records if record.budget.get("kind") in ("equal_time", "equal_energy")]
    by_arm: dict[str, list[RunRecord]] = {}
    for record in measured:
        by_arm.setdefault(record.arm, []).append(record)
    return [_named(verdict, by_arm) for verdict in verdicts]


def _named(verdict: Verdict, by_arm: Mapping[str, list[RunRecord]]) -> Verdict:
    arms = (verdict.arm, verdict.baseline)
    if not all(arm in by_arm for arm in arms):
        return verdict
    kinds = {record.budget.get("kind") for arm in arms for record in by_arm[arm]}
    held_equal = "energy" if kinds == {"equal_energy"} else "time"
    named = replace(verdict, kernels={arm: kernels_of(by_arm[arm]) for arm in arms}, held_equal=held_equal)
    return replace(named, sentence=sentence(named))


def _kernels(record: RunRecord) -> Iterable[str]:
    """Yield the kernels that the mixers reported."""
    noted = record.environment.device.get("kernels")
    return (UNKNOWN,) if noted is None else noted.values()

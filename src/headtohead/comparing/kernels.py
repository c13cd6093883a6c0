"""What computed each arm: where time was equal, an arm without a fused kernel is judged by its program as well."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from headtohead.comparing.arms import arm_of
from headtohead.comparing.verdict import Verdict
from headtohead.comparing.wording import sentence
from headtohead.tracking.record import RunRecord

UNKNOWN = "what its record does not tell"
"""What stands for the kernel of runs whose record names none, such as those of other programs."""


def kernels_of(records: Iterable[RunRecord]) -> tuple[str, ...]:
    """What computed the mixers of one arm; empty where it has none."""
    return tuple(sorted({kernel for record in records for kernel in _kernels(record)}))


def with_kernels(verdicts: Sequence[Verdict], records: Iterable[RunRecord]) -> list[Verdict]:
    """Verdicts on runs of equal time name the kernels of both arms; others stay as they are."""
    timed = [record for record in records if record.budget.get("kind") == "equal_time"]
    by_arm: dict[str, list[RunRecord]] = {}
    for record in timed:
        by_arm.setdefault(arm_of(record), []).append(record)
    return [_named(verdict, by_arm) for verdict in verdicts]


def _named(verdict: Verdict, by_arm: Mapping[str, list[RunRecord]]) -> Verdict:
    arms = (verdict.arm, verdict.baseline)
    if not all(arm in by_arm for arm in arms):
        return verdict
    named = replace(verdict, kernels={arm: kernels_of(by_arm[arm]) for arm in arms})
    return replace(named, sentence=sentence(named))


def _kernels(record: RunRecord) -> Iterable[str]:
    """As the mixers said themselves."""
    noted = record.environment.device.get("kernels")
    return (UNKNOWN,) if noted is None else noted.values()

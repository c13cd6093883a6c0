"""What computed each arm: where time was equal, an arm without a fused kernel is judged by its program as well."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headtohead.comparing.arms import arm_of
from headtohead.comparing.verdict import Verdict
from headtohead.comparing.wording import sentence
from headtohead.tracking.record import RunRecord

PLAIN = "torch"
_ATTENTION, _RECURRENCE = "fused attention", "fused recurrence"
_OF_TORCH = {
    **dict.fromkeys(
        (
            "SoftmaxAttention", "SoftmaxCrossAttention", "Linformer", "LowRank",
            "SlidingWindow", "Strided", "BigBird", "Longformer",
        ),
        _ATTENTION,
    ),
    **dict.fromkeys(("Lstm", "Gru", "TanhRnn"), _RECURRENCE),
}  # fmt: skip
"""Mixers that one of torch's own fused kernels computes."""
ACCELERATED = ("GatedDelta", "GatedLinearAttention", "Mamba", "Mamba2", "Retention", "Rwkv7")
"""Mixers whose runs note which kernel they had."""
_NO_MIXERS = ("Identity",)


def kernels_of(records: Iterable[RunRecord]) -> tuple[str, ...]:
    """Of the mixers of one arm, by name; empty where it has none."""
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


def _kernels(record: RunRecord) -> Iterator[str]:
    noted = record.environment.device.get("kernels") or {}
    yield from noted.values()
    for mixer in set(_mixers(record.config.get("model"))):
        if mixer in _OF_TORCH:
            yield _OF_TORCH[mixer]
        elif mixer not in ACCELERATED or not noted:
            yield PLAIN


def _mixers(part: Any) -> Iterator[str]:
    """The classes of all mixers in a configuration."""
    if isinstance(part, Mapping):
        target = part.get("_target_")
        module, _, name = target.rpartition(".") if isinstance(target, str) else ("", "", "")
        if ".mixers." in module and name not in _NO_MIXERS:
            yield name
        for inner in part.values():
            yield from _mixers(inner)
    elif isinstance(part, list | tuple):
        for inner in part:
            yield from _mixers(inner)

"""Plan a benchmark: what varies, and the cases that follow: conf/bench.yaml, field `bench`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from typing import Annotated, Any, Literal

from headtohead.components.checkpointing import CheckpointingKind
from headtohead.errors import UsageError
from headtohead.ranges import BatchSize, Count, Filled, Length, Seconds, Share
from headtohead.training.loop.precision import PrecisionName

Measure = Literal["step", "forward", "evaluation"]
AttentionForm = Literal["fused", "explicit"]
AXES = ("batch_size", "precision", "checkpointing", "attention", "compile")


@dataclass(frozen=True)
class Variant:
    """Everything but the length."""

    batch_size: int = 1
    precision: PrecisionName = "32-true"
    checkpointing: CheckpointingKind = "none"
    attention: AttentionForm = "fused"
    compile: bool = False

    def label(self, base: Variant) -> str:
        """Return how the variant differs from the base, in words: "batch_size=4, precision=bf16-mixed"."""
        own, usual = asdict(self), asdict(base)
        sentences = [f"{name}={str(value).lower()}" for name, value in own.items() if value != usual[name]]
        return ", ".join(sentences) or "base"


@dataclass(frozen=True)
class BenchmarkCase:
    """One thing to be measured."""

    measure: Measure
    variant: Variant
    length: int


@dataclass(frozen=True)
class BenchPlan:
    """The lists that are varied; of each, the first value is the base."""

    measures: Annotated[list[Measure], Filled()] = field(default_factory=lambda: ["step", "forward", "evaluation"])
    lengths: Annotated[list[Length], Filled()] = field(default_factory=lambda: [512, 1024, 2048, 4096, 8192])
    batch_sizes: Annotated[list[BatchSize], Filled()] = field(default_factory=lambda: [1])
    precisions: Annotated[list[PrecisionName], Filled()] = field(default_factory=lambda: ["32-true"])
    checkpointing: Annotated[list[CheckpointingKind], Filled()] = field(default_factory=lambda: ["none"])
    attention: Annotated[list[AttentionForm], Filled()] = field(default_factory=lambda: ["fused"])
    compile: Annotated[list[bool], Filled()] = field(default_factory=lambda: [False])
    combine: Literal["one_at_a_time", "all"] = "one_at_a_time"
    rounds: Count = 3
    seconds: Seconds = 0.5
    memory_share: Share = 0.8

    def __post_init__(self) -> None:
        for name in ("measures", "lengths", "batch_sizes", "precisions", "checkpointing", "attention", "compile"):
            values = getattr(self, name)
            if not values:
                raise UsageError(f"bench.{name}=[] leaves nothing to measure: give at least one value")
            if len(set(values)) < len(values):
                raise UsageError(f"bench.{name}={values} has a value twice: give each once")

    @property
    def base(self) -> Variant:
        return next(self._combinations())

    def variants(self) -> list[Variant]:
        """Return the base first; then those that differ from it in one axis, or in any."""
        if self.combine == "all":
            return list(self._combinations())
        base = self.base
        others = [replace(base, **{axis: value}) for axis, values in self._values().items() for value in values[1:]]
        return [base, *others]

    def cases(self) -> Iterator[BenchmarkCase]:
        """Yield the cases in the order of measurement: variants in turn at each length, short lengths first."""
        for measure in self.measures:
            for length in sorted(self.lengths):
                for variant in self.variants():
                    if not _is_idle(measure, variant, self.base):
                        yield BenchmarkCase(measure, variant, length)

    def _values(self) -> dict[str, list[Any]]:
        lists = (self.batch_sizes, self.precisions, self.checkpointing, self.attention, self.compile)
        return dict(zip(AXES, lists, strict=True))

    def _combinations(self) -> Iterator[Variant]:
        for values in product(*self._values().values()):
            yield Variant(*values)


def _is_idle(measure: Measure, variant: Variant, base: Variant) -> bool:
    """Checkpointing changes nothing where there is no backward pass."""
    return measure != "step" and variant.checkpointing != base.checkpointing

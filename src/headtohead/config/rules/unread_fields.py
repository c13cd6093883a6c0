"""Refuse fields that only another field brings to life, where that one is not set: nothing would read them, and an arm
that sets one would be its baseline under another name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headtohead.config.errors import show
from headtohead.config.rules.config_view import ConfigView


@dataclass(frozen=True)
class DependentField:
    """A field that has no effect unless another one is set."""

    field: str
    unset: Any
    """Its value where nobody set it."""
    why: str
    """The predicate of the sentence that refuses it."""
    needs: str
    """The field without which it does nothing."""
    is_met: Callable[[Any], bool]
    """Whether a value of that field is enough."""
    way: str
    """The override that sets it."""


DEPENDENT_FIELDS = (
    DependentField(
        "task.length_penalty", 1.0, "weighs the texts that a beam search compares", "task.beams",
        lambda beams: beams > 1, "task.beams=4",
    ),
    DependentField(
        "task.noise_density", 0.15, "is the density of one kind of spans", "task.mixture",
        lambda mixture: mixture == "none", "task.mixture=none",
    ),
    DependentField(
        "task.mean_span_length", 3.0, "is the length of one kind of spans", "task.mixture",
        lambda mixture: mixture == "none", "task.mixture=none",
    ),
    DependentField(
        "trainer.min_delta", 0.0, "says what counts as better for stopping early", "trainer.patience",
        lambda patience: patience is not None, "trainer.patience=3",
    ),
    DependentField(
        "optimizer.nesterov", False, "looks ahead along the momentum", "optimizer.momentum",
        lambda momentum: momentum > 0, "optimizer.momentum=0.9",
    ),
    DependentField(
        "checkpointing.every", 2, "is k of every_k", "checkpointing.kind", lambda kind: kind == "every_k",
        "checkpointing=every_k",
    ),
    DependentField(
        "model.early_feedforward", None, "is the feed-forward of the first layers", "model.num_early_layers",
        bool, "model.num_early_layers=1",
    ),
)  # fmt: skip


def rules() -> tuple[Callable[[ConfigView], Iterator[str]], ...]:
    return (_unread,)


def _unread(view: ConfigView) -> Iterator[str]:
    for one in DEPENDENT_FIELDS:
        value, needed = view.at(one.field), view.at(one.needs)
        if value in (None, one.unset) or one.is_met(needed):
            continue
        if view.config.get("resume_from") and not one.field.startswith("trainer."):
            continue  # a run that continues cannot change it, and is refused nothing that it began with
        typed = one.field if isinstance(value, Mapping) else f"{one.field}={show(value)}"
        yield f"{typed} {one.why}, and {one.needs} is {show(needed)}: give {one.way}, or {one.field}={show(one.unset)}"

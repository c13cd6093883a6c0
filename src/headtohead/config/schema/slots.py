"""Define what a group's choices may be: the packages they come from, the arguments that their parent passes.

`_target_` strings escape an import checker, so the layers are written down here, refused at run time and tested.
"""

from __future__ import annotations

from dataclasses import dataclass

_DIMENSIONS = frozenset({"d_model", "num_heads", "causal", "dropout", "max_length", "grid"})


@dataclass(frozen=True)
class Slot:
    """One group: where its classes live, and what is passed to them and so cannot be set in the configuration."""

    packages: tuple[str, ...]
    passed: frozenset[str] = frozenset()
    filled: frozenset[str] = frozenset()
    """The arguments that may stay null, to be taken from the data."""
    filled_by: str = "the model"
    """The parent that passes it."""


SLOTS: dict[str, Slot] = {
    "model": Slot(
        ("headtohead.architectures",),
        frozenset(
            {
                "head",
                "num_future_tokens",
                "generator_width",
                "generator_layers",
                "generator_heads",
                "mask_rate",
            }
        ),
        frozenset({"vocab_size", "max_length", "max_target_length", "num_classes", "image_shape"}),
        filled_by="the task",
    ),
    "model/mixer": Slot(("headtohead.components",), _DIMENSIONS),
    "model/mixers": Slot(("headtohead.components",), _DIMENSIONS),
    "model/local": Slot(("headtohead.components",), _DIMENSIONS),
    "model/cross": Slot(("headtohead.components",), _DIMENSIONS),
    "model/position": Slot(("headtohead.components",), _DIMENSIONS),
    "model/norm": Slot(("headtohead.components",), frozenset({"d_model"})),
    "model/feedforward": Slot(("headtohead.components",), frozenset({"d_model", "dropout"})),
    "model/feedforwards": Slot(("headtohead.components",), frozenset({"d_model", "dropout"})),
    "model/early_feedforward": Slot(("headtohead.components",), frozenset({"d_model", "dropout"})),
    "model/residual": Slot(("headtohead.components",), frozenset({"norm", "d_model", "branches"})),
    "model/initialisation": Slot(("headtohead.components",), frozenset({"model"})),
    "task": Slot(("headtohead.tasks",)),
    "data": Slot(("headtohead.data",)),
    "augmentation": Slot(("headtohead.data.augmentation",)),
    "optimizer": Slot(("headtohead.training",), frozenset({"model", "params"}), filled_by="the run"),
    "parametrisation": Slot(("headtohead.training",)),
    "schedule": Slot(("headtohead.training",), frozenset({"total_steps"}), filled_by="the run"),
    "finetuning": Slot(("headtohead.training",)),
    "precision": Slot(("headtohead.training",)),
    "checkpointing": Slot(("headtohead.components",)),
    "trainer": Slot(("headtohead.training",)),
    "evaluation": Slot(("headtohead.training",)),
    "probe": Slot(("headtohead.training",)),
    "tracking": Slot(("headtohead.wandb_client",)),
    "bench": Slot(("headtohead.diagnostics",)),
    "budget": Slot(("headtohead.studies",)),
    "launcher": Slot(("headtohead.execution",)),
}


def slot_of(group: str) -> Slot:
    """Return the slot of a group; `model/decoder/norm` has that of `model/norm`; what has none may name any layer's
    class."""
    parts = group.split("/")
    return SLOTS.get(f"{parts[0]}/{parts[-1]}" if len(parts) > 1 else group, Slot(("headtohead",)))


def may_name(group: str, target: str) -> bool:
    """Return whether a choice of this group may name this class: one of its own layer, or one of no layer of ours."""
    package = target.partition(".")[0]
    return package != "headtohead" or any(target.startswith(f"{allowed}.") for allowed in slot_of(group).packages)

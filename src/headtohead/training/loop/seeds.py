"""The sources of randomness of a run, all made from its one seed and each with a stream of its own."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import torch

from headtohead.components.training_hooks import ChangesWithSteps
from headtohead.records.record import Seeds

EVALUATION_SEED = 0
"""Random choices about validation and test rows are the same in every run, whatever its seed."""


def derive(seed: int, *purpose: str | int) -> int:
    """32 bits that depend on the seed and the purpose."""
    text = ":".join(map(str, (seed, *purpose)))
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big")


def seeds_of(seed: int) -> Seeds:
    return Seeds(
        initialisation=derive(seed, "initialisation"),
        data_order=derive(seed, "data order"),
        dropout=derive(seed, "dropout"),
    )


def begin_step(parts: Sequence[ChangesWithSteps], dropout_seed: int, step: int) -> None:
    """Tell parts of a step that begins; what they draw is alike on all devices, and in a resumed run."""
    if parts:
        generator = torch.Generator().manual_seed(derive(dropout_seed, "step", step))
        for part in parts:
            part.begin_step(step, generator)


def seed_step(dropout_seed: int, step: int, rank: int, device: torch.device) -> None:
    """Fix what is random in one training step, so that a resumed run needs no generator's state.

    Only the generators that a step draws from are seeded: torch.manual_seed takes 0.1 ms to look after every device.
    """
    seed = derive(dropout_seed, step, rank)
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)

"""A checkpoint's config.json is translated here into the overrides that compose our model."""

from __future__ import annotations

from headtohead.architectures.heads import HeadName
from headtohead.pretrained.families import family_of
from headtohead.pretrained.hub_checkpoint import Checkpoint
from headtohead.pretrained.model_family import Hub, InexpressibleError, ModelFamily
from headtohead.pretrained.safetensor_files import CheckpointError


def read_config(checkpoint: Checkpoint) -> tuple[ModelFamily, Hub]:
    """Return the family of a checkpoint and its completed config.json; raises CheckpointError where it is refused."""
    try:
        family = family_of(checkpoint.config)
        return family, family.completed_by_names(family.complete(checkpoint.config), checkpoint.names)
    except _UNREADABLE as error:
        raise _refusal(checkpoint, error) from None


def model_overrides(checkpoint: Checkpoint, head: HeadName) -> list[str]:
    """Return the overrides that compose our model with this head; raise CheckpointError where the file is refused."""
    family, hub = read_config(checkpoint)
    try:
        return family.overrides(hub, head)
    except _UNREADABLE as error:
        raise _refusal(checkpoint, error) from None


def differences(checkpoint: Checkpoint, head: HeadName) -> list[str]:
    """Return the differences from the reference by design, a sentence each."""
    family, hub = read_config(checkpoint)
    try:
        return list(family.differences(hub, head))
    except _UNREADABLE as error:
        raise _refusal(checkpoint, error) from None


_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError)
"""What reading raises where a field is absent or holds something of another type."""


def _refusal(checkpoint: Checkpoint, error: Exception) -> CheckpointError:
    origin = f"init_from={checkpoint.origin}"
    if isinstance(error, CheckpointError):
        return error
    if isinstance(error, InexpressibleError):
        return CheckpointError(f"{origin}: {error}")
    if isinstance(error, KeyError):
        return CheckpointError(f"{origin}: its config.json has no {error.args[0]}; fetch it again")
    return CheckpointError(f"{origin}: its config.json makes no model ({error}); fetch it again")

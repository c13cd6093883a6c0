"""The attention maps of a model: an ordinary forward pass in evaluation, watched, that leaves no trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headtohead.components.attending import Attends
from headtohead.components.contracts import Context, CrossMixer, Grid, Mixer
from headtohead.components.embeddings import PatchEmbedding
from headtohead.components.mixers.preceded import Preceded
from headtohead.probing.undisturbed import architecture_of, moved, uncompiled, undisturbed

Source = Literal["tokens", "decoder_tokens", "images", "features"]
"""What the places along an axis are: the model's inputs, or the places of its features where these are others."""
Measure = Literal["attention", "implicit attention", "receptive field"]
_MOST_HEADS = 32
"""Implicit attention with a head for every channel is shown by groups of neighbouring channels, as many as these."""


@dataclass(frozen=True)
class AttentionMaps:
    """The weights of all heads of one mixer, for every sample of a batch."""

    name: str
    """Where the mixer sits: stack.0.mixer, encoder.3.mixer, decoder.0.cross."""
    kind: Literal["self", "cross"]
    weights: Float[Tensor, "B H L M"]
    """float32, on the CPU; zero wherever the query or the key is padding."""
    causal: bool
    """Whether the maps were drawn under a causal mask."""
    measure: Measure = "attention"
    """What the weights are: shares; the matrix from values to outputs; how strongly outputs depend on inputs."""
    channels: int = 1
    """How many channels of implicit attention a head stands for: the mean of their weights' sizes."""
    queries: Source = "tokens"
    """What of the model's inputs the queries stand for, one by one."""
    keys: Source = "tokens"
    query_valid: Bool[Tensor, "B L"] | None = None
    """True where a query is a real token; None means all are."""
    key_valid: Bool[Tensor, "B M"] | None = None
    segments: Int[Tensor, "B L"] | None = None
    """Document numbers of packed rows, for self-attention."""
    grid: Grid | None = None
    """Rows and columns of an image's patches; queries and keys before them are no patches."""

    @property
    def allowed(self) -> Bool[Tensor, "B L M"]:
        """True where a query may look at a key: by causality, padding and documents."""
        rows, _, length, num_keys = self.weights.shape
        allowed = torch.ones(rows, length, num_keys, dtype=torch.bool)
        if self.causal:
            allowed = allowed.tril()
        if self.query_valid is not None:
            allowed = allowed & self.query_valid[:, :, None]
        if self.key_valid is not None:
            allowed = allowed & self.key_valid[:, None, :]
        if self.segments is not None:
            allowed = allowed & (self.segments[:, :, None] == self.segments[:, None, :])
        return allowed


def attention_maps(
    model: nn.Module, inputs: Mapping[str, Tensor], *, causal: bool | None = None
) -> list[AttentionMaps]:
    """The maps of every mixer that has attention, in the order in which the model calls them; none where none has.

    `model` is an architecture, or what wraps one (DDP, torch.compile); `inputs` are those of Batch.inputs(), on any
    device. `causal` turns the mixers' own causal mask on or off for the maps alone: the model computes as ever, so
    that the same queries and keys are shown both ways. Precision is what the caller runs under; modes, generators
    and statistics stay as they were.
    """
    architecture = architecture_of(model)
    found: list[AttentionMaps] = []
    grid = next((part.grid for part in architecture.modules() if isinstance(part, PatchEmbedding)), None)
    hooks = [
        part.register_forward_pre_hook(partial(_watch, found=found, name=name, causal=causal, grid=grid))
        for name, part in attending(architecture).items()
    ]
    try:
        with torch.no_grad(), uncompiled(), undisturbed(architecture):
            architecture.features(**moved(inputs, architecture))
    finally:
        for hook in hooks:
            hook.remove()
    return found


def attending(model: nn.Module) -> dict[str, Attends]:
    """Every part of a model that has attention, by the name of its maps; not the parts that such a part is made of, nor
    what is local before a mixer."""
    found: dict[str, Attends] = {}
    inner: set[nn.Module] = set()
    for name, part in architecture_of(model).named_modules():
        if isinstance(part, Preceded):
            inner.update(part.local.modules())
        if isinstance(part, Attends) and part not in inner:
            found[shown_name(name)] = part
            inner.update(part.modules())
    return found


def shown_name(path: str) -> str:
    """How the maps of a part are called: stack.0.mixer, wherever its modules really sit."""
    return path.replace("blocks.", "").replace(".mixer.mixer", ".mixer")


def _watch(
    part: nn.Module,
    given: tuple[Tensor, Context],
    *,
    found: list[AttentionMaps],
    name: str,
    causal: bool | None,
    grid: Grid | None,
) -> None:
    """Before a mixer is called: its weights for the same input."""
    assert isinstance(part, Attends)
    x, context = given
    is_cross = isinstance(part, CrossMixer)
    weights, channels = _by_group(part.attention(x, context, causal=causal).float())
    query_valid, key_valid = context.valid, context.memory_valid if is_cross else context.valid
    for valid, shape in ((query_valid, (-1, 1, x.shape[1], 1)), (key_valid, (-1, 1, 1, weights.shape[-1]))):
        if valid is not None:
            weights = weights.masked_fill(~valid.view(shape), 0.0)
    own = isinstance(part, Mixer) and part.causal
    queries: Source = "images" if grid is not None else "tokens" if context.memory is None else "decoder_tokens"
    found.append(
        AttentionMaps(
            name=name,
            kind="cross" if is_cross else "self",
            weights=weights.cpu(),
            causal=not is_cross and (own if causal is None else causal),
            measure="attention" if part.gives_shares(context) else "implicit attention",
            channels=channels,
            queries=queries,
            keys="tokens" if is_cross else queries,
            query_valid=_kept(query_valid),
            key_valid=_kept(key_valid),
            segments=None if is_cross else _kept(context.segments),
            grid=grid,
        )
    )


def _by_group(weights: Float[Tensor, "B H L M"]) -> tuple[Float[Tensor, "B H L M"], int]:
    """Neighbouring channels together where there are too many to look at, and how many."""
    heads = weights.shape[1]
    if heads <= _MOST_HEADS:
        return weights, 1
    size = next(size for size in range(-(-heads // _MOST_HEADS), heads + 1) if heads % size == 0)
    return weights.abs().unflatten(1, (-1, size)).mean(2), size


def _kept(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.cpu()

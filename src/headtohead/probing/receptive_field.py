"""Effective receptive fields: how strongly each output depends on each input, by gradients (Luo et al. 2016,
https://arxiv.org/abs/1701.04128), for whatever has no attention to show, and for whole models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headtohead.components.attending import Attends
from headtohead.components.contracts import Context, Grid, Mixer
from headtohead.components.embeddings import PatchEmbedding, TokenEmbedding
from headtohead.components.mixers.identity import Identity
from headtohead.components.mixers.preceded import Preceded
from headtohead.probing.attention import AttentionMaps, Source, attention_maps, shown_name
from headtohead.probing.undisturbed import architecture_of, moved, uncompiled, undisturbed

Wanted = Literal["never", "where_needed", "always"]
"""where_needed: of mixers that name no attention, and of a whole model that has none anywhere."""
_DIRECTIONS = 4
"""Random directions of the output whose gradients are put together."""
_SUFFIX = ".receptive_field"


def all_maps(
    model: nn.Module, inputs: Mapping[str, Tensor], *, causal: bool | None = None, fields: Wanted = "where_needed"
) -> list[AttentionMaps]:
    """Attention, and receptive fields as wanted, layer by layer and the whole model last."""
    found = attention_maps(model, inputs, causal=causal)
    if fields == "never" or causal is not None:
        return found
    by_mixer = mixer_fields(model, inputs)
    whole = model_fields(model, inputs) if fields == "always" or not (found or by_mixer) else []
    order = {shown_name(name): place for place, (name, _) in enumerate(architecture_of(model).named_modules())}
    layers = sorted([*found, *by_mixer], key=lambda one: order[one.name.removesuffix(_SUFFIX)])
    return [*layers, *whole]


def silent_mixers(model: nn.Module) -> dict[str, Mixer]:
    """Every mixer that names no attention, nor holds one that does, by its map's name; not what is local before."""
    found: dict[str, Mixer] = {}
    inner: set[nn.Module] = set()
    for name, part in architecture_of(model).named_modules():
        if isinstance(part, Preceded):
            inner.update(part.local.modules())
            continue
        if not isinstance(part, Mixer) or part in inner:
            continue
        inner.update(part.modules())
        speaks = any(isinstance(one, Attends) for one in part.modules())
        if not speaks and not isinstance(part, Identity):
            found[shown_name(name)] = part
    return found


def mixer_fields(model: nn.Module, inputs: Mapping[str, Tensor]) -> list[AttentionMaps]:
    """Of every silent mixer: how much of each token there is in each of its outputs."""
    architecture = architecture_of(model)
    calls: dict[str, tuple[Tensor, Context]] = {}

    def note(part: nn.Module, given: tuple[Tensor, Context], *, name: str) -> None:
        del part
        calls[name] = given

    parts = silent_mixers(model)
    hooks = [part.register_forward_pre_hook(partial(note, name=name)) for name, part in parts.items()]
    try:
        with torch.no_grad(), uncompiled(), undisturbed(architecture):
            architecture.features(**moved(inputs, architecture))
    finally:
        for hook in hooks:
            hook.remove()
    grid = next((part.grid for part in architecture.modules() if isinstance(part, PatchEmbedding)), None)
    found = []
    for name, (x, context) in calls.items():
        with undisturbed(architecture):
            field = _field(partial(_called, parts[name], context=context), x)
        queries: Source = "images" if grid is not None else "tokens" if context.memory is None else "decoder_tokens"
        found.append(_as_maps(name, field, queries, queries, context.valid, context.valid, context.segments, grid))
    return found


def _called(part: Mixer, x: Tensor, *, context: Context) -> Tensor:
    y: Tensor = part(x, context)
    return y


def model_fields(model: nn.Module, inputs: Mapping[str, Tensor]) -> list[AttentionMaps]:
    """Of the whole model: how its features, before the head, depend on the embedded tokens, or on the pixels; of a
    module of anybody's, on what its tables hold for the tokens, and none where there is no such table."""
    architecture = architecture_of(model)
    given = moved(inputs, architecture)
    leaves: list[Tensor] = []
    texts = {given[name].data_ptr() for name in ("tokens", "decoder_tokens") if name in given}

    def cut(part: nn.Module, read: tuple[Tensor, ...], output: Tensor) -> Tensor:
        """From here on gradients are asked for; tables of places or kinds are left alone."""
        if isinstance(part, nn.Embedding) and read[0].data_ptr() not in texts:
            return output
        leaves.append(output.detach().requires_grad_())
        return leaves[-1]

    embeddings: set[nn.Module] = {part for part in architecture.modules() if isinstance(part, TokenEmbedding)}
    embeddings = embeddings or {part for part in architecture.modules() if isinstance(part, nn.Embedding)}
    hooks = [part.register_forward_hook(cut) for part in embeddings]
    if "images" in given:
        given["images"] = given["images"].detach().requires_grad_()
        leaves.append(given["images"])
    try:
        with torch.enable_grad(), uncompiled(), undisturbed(architecture):
            features = architecture.features(**given)
    finally:
        for hook in hooks:
            hook.remove()
    if not leaves:
        return []
    features = features if features.ndim == 3 else features[:, None]  # logits of a whole sample
    names = ["images"] if "images" in given else ["tokens", "decoder_tokens"]
    return [
        _of_whole(name, field, given, reads_source=len(leaves) > 1)
        for name, field in zip(names, _gradients(features, leaves), strict=False)
    ]


def _of_whole(name: str, field: Tensor, given: Mapping[str, Tensor], *, reads_source: bool) -> AttentionMaps:
    own: Source = "decoder_tokens" if reads_source else "tokens"
    keys: Source = "images" if name == "images" else "decoder_tokens" if name == "decoder_tokens" else "tokens"
    of_tokens = name != "images" and field.shape[-2] == given[own].shape[1]
    valid = {"tokens": given.get("valid"), "decoder_tokens": given.get("decoder_valid")}
    return _as_maps(
        f"model.{name}" if reads_source else "model",
        field,
        own if of_tokens else "features",
        keys,
        valid[own] if of_tokens else None,
        valid.get(name),
        given.get("segments") if of_tokens else None,
        None,
    )


def _as_maps(
    name: str,
    field: Float[Tensor, "B L M"],
    queries: Source,
    keys: Source,
    query_valid: Bool[Tensor, "B L"] | None,
    key_valid: Bool[Tensor, "B M"] | None,
    segments: Tensor | None,
    grid: Grid | None,
) -> AttentionMaps:
    """Shares of each output's dependence; nothing where output or input is padding."""
    if query_valid is not None:
        field = field * query_valid[:, :, None]
    if key_valid is not None:
        field = field * key_valid[:, None, :]
    shares = field / field.sum(-1, keepdim=True).clamp(min=torch.finfo(field.dtype).tiny)
    is_self = queries == keys
    return AttentionMaps(
        name=f"{name}{_SUFFIX}",
        kind="self" if is_self else "cross",
        weights=shares[:, None].float().cpu(),
        causal=is_self and shares.shape[-1] > 1 and not bool(shares.triu(1).any()),
        measure="receptive field",
        queries=queries,
        keys=keys,
        query_valid=None if query_valid is None else query_valid.cpu(),
        key_valid=None if key_valid is None else key_valid.cpu(),
        segments=None if segments is None or not is_self else segments.cpu(),
        grid=grid,
    )


def _field(function: Callable[[Tensor], Tensor], x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L M"]:
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        y = function(leaf)
    return _gradients(y, [leaf])[0]


def _gradients(y: Float[Tensor, "B L D"], leaves: Sequence[Tensor]) -> list[Float[Tensor, "B L M"]]:
    """The size of each output's Jacobian by each input token (or pixel), estimated along random signs."""
    generator = torch.Generator().manual_seed(0)
    signs = torch.randint(0, 2, (_DIRECTIONS, y.shape[-1]), generator=generator).to(y) * 2 - 1
    squares = [
        y.new_zeros(y.shape[0], y.shape[1], leaf.shape[1] if leaf.ndim == 3 else leaf[0, 0].numel()) for leaf in leaves
    ]
    for place in range(y.shape[1]):
        for sign in signs:
            along = (y[:, place] * sign).sum()
            found = torch.autograd.grad(along, leaves, retain_graph=True, allow_unused=True)
            for square, gradient in zip(squares, found, strict=True):
                if gradient is not None:  # pixels: all channels of one together
                    by_key = gradient if gradient.ndim == 3 else gradient.flatten(2).mT
                    square[:, place] += by_key.square().sum(-1)
    return [square.sqrt() for square in squares]

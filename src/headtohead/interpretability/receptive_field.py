"""Effective receptive fields: how strongly each output depends on each input, by gradients (Luo et al. 2016,
https://arxiv.org/abs/1701.04128), for mixers without attention maps, and for whole models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headtohead.architectures.architecture import Architecture
from headtohead.components.attention_maps import HasAttentionMaps
from headtohead.components.component import Context, Grid, Mixer
from headtohead.components.embeddings import TokenEmbedding
from headtohead.components.mixers.combined_mixers import LocalThenMixer
from headtohead.components.mixers.identity import Identity
from headtohead.interpretability.recorded_attention import (
    AttentionMaps,
    Source,
    architecture_of,
    attention_maps,
    in_evaluation_mode,
    in_pass,
    looped_stacks,
    names_by_pass,
    on_device_of,
    patches_of,
    shown_name,
    without_compilation,
)

RequestedMaps = Literal["never", "where_needed", "always"]
"""where_needed: of mixers that name no attention, and of a whole model that has none anywhere."""
_DIRECTIONS = 4
"""Random directions of the output whose gradients are put together."""
_SUFFIX = ".receptive_field"


def all_maps(
    model: nn.Module,
    inputs: Mapping[str, Tensor],
    *,
    causal: bool | None = None,
    fields: RequestedMaps = "where_needed",
) -> list[AttentionMaps]:
    """Return attention maps, and receptive fields as requested, layer by layer and the whole model last."""
    result = attention_maps(model, inputs, causal=causal)
    if fields == "never" or causal is not None:
        return result
    by_mixer = mixer_fields(model, inputs)
    of_model = model_fields(model, inputs) if fields == "always" or not (result or by_mixer) else []
    order = _order(architecture_of(model))
    layers = sorted([*result, *by_mixer], key=lambda one: order[one.name.removesuffix(_SUFFIX)])
    return [*layers, *of_model]


def _order(architecture: Architecture) -> dict[str, tuple[int, int]]:
    """Return the places of all parts by name; those of later passes through a stack follow its last part."""
    names = [shown_name(name) for name, _ in architecture.named_modules()]
    order = {name: (index, 0) for index, name in enumerate(names)}
    for path, stack in looped_stacks(architecture).items():
        own = [name for name in names if name.startswith(f"{path}.")]
        last = order[own[-1]][0]
        later = [in_pass(name, path, k * stack.num_layers) for k in range(1, stack.loops) for name in own]
        order = {name: (last, number) for number, name in enumerate(later, start=1)} | order
    return order


def silent_mixers(model: nn.Module) -> dict[str, Mixer]:
    """Return every mixer that neither exposes attention nor contains one that does, by its map's name; local mixers in
    front of another are left out."""
    result: dict[str, Mixer] = {}
    inner: set[nn.Module] = set()
    for name, part in architecture_of(model).named_modules():
        if isinstance(part, LocalThenMixer):
            inner.update(part.local.modules())
            continue
        if not isinstance(part, Mixer) or part in inner:
            continue
        inner.update(part.modules())
        has_maps = any(isinstance(one, HasAttentionMaps) for one in part.modules())
        if not has_maps and not isinstance(part, Identity):
            result[shown_name(name)] = part
    return result


def mixer_fields(model: nn.Module, inputs: Mapping[str, Tensor]) -> list[AttentionMaps]:
    """Return, for every mixer without attention maps, how much each output depends on each input token."""
    architecture = architecture_of(model)
    calls: list[tuple[str, tuple[Tensor, Context]]] = []

    def note(part: nn.Module, args: tuple[Tensor, Context], *, name: str) -> None:
        del part
        calls.append((name, args))

    parts = silent_mixers(model)
    hooks = [part.register_forward_pre_hook(partial(note, name=name)) for name, part in parts.items()]
    try:
        with torch.no_grad(), without_compilation(), in_evaluation_mode(architecture):
            architecture.features(**on_device_of(inputs, architecture))
    finally:
        for hook in hooks:
            hook.remove()
    patches = patches_of(architecture)
    grid = None if patches is None else patches.grid
    result = []
    names = names_by_pass([name for name, _ in calls], architecture)
    for name, (own, (x, context)) in zip(names, calls, strict=True):
        with in_evaluation_mode(architecture):
            field = _field(partial(_called, parts[own], context=context), x)
        valid = context.valid
        if patches is not None and patches.hides_some(context):
            whole, valid = patches.on_whole_grid(field[:, None], context)
            field = whole[:, 0]
        queries: Source = "images" if grid is not None else "tokens" if context.memory is None else "decoder_tokens"
        result.append(_as_maps(name, field, queries, queries, valid, valid, context.segments, grid))
    return result


def _called(part: Mixer, x: Tensor, *, context: Context) -> Tensor:
    y: Tensor = part(x, context)
    return y


def model_fields(model: nn.Module, inputs: Mapping[str, Tensor]) -> list[AttentionMaps]:
    """Return how the features before the head depend on the embedded tokens or on the pixels; for somebody else's
    module, on what its embedding tables hold for the tokens, and nothing where there is no such table."""
    architecture = architecture_of(model)
    on_device = on_device_of(inputs, architecture)
    leaves: list[Tensor] = []
    texts = {on_device[name].data_ptr() for name in ("tokens", "decoder_tokens") if name in on_device}

    def cut(part: nn.Module, read: tuple[Tensor, ...], output: Tensor) -> Tensor:
        """Ask for gradients from here on; tables of positions or token types are left alone."""
        if isinstance(part, nn.Embedding) and read[0].data_ptr() not in texts:
            return output
        leaves.append(output.detach().requires_grad_())
        return leaves[-1]

    embeddings: set[nn.Module] = {part for part in architecture.modules() if isinstance(part, TokenEmbedding)}
    embeddings = embeddings or {part for part in architecture.modules() if isinstance(part, nn.Embedding)}
    hooks = [part.register_forward_hook(cut) for part in embeddings]
    if "images" in on_device:
        on_device["images"] = on_device["images"].detach().requires_grad_()
        leaves.append(on_device["images"])
    try:
        with torch.enable_grad(), without_compilation(), in_evaluation_mode(architecture):
            features = architecture.features(**on_device)
    finally:
        for hook in hooks:
            hook.remove()
    if not leaves:
        return []
    features = features if features.ndim == 3 else features[:, None]  # logits of a whole sample
    names = ["images"] if "images" in on_device else ["tokens", "decoder_tokens"]
    return [
        _map_of_model(name, field, on_device, reads_source=len(leaves) > 1)
        for name, field in zip(names, _gradients(features, leaves), strict=False)
    ]


def _map_of_model(name: str, field: Tensor, inputs: Mapping[str, Tensor], *, reads_source: bool) -> AttentionMaps:
    own: Source = "decoder_tokens" if reads_source else "tokens"
    keys: Source = "images" if name == "images" else "decoder_tokens" if name == "decoder_tokens" else "tokens"
    of_tokens = name != "images" and field.shape[-2] == inputs[own].shape[1]
    valid = {"tokens": inputs.get("valid"), "decoder_tokens": inputs.get("decoder_valid")}
    return _as_maps(
        f"model.{name}" if reads_source else "model",
        field,
        own if of_tokens else "features",
        keys,
        valid[own] if of_tokens else None,
        valid.get(name),
        inputs.get("segments") if of_tokens else None,
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
    """Return the shares of each output's dependence; zero where the output or the input is padding."""
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
    """Estimate the norm of each output's Jacobian by each input token (or pixel) along random signs; gradients are
    switched on here, since the caller may have switched them off."""
    generator = torch.Generator().manual_seed(0)
    signs = torch.randint(0, 2, (_DIRECTIONS, y.shape[-1]), generator=generator).to(y) * 2 - 1
    squares = [
        y.new_zeros(y.shape[0], y.shape[1], leaf.shape[1] if leaf.ndim == 3 else leaf[0, 0].numel()) for leaf in leaves
    ]
    for index in range(y.shape[1]):
        for sign in signs:
            with torch.enable_grad():
                along = (y[:, index] * sign).sum()
            gradients = torch.autograd.grad(along, leaves, retain_graph=True, allow_unused=True)
            for square, gradient in zip(squares, gradients, strict=True):
                if gradient is not None:  # pixels: all channels of one together
                    by_key = gradient if gradient.ndim == 3 else gradient.flatten(2).mT
                    square[:, index] += by_key.square().sum(-1)
    return [square.sqrt() for square in squares]

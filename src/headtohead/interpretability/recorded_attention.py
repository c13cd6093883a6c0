"""The attention maps of a model are recorded during an ordinary forward pass in evaluation, without side effects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headtohead.architectures.architecture import Architecture, InputSize
from headtohead.components.attention_maps import HasAttentionMaps
from headtohead.components.component import Context, CrossMixer, Grid, Mixer
from headtohead.components.embeddings import PatchEmbedding
from headtohead.components.mixers.combined_mixers import LocalThenMixer
from headtohead.components.stack import Stack
from headtohead.errors import UsageError
from headtohead.lazy_packages import has_run

Source = Literal["tokens", "decoder_tokens", "images", "features"]
"""The meaning of the positions along an axis: the model's inputs, or its features where these differ."""
Measure = Literal["attention", "implicit attention", "receptive field"]
_MOST_HEADS = 32
"""Implicit attention with a head for every channel is shown by groups of neighbouring channels, as many as these."""


@dataclass(frozen=True)
class AttentionMaps:
    """The weights of all heads of one mixer, for every sample of a batch."""

    name: str
    """The mixer's path: stack.0.mixer, encoder.3.mixer, decoder.0.cross."""
    kind: Literal["self", "cross"]
    weights: Float[Tensor, "B H L M"]
    """float32, on the CPU; zero wherever the query or the key is padding."""
    causal: bool
    """Whether the maps were drawn under a causal mask."""
    measure: Measure = "attention"
    """The meaning of the weights: shares; the matrix from values to outputs; how strongly outputs depend on inputs."""
    channels: int = 1
    """The number of channels of implicit attention that a head stands for: the mean of their weights' sizes."""
    queries: Source = "tokens"
    """The inputs of the model that the queries stand for, one by one."""
    keys: Source = "tokens"
    query_valid: Bool[Tensor, "B L"] | None = None
    """The mask of queries that are real tokens; None means all are."""
    key_valid: Bool[Tensor, "B M"] | None = None
    segments: Int[Tensor, "B L"] | None = None
    """Document numbers of packed rows, for self-attention."""
    grid: Grid | None = None
    """Rows and columns of an image's patches; queries and keys before them are not patches."""

    @property
    def allowed(self) -> Bool[Tensor, "B L M"]:
        """Return a mask of the keys that each query may attend to, given causality, padding and documents."""
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
    """Return the maps of every mixer that has attention, in the order in which the model calls them.

    `model` is an architecture, or what wraps one (DDP, torch.compile); `inputs` are those of Batch.inputs(), on any
    device. `causal` turns the mixers' own causal mask on or off for the maps alone: the model's computation is
    unchanged, so that the same queries and keys are shown both ways. Precision is the caller's; modes, generators and
    statistics stay as they were.
    """
    architecture = architecture_of(model)
    result: list[AttentionMaps] = []
    patches = patches_of(architecture)
    hooks = [
        part.register_forward_pre_hook(partial(_watch, maps=result, name=name, causal=causal, patches=patches))
        for name, part in mixers_with_maps(architecture).items()
    ]
    try:
        with torch.no_grad(), without_compilation(), in_evaluation_mode(architecture):
            architecture.features(**on_device_of(inputs, architecture))
    finally:
        for hook in hooks:
            hook.remove()
    names = names_by_pass([one.name for one in result], architecture)
    return [replace(one, name=name) for one, name in zip(result, names, strict=True)]


def names_by_pass(names: Sequence[str], architecture: Architecture) -> list[str]:
    """Return the names of mixers in the order of their calls, with the numbers of the layers that a token had passed:
    where layers are passed several times, a name that comes again is that of a later layer."""
    loops = looped_stacks(architecture)
    times: Counter[str] = Counter()
    numbered = []
    for name in names:
        path = next((path for path in loops if name.startswith(f"{path}.")), None)
        numbered.append(name if path is None else in_pass(name, path, times[name] * loops[path].num_layers))
        times[name] += 1
    return numbered


def looped_stacks(architecture: Architecture) -> dict[str, Stack]:
    """Return the stacks whose layers are passed several times, by their paths."""
    return {path: part for path, part in architecture.named_modules() if isinstance(part, Stack) and part.loops > 1}


def in_pass(name: str, path: str, later: int) -> str:
    """Return the name of a part of a stack, so many layers later."""
    layer, _, rest = name.removeprefix(f"{path}.").partition(".")
    return f"{path}.{int(layer) + later}.{rest}" if layer.isdecimal() else name


def mixers_with_maps(model: nn.Module) -> dict[str, HasAttentionMaps]:
    """Return every part of a model that has attention, by the name of its maps, without the parts inside such a part
    and without local mixers in front of another."""
    result: dict[str, HasAttentionMaps] = {}
    inner: set[nn.Module] = set()
    for name, part in architecture_of(model).named_modules():
        if isinstance(part, LocalThenMixer):
            inner.update(part.local.modules())
        if isinstance(part, HasAttentionMaps) and part not in inner:
            result[shown_name(name)] = part
            inner.update(part.modules())
    return result


def shown_name(path: str) -> str:
    """Return the name of a part's maps: stack.0.mixer, wherever its modules really sit."""
    return path.replace("blocks.", "").replace(".mixer.mixer", ".mixer")


@dataclass(frozen=True)
class Patches:
    """The patches of the images that a model reads."""

    grid: Grid
    length: int
    """The tokens of an image, those before the patches included."""

    def hides_some(self, context: Context) -> bool:
        """Return whether the tokens are those of some patches alone, at the places that the context says."""
        return context.positions is not None and context.positions.shape[1] < self.length

    def on_whole_grid(
        self, weights: Float[Tensor, "B H L M"], context: Context
    ) -> tuple[Float[Tensor, "B H P P"], Bool[Tensor, "B P"]]:
        """Return weights over all tokens of an image, zero where the model saw none, and which it saw."""
        assert context.positions is not None, "hides_some says so"
        num_samples, num_heads = weights.shape[:2]
        seen = context.positions.expand(num_samples, -1)
        whole = weights.new_zeros(num_samples, num_heads, self.length, self.length)
        sample = torch.arange(num_samples, device=weights.device)[:, None, None]
        whole[sample, :, seen[:, :, None], seen[:, None, :]] = weights.permute(0, 2, 3, 1)
        is_seen = torch.zeros(num_samples, self.length, dtype=torch.bool, device=weights.device)
        return whole, is_seen.scatter(1, seen, True)


def patches_of(architecture: Architecture) -> Patches | None:
    """Return the patches of the images that a model reads; None where it reads none in patches."""
    grid = next((part.grid for part in architecture.modules() if isinstance(part, PatchEmbedding)), None)
    return None if grid is None else Patches(grid, architecture.num_tokens(InputSize()))


def _watch(
    part: nn.Module,
    args: tuple[Tensor, Context],
    *,
    maps: list[AttentionMaps],
    name: str,
    causal: bool | None,
    patches: Patches | None,
) -> None:
    """Record a mixer's weights for the same input just before it is called."""
    assert isinstance(part, HasAttentionMaps)
    x, context = args
    grid = part.grid or (None if patches is None else patches.grid)
    is_cross = isinstance(part, CrossMixer)
    weights, channels = _by_group(part.attention(x, context, causal=causal).float())
    query_valid, key_valid = context.valid, context.memory_valid if is_cross else context.valid
    if patches is not None and patches.hides_some(context):
        weights, query_valid = patches.on_whole_grid(weights, context)
        key_valid = query_valid
    for valid, shape in ((query_valid, (-1, 1, weights.shape[2], 1)), (key_valid, (-1, 1, 1, weights.shape[-1]))):
        if valid is not None:
            weights = weights.masked_fill(~valid.view(shape), 0.0)
    own = isinstance(part, Mixer) and part.causal
    queries: Source = "images" if grid is not None else "tokens" if context.memory is None else "decoder_tokens"
    maps.append(
        AttentionMaps(
            name=name,
            kind="cross" if is_cross else "self",
            weights=weights.cpu(),
            causal=not is_cross and (own if causal is None else causal),
            measure="attention" if part.gives_shares(context) else "implicit attention",
            channels=channels,
            queries=queries,
            keys="tokens" if is_cross else queries,
            query_valid=_on_cpu(query_valid),
            key_valid=_on_cpu(key_valid),
            segments=None if is_cross else _on_cpu(context.segments),
            grid=grid,
        )
    )


def _by_group(weights: Float[Tensor, "B H L M"]) -> tuple[Float[Tensor, "B H L M"], int]:
    """Average neighbouring channels where there are too many to show, and return the number averaged."""
    heads = weights.shape[1]
    if heads <= _MOST_HEADS:
        return weights, 1
    size = next(size for size in range(-(-heads // _MOST_HEADS), heads + 1) if heads % size == 0)
    return weights.abs().unflatten(1, (-1, size)).mean(2), size


def _on_cpu(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.cpu()


def architecture_of(model: nn.Module) -> Architecture:
    """Return the architecture in a model, even if DDP or torch.compile wraps it."""
    result = next((part for part in model.modules() if isinstance(part, Architecture)), None)
    if result is None:
        raise UsageError(f"{type(model).__name__} holds no Architecture: probe a model that Head to Head has built")
    return result


def on_device_of(inputs: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """Return the inputs on the model's device, images in its dtype."""
    like = next(model.parameters())
    return {
        name: tensor.to(like.device, like.dtype if tensor.is_floating_point() else None)
        for name, tensor in inputs.items()
    }


@contextmanager
def in_evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Switch to evaluation mode with generators that may be used freely, and restore both afterwards."""
    training = [part for part in model.modules() if part.training]
    devices = {parameter.device for parameter in model.parameters() if parameter.device.type == "cuda"}
    with torch.random.fork_rng(devices=list(devices)):
        model.eval()
        try:
            yield
        finally:
            for part in training:
                part.training = True


def without_compilation() -> AbstractContextManager[object]:
    """Run the model eagerly, since a compiled graph calls no hooks; where the compiler's code has not run, nothing is
    compiled (running it takes a second)."""
    return torch.compiler.set_stance("force_eager") if has_run("torch._dynamo") else nullcontext()

"""Mixers and positions declare exactly the bytes that autograd saves for the backward pass."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product

import pytest
import torch
from torch import Tensor, nn

from contracts.choices import agree, can_look, factory, kind_of, names, slow_twin
from contracts.test_mixer_laws import MIXERS, label
from contracts.test_stack_laws import FOR_IMAGES, in_layers
from headtohead.architectures.architecture import InputSize
from headtohead.components.costs import CostContext
from headtohead.components.mixers.attention import fused_attention
from headtohead.components.mixers.recurrent.torch_recurrence import workspace_bytes
from headtohead.components.positions.relative import T5Bias
from headtohead.components.stack import Stack
from headtohead.components.stack_parts import StackOptions
from headtohead.diagnostics.laws import LawSubject, alone
from headtohead.diagnostics.laws.cost_laws import declared_activations, declared_flops

pytestmark = pytest.mark.shapes(False)  # other laws over the same mixers check them
BY_SCORES = sorted(name for name in names("mixer") if kind_of(factory("mixer", name)).reads_scores)


def layered(one: partial[Stack], mixers: list[partial], **parts: partial) -> partial[Stack]:
    """Return a stack of a layer for each mixer, with some other parts replaced."""
    size, own = one.args
    parts = {**in_layers(mixers), **parts}
    return partial(one.func, replace(size, num_layers=len(mixers)), replace(own, **parts), **one.keywords)


def hold(mixers: list[partial], position: partial, *, causal: bool, length: int) -> None:
    """Build a stack of one mixer, or of several as layers of a transformer; without norms, the next layer saves its
    input."""
    stack = partial(alone(mixers[0], causal=causal, position=position), grid=None if causal else (2, (length - 1) // 2))
    if len(mixers) > 1:
        stack = layered(stack, mixers, norm=factory("norm", "layer_norm"), residual=factory("residual", "pre"))
    declared_activations(LawSubject(stack, dtype=torch.float32, length=length), tolerance=0.0)


@pytest.mark.parametrize("length", [2, 33])
@pytest.mark.parametrize(("name", "options"), MIXERS, ids=label)
def test_every_mixer_declares_every_byte(name: str, options: dict, length: int) -> None:
    mixer = factory("mixer", name, **options)
    for causal in (True, False):
        if can_look(mixer, causal=causal):
            hold([mixer], factory("position", "none"), causal=causal, length=length)


@pytest.mark.sampled(240)
@pytest.mark.parametrize("position", names("position"))
@pytest.mark.parametrize("name", names("mixer"))
def test_every_position_declares_every_byte_over_one_layer_and_three(name: str, position: str) -> None:
    mixer, encoding = factory("mixer", name), factory("position", position)
    if not agree(mixer, encoding):
        return
    for causal in (True, False):
        if can_look(mixer, causal=causal) and not (causal and position in FOR_IMAGES):
            for layers in (1, 3):
                hold(layers * [mixer], encoding, causal=causal, length=11)


@pytest.mark.parametrize("position", ["none", "rotary", "alibi", "shaw", "t5_bias"])
@pytest.mark.parametrize("takes_groups", [True, False])
def test_heads_that_share_keys_keep_copies_of_them_where_no_fused_kernel_takes_groups(
    position: str, takes_groups: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused_attention, "CPU_TAKES_GROUPS", takes_groups and fused_attention.CPU_TAKES_GROUPS)
    mixer = factory("mixer", "softmax_attention", num_kv_heads=2)
    for causal in (True, False):
        hold(2 * [mixer], factory("position", position), causal=causal, length=11)


@pytest.mark.parametrize("num_kv_heads", [2, 4])
@pytest.mark.parametrize("position", ["rotary", "alibi", "shaw", "t5_bias", "kerple", "fire"])
@pytest.mark.parametrize("name", ["softmax_attention", "sliding_window"])
def test_capped_scores_keep_their_weights_and_tangents_and_no_bias(name: str, position: str, num_kv_heads: int) -> None:
    mixer = factory("mixer", name, score_cap=2.0, num_kv_heads=num_kv_heads)
    for causal in (True, False):
        for layers in (1, 3):
            hold(layers * [mixer], factory("position", position), causal=causal, length=11)


@pytest.mark.sampled(24)
@pytest.mark.slow
@pytest.mark.parametrize("position", ["alibi", "shaw", "t5_bias", "kerple", "fire"])
@pytest.mark.parametrize("first", BY_SCORES)
def test_layers_that_make_their_biases_stand_beside_layers_that_share_them(first: str, position: str) -> None:
    for second in BY_SCORES:
        mixers = [factory("mixer", name) for name in (first, second, first)]
        for causal in (True, False):
            if all(can_look(mixer, causal=causal) for mixer in mixers):
                hold(mixers, factory("position", position), causal=causal, length=6)


@pytest.mark.parametrize("second", ["softmax_attention", "sliding_window", "lstm"])
@pytest.mark.parametrize("position", [name for name in names("position") if name not in FOR_IMAGES])
def test_every_pass_of_a_loop_declares_what_it_computes_and_saves_for_positions(position: str, second: str) -> None:
    mixers, encoding = [factory("mixer", name) for name in ("softmax_attention", second)], factory("position", position)
    if not (kind_of(encoding).shared_by_layers or agree(mixers[1], encoding)):
        return
    stack = alone(mixers[0], causal=True, position=encoding)
    looped = partial(stack, options=StackOptions(loops=2))
    fast, slow = (
        layered(looped, made, norm=factory("norm", "layer_norm"), residual=factory("residual", "pre"))
        for made in (mixers, [slow_twin(mixer) or mixer for mixer in mixers])
    )
    declared_activations(LawSubject(fast, dtype=torch.float32, length=7), tolerance=0.0)
    declared_flops(LawSubject(fast, slow, dtype=torch.float32, length=5))


@pytest.mark.parametrize("width", [4, 20, 64, 100, 256])
def test_onednn_has_the_workspace_that_is_declared(width: int) -> None:
    """The widths are on both sides of whole cache lines and pages."""
    workspaces = []

    def pack(tensor: Tensor) -> Tensor:
        if tensor.dtype == torch.uint8:
            workspaces.append(tensor.untyped_storage().nbytes())
        return tensor

    sizes, lstm = list(product((1, 7, 50), (1, 3, 16))), nn.LSTM(width, width, batch_first=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        for length, rows in sizes:
            lstm(torch.randn(rows, length, width, requires_grad=True))
    assert workspaces == [workspace_bytes(length, width, rows) for length, rows in sizes]


def test_a_bias_that_learns_keeps_the_weights_of_every_layer_on_a_cpu_and_one_bias_on_a_gpu() -> None:
    length, heads = 11, 4
    pairs, per_layer = length * length, []
    for device in ("cpu", "cuda"):
        query = CostContext(length, device=device)
        layers = (factory("mixer", "softmax_attention"), factory("position", "t5_bias"))
        one, three = (alone(layers[0], causal=True, position=layers[1]) for _ in range(2))
        three = layered(three, 3 * [layers[0]])
        per_layer.append((three().costs(query).activation_bytes - one().costs(query).activation_bytes) / 2)
    on_cpu, on_gpu = per_layer
    assert on_cpu - on_gpu == 4 * heads * pairs - 4 * heads * length  # weights, but no sums of exponentials
    frozen = T5Bias(16, num_heads=heads, max_length=None, causal=True)
    frozen.requires_grad_(False)
    query = replace(CostContext(length), biased_heads=heads, encoding=frozen)
    assert not query.explicit_attention and frozen.costs(query).activation_bytes == 4 * heads * pairs


def test_a_sample_carries_the_device_and_the_format_to_what_components_are_asked() -> None:
    query = InputSize(length=5, bytes_per_element=2, device="cuda").query(3, 4)
    assert (query.length, query.memory_length, query.bytes_per_element, query.device) == (3, 4, 2, "cuda")

"""The stack: decoding with unequal prompts, checkpointing, depth-dependent parts, limits."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import jaxtyping
import pytest
import torch

from contracts.choices import factory
from from_fields import from_fields
from headtohead.architectures.operation_counter import saved_bytes
from headtohead.components.checkpointing import Checkpointing
from headtohead.components.component import Context
from headtohead.components.costs import CostContext
from headtohead.components.mixers.attention.sliding_window import SlidingWindow
from headtohead.components.mixers.attention.softmax_attention import SoftmaxAttention
from headtohead.components.mixers.attention.softmax_cross_attention import SoftmaxCrossAttention
from headtohead.components.positions.rotary import Rotary, RotatedPairs
from headtohead.components.sequence_ops import score_masks
from headtohead.components.stack import Stack
from headtohead.components.stack_parts import StackParts, StackSize
from headtohead.errors import UsageError
from held_bytes import held_bytes

RECOMPUTING = [
    Checkpointing("full"), Checkpointing("every_k", 2), Checkpointing("every_k", 3), Checkpointing("attention"),
]  # fmt: skip
POLICIES = [*RECOMPUTING, Checkpointing("offload")]


def stack(
    *,
    position: str = "rotary",
    norm: str = "layer_norm",
    residual: str = "pre",
    feedforward: str = "gelu",
    cross: bool = False,
    num_layers: int = 4,
    **options: Any,
) -> Stack:
    torch.manual_seed(0)
    mixer = factory("mixer", "softmax_attention")
    provided: dict[str, Any] = {"causal": True, "max_length": 32, "mixer": mixer, **options}
    return from_fields(
        Stack,
        d_model=16,
        num_layers=num_layers,
        num_heads=4,
        position=factory("position", position),
        norm=factory("norm", norm),
        residual=factory("residual", residual),
        feedforward=factory("feedforward", feedforward),
        cross=factory("cross", "softmax_attention") if cross else None,
        **provided,
    )


POSITIONS = ("none", "rotary", "alibi", "t5_bias", "shaw", "kerple", "fire", "xpos", "learned", "sinusoidal")


@pytest.mark.parametrize("position", POSITIONS)
def test_prompts_of_unequal_length_padded_on_the_left_decode_as_if_alone(position: str) -> None:
    made = stack(position=position).double().eval()
    lengths, padded, more = [5, 2, 4], 5, 3
    rows = [torch.randn(1, length + more, 16, dtype=torch.float64) for length in lengths]
    prompt = torch.cat([torch.nn.functional.pad(r[:, : n], (0, 0, padded - n, 0), value=9.0)
                        for r, n in zip(rows, lengths, strict=True)])  # fmt: skip
    valid = torch.arange(padded)[None] >= padded - torch.tensor(lengths)[:, None]
    indices = (torch.arange(padded)[None] - (padded - torch.tensor(lengths)[:, None])).clamp(min=0)
    state = made.initial_state(3, padded + more, device=prompt.device, dtype=prompt.dtype)
    with torch.no_grad():
        y, state = made.step(prompt, state, Context(valid=valid, positions=indices))
        outputs = [y[:, -1:]]
        for offset in range(more):
            tokens = torch.cat([r[:, n + offset : n + offset + 1] for r, n in zip(rows, lengths, strict=True)])
            here = torch.tensor(lengths)[:, None] + offset
            y, state = made.step(tokens, state, Context(positions=here))
            outputs.append(y)
        for row, length in enumerate(lengths):
            whole = made(rows[row], Context())[0, length - 1 :]
            torch.testing.assert_close(torch.cat(outputs, 1)[row], whole)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("options", [
    {}, {"cross": True}, {"dropout": 0.3, "drop_path": 0.3}, {"position": "t5_bias"}, {"norm": "batch_norm"},
], ids=str)  # fmt: skip
def test_checkpointing_changes_no_output_no_gradient_and_no_statistics(policy: Checkpointing, options: dict) -> None:
    x, memory = torch.randn(2, 7, 16), torch.randn(2, 3, 16)
    context = Context(memory=memory if options.get("cross") else None)
    results = []
    for kind in (Checkpointing(), policy):
        made = stack(**options)
        made.checkpointing = kind
        torch.manual_seed(1)
        y = made(x, context)
        y.square().sum().backward()
        results.append([y, *(p.grad for p in made.parameters()), *made.buffers()])
    for plain, again in zip(*results, strict=True):
        assert torch.equal(plain, again)


@pytest.mark.parametrize("policy", [Checkpointing(), *RECOMPUTING], ids=str)
@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("residual", ["pre", "post", "parallel"])
def test_declared_activations_follow_the_checkpointing_policy(
    policy: Checkpointing, cross: bool, residual: str
) -> None:
    made = stack(cross=cross, residual=residual, position="learned", dropout=0.1, drop_path=0.1)
    made.checkpointing = policy
    for module in made.modules():
        if isinstance(module, SoftmaxAttention | SoftmaxCrossAttention):
            module.dropout = 0.0  # its CPU kernel has none, and falls back to explicit scores
    memory, positions = 5 if cross else 0, 8 * 9  # the table saves positions, which are not among what is held here
    assert made.costs(CostContext(9, memory)).activation_bytes == held_bytes(made, 9, memory) + positions


@pytest.mark.parametrize("policy", [Checkpointing(), *RECOMPUTING], ids=str)
@pytest.mark.parametrize("position", ["rotary", "alibi", "t5_bias", "shaw", "kerple", "fire"])
@pytest.mark.parametrize("options", [
    {}, {"loops": 2}, {"pattern": ["local", "full"]}, {"pattern": ["full", "local"], "loops": 2},
    {"pattern": ["local"]},
], ids=str)  # fmt: skip
def test_parts_that_are_recomputed_hold_the_declared_masks_and_biases(
    policy: Checkpointing, position: str, options: dict
) -> None:
    mixers = {"local": factory("mixer", "sliding_window", window=3), "full": factory("mixer", "softmax_attention")}
    named = {"mixers": {name: mixers[name] for name in options["pattern"]}} if "pattern" in options else {}
    made = stack(position=position, **options, **named)
    made.checkpointing = policy
    assert made.costs(CostContext(9)).activation_bytes == held_bytes(made, 9)


def test_full_checkpointing_saves_a_tenth() -> None:
    plain, checkpointed = stack(), stack()
    checkpointed.checkpointing = Checkpointing("full")
    saved = [made.costs(CostContext(32)).activation_bytes for made in (plain, checkpointed)]
    assert saved[1] < saved[0] / 10


@pytest.mark.parametrize(("kind", "every"), [("some", 2), ("every_k", 0)])
def test_unknown_policies_are_refused(kind: Any, every: int) -> None:
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        with pytest.raises(ValueError, match="choose"):
            Checkpointing(kind, every)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


def test_drop_path_grows_linearly_with_depth() -> None:
    rates = [block.wiring.drop.drop_path for block in stack(drop_path=0.3).layers]
    assert rates == pytest.approx([0.0, 0.1, 0.2, 0.3])


@pytest.mark.parametrize(
    ("residual", "has_norm"),
    [("pre", True), ("sandwich", True), ("reordered", True), ("parallel", True), ("layer_scale", True),
     ("post", False), ("rezero", False), ("deepnorm", False)],
)  # fmt: skip
def test_a_final_norm_is_there_where_the_stream_leaves_unnormed(residual: str, has_norm: bool) -> None:
    assert (stack(residual=residual).final_norm is not None) == has_norm


def test_embedding_norm_acts_on_tokens_with_their_positions() -> None:
    made = stack(position="learned", embedding_norm=True, num_layers=1, residual="rezero").eval()
    x = torch.randn(1, 3, 16)
    expected = made.embedding_norm(made.position.add(x, torch.arange(3)[None]), Context())
    torch.testing.assert_close(made(x, Context()), expected)


def test_a_sequence_longer_than_a_learned_table_is_refused_also_in_decoding() -> None:
    made = stack(position="learned", max_length=4)
    with pytest.raises(ValueError, match="a sequence of 5 tokens is longer than the position encoding's max_length=4"):
        made(torch.randn(1, 5, 16), Context())
    state = made.initial_state(1, 8, device=torch.device("cpu"), dtype=torch.float32)
    with torch.no_grad():
        _, state = made.step(torch.randn(1, 4, 16), state, Context())
        with pytest.raises(ValueError, match="max_length=4"):
            made.step(torch.randn(1, 1, 16), state, Context())


def test_packed_rows_cannot_be_decoded_step_by_step() -> None:
    made = stack()
    state = made.initial_state(1, 8, device=torch.device("cpu"), dtype=torch.float32)
    with pytest.raises(ValueError, match="give each document a row of its own"):
        made.step(torch.randn(1, 2, 16), state, Context(segments=torch.zeros(1, 2, dtype=torch.long)))


def test_masks_and_rotations_are_made_once_for_all_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for owner, name in ((score_masks, "as_bias"), (Rotary, "rotation")):
        made.append(create_autospec(getattr(owner, name), side_effect=getattr(owner, name)))
        monkeypatch.setattr(owner, name, made[-1])
    stack(causal=False)(torch.randn(2, 5, 16), Context(valid=torch.ones(2, 5, dtype=torch.bool)))
    assert [one.call_count for one in made] == [1, 1]


def test_layers_may_have_different_mixers() -> None:
    names = {"one": 1, "two": 2, "four": 4}
    mixers = {name: factory("mixer", "softmax_attention", num_kv_heads=heads) for name, heads in names.items()}
    made = Stack(
        StackSize(16, len(mixers), 4),
        StackParts(
            mixer=mixers["one"],
            pattern=list(mixers),
            mixers=mixers,
            position=factory("position", "rotary"),
            norm=factory("norm", "rms_norm"),
            residual=factory("residual", "pre"),
            feedforward=factory("feedforward", "swiglu"),
        ),
        causal=True,
        max_length=8,
    )
    assert [block.mixer.num_kv_heads for block in made.layers] == [1, 2, 4]
    state = made.initial_state(1, 8, device=torch.device("cpu"), dtype=torch.float32)
    assert [tensor.shape[1] for tensor in state.tensors()] == [1, 1, 2, 2, 4, 4]


def test_costs_are_the_sum_of_their_rows_and_every_part_has_one() -> None:
    made = stack(cross=True, position="shaw", embedding_norm=True)
    rows = list(made.cost_rows(CostContext(6, 4)))
    assert sum(costs.forward_flops for *_, costs in rows) == made.costs(CostContext(6, 4)).forward_flops
    assert {kind for _, kind, _ in rows} >= {"position", "norm", "mixer", "cross", "feedforward", "wiring"}
    assert sum(costs.parameters for *_, costs in rows) == sum(p.numel() for p in made.parameters())


def test_costs_and_construction_work_on_the_meta_device() -> None:
    with torch.device("meta"):
        made = stack(position="alibi")
    y = made(torch.randn(1, 5, 16, device="meta"), Context())
    assert y.is_meta and made.costs(CostContext(5)).parameters == stack().costs(CostContext(5)).parameters


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("position", "residual", "norm", "kind"),
    [
        ("rotary", "pre", "layer_norm", "none"),
        ("alibi", "deepnorm", "rms_norm", "full"),
        ("t5_bias", "layer_scale", "batch_norm", "attention"),
        ("shaw", "sandwich", "rms_norm", "every_k"),
        ("learned", "parallel", "layer_norm", "attention"),
        ("sinusoidal", "rezero", "none", "full"),
    ],
)
@pytest.mark.process
def test_training_compiles_into_one_graph(position: str, residual: str, norm: str, kind: str) -> None:
    """The test runs in a process of its own, since the tests' type checks cannot be compiled."""
    program = (
        "import torch\n"
        "from components.test_stack import stack, Checkpointing, Context\n"
        f"made = stack(position='{position}', residual='{residual}', norm='{norm}', dropout=0.1, drop_path=0.1)\n"
        f"made.checkpointing = Checkpointing('{kind}')\n"
        "compiled = torch.compile(made, backend='aot_eager', fullgraph=True)\n"
        "compiled(torch.randn(2, 6, 16), Context()).sum().backward()\n"
        "assert all(p.grad is not None for p in made.parameters())\n"
    )
    tests = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", program], cwd=tests, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_batch_norm_under_compile_and_full_checkpointing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = stack(norm="batch_norm")
    made.checkpointing = Checkpointing("full")
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    with pytest.raises(ValueError, match="use checkpointing=attention or none"):
        made(torch.randn(1, 3, 16), Context())
    assert stack(norm="batch_norm").keeps_statistics and not stack().keeps_statistics


def windowed(num_layers: int = 3, *, base: float = 500.0, local_base: float | None = 7.0, **options: Any) -> Stack:
    """Two layers with windows after one that sees everything, as in ModernBERT."""
    torch.manual_seed(0)
    provided: dict[str, Any] = {"causal": True, "max_length": 32, "pattern": ["all", "near", "near"], **options}
    mixers = {"all": SoftmaxAttention, "near": partial(SlidingWindow, window=3)}
    return from_fields(
        Stack,
        d_model=16,
        num_layers=num_layers,
        num_heads=4,
        mixer=SoftmaxAttention,
        mixers=mixers,
        position=partial(Rotary, pairs=RotatedPairs(base=base), local_base=local_base),
        norm=factory("norm", "layer_norm"),
        residual=factory("residual", "pre"),
        feedforward=factory("feedforward", "gelu"),
        **provided,
    )


@pytest.mark.slow
def test_layers_that_see_a_window_turn_by_their_own_base() -> None:
    x = torch.randn(2, 9, 16, generator=torch.Generator().manual_seed(0))
    near: dict[str, Any] = {"pattern": ["near"]}
    apart, alone = windowed(base=500.0, local_base=7.0, **near), windowed(base=7.0, local_base=None, **near)
    assert torch.equal(apart(x, Context()), alone(x, Context()))
    assert not torch.allclose(apart(x, Context()), windowed(base=500.0, local_base=None, **near)(x, Context()))
    everything: dict[str, Any] = {"pattern": ["all"]}
    assert torch.equal(windowed(**everything)(x, Context()), windowed(local_base=None, **everything)(x, Context()))
    mixed = windowed()
    expected = mixed(x, Context())
    mixed.see_windows = [False, True, False]
    assert not torch.allclose(mixed(x, Context()), expected)


def test_two_rotary_bases_decode_as_they_read() -> None:
    made = windowed(num_layers=4).double().eval()
    x = torch.randn(2, 9, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    whole = made(x, Context())
    state = made.initial_state(2, 9, device=x.device, dtype=x.dtype)
    parts = []
    for start, stop in ((0, 4), (4, 5), (5, 9)):
        y, state = made.step(x[:, start:stop], state, Context())
        parts.append(y)
    assert (torch.cat(parts, dim=1) - whole).abs().max() < 1e-12


@pytest.mark.parametrize("policy", POLICIES)
def test_recomputed_layers_keep_their_rotary_base(policy: Checkpointing) -> None:
    x = torch.randn(2, 9, 16, generator=torch.Generator().manual_seed(0))
    plain, recomputed = windowed(), windowed()
    recomputed.checkpointing = policy
    gradients = []
    for made in (plain, recomputed):
        made(x, Context()).square().sum().backward()
        gradients.append([held.grad for held in made.parameters()])
    pairs = zip(*gradients, strict=True)
    assert all(one is not None and other is not None and torch.allclose(one, other) for one, other in pairs)


def test_without_a_first_norm_the_first_mixer_reads_the_norm_after_the_embedding() -> None:
    made = stack(embedding_norm=True, first_norm=False)
    x = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0))
    assert made.embedding_norm is not None
    seen = []
    made.layers[0].mixer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    made(x, Context())
    assert torch.equal(seen[0], made.embedding_norm(x, Context()))
    assert len(list(made.parameters())) == len(list(stack(embedding_norm=True).parameters())) - 2


@pytest.mark.parametrize("residual", ["post", "parallel", "sandwich", "none"])
def test_a_scheme_without_a_norm_before_its_first_sublayer_alone_has_none_to_leave_out(residual: str) -> None:
    with pytest.raises(ValueError, match="choose model/residual=pre"):
        stack(residual=residual, first_norm=False)


@pytest.mark.parametrize("pattern", [["all"], ["near"], ["all", "near"]])
@pytest.mark.parametrize("local_base", [None, 7.0])
def test_declared_activations_hold_the_rotation_of_each_base(local_base: float | None, pattern: list[str]) -> None:
    made = windowed(local_base=local_base, embedding_norm=True, first_norm=False, pattern=pattern)
    with saved_bytes(made) as saved:
        y = made(torch.randn(1, 9, 16, requires_grad=True), Context())
    assert made.costs(CostContext(9)).activation_bytes == saved(), y.shape


def test_the_first_layers_have_the_early_feedforward() -> None:
    early = factory("feedforward", "swiglu")
    made = stack(feedforward="moe_shared", early_feedforward=early, num_early_layers=3)
    kinds = [type(block.feedforward).__name__ for block in made.layers]
    assert kinds == ["DenseFeedForward"] * 3 + ["SharedExperts"]
    query = CostContext(7)
    alone = stack(feedforward="swiglu", num_layers=3).costs(query), stack(feedforward="moe_shared").costs(query)
    assert alone[0].parameters < made.costs(query).parameters < alone[1].parameters
    assert made.costs(query).parameters == sum(parameter.numel() for parameter in made.parameters())


@pytest.mark.parametrize(
    ("early", "message"),
    [
        ({"num_early_layers": 1}, r"num_early_layers=1 says .* add it by \+model/feedforward@model\.early_feedforward"),
        ({"num_early_layers": 5, "early_feedforward": factory("feedforward", "relu")}, "more than the 4 layers"),
    ],
)
def test_early_layers_without_a_feedforward_or_beyond_the_last_are_refused(early: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        stack(**early)


def in_turn(*names: str, **options: Any) -> Stack:
    known = {name: factory("feedforward", name) for name in names}
    return stack(feedforward_pattern=list(names), feedforwards=known, **options)


def test_feedforwards_follow_their_pattern_and_are_counted() -> None:
    made, query = in_turn("swiglu", "moe_shared"), CostContext(7)
    kinds = [type(block.feedforward).__name__ for block in made.layers]
    assert kinds == ["DenseFeedForward", "SharedExperts"] * 2
    assert made.costs(query).parameters == sum(parameter.numel() for parameter in made.parameters())
    alike = [stack(feedforward=name).costs(query) for name in ("swiglu", "moe_shared")]
    assert 2 * made.costs(query).forward_flops == sum(costs.forward_flops for costs in alike)
    assert 2 * made.costs(query).active_parameters == sum(costs.active_parameters for costs in alike)


def test_a_layer_without_a_feedforward_has_one_sublayer() -> None:
    made = in_turn("none", "gelu")
    assert [len(block.wiring.norms) for block in made.layers] == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (
            {"feedforward_pattern": ["gelu"]},
            r"has none: add it by \+model/feedforward@model\.feedforwards\.gelu=CHOICE",
        ),
        (
            {"feedforward_pattern": ["gelu"] * 5, "feedforwards": {"gelu": factory("feedforward", "gelu")}},
            r"model\.feedforward_pattern holds 5 layers and model\.num_layers=4",
        ),
        (
            {"feedforward_pattern": ["gelu"], "num_early_layers": 1},
            r"begin the pattern with it, or set model\.num_early",
        ),
    ],
)
def test_patterns_of_feedforwards_that_cannot_be_are_refused(pattern: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        stack(**pattern)


def test_loops_pass_the_same_layers_as_copies_of_them_would() -> None:
    looped, deep = stack(num_layers=2, loops=3).eval(), stack(num_layers=6).eval()
    own = looped.state_dict()
    for layer in range(6):
        block = {name.removeprefix(f"blocks.{layer % 2}."): own[name] for name in own if f"blocks.{layer % 2}." in name}
        deep.blocks[layer].load_state_dict(block)
    deep.load_state_dict({name: own[name] for name in own if not name.startswith("blocks.")}, strict=False)
    x = torch.randn(2, 5, 16)
    torch.testing.assert_close(looped(x, Context()), deep(x, Context()))
    torch.testing.assert_close(looped.costs(CostContext(5)).forward_flops, deep.costs(CostContext(5)).forward_flops)
    assert looped.costs(CostContext(5)).parameters < deep.costs(CostContext(5)).parameters / 2


@pytest.mark.parametrize("part", [{"norm": "batch_norm"}, {"feedforward": "moe"}])
def test_parts_that_take_figures_of_one_pass_are_refused_in_loops(part: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"model\.loops=2 passes each layer several times"):
        stack(loops=2, **part)

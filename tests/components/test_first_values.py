"""The values of the first layer in those after it: by hand, under every way to save memory, step by step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from contracts.choices import factory
from from_fields import from_fields
from headtohead.architectures.operation_counter import saved_bytes
from headtohead.components.checkpointing import Checkpointing
from headtohead.components.component import Context
from headtohead.components.costs import CostContext
from headtohead.components.mixers.attention.value_residual import ValueResidual
from headtohead.components.stack import Stack
from headtohead.errors import UsageError
from held_bytes import held_bytes
from outside_memory import with_outside_memory

POLICIES = [
    Checkpointing("full"), Checkpointing("every_k", 2), Checkpointing("attention"), Checkpointing("offload"),
]  # fmt: skip
OTHERS = {name: factory("mixer", name) for name in ("value_residual", "mamba", "softmax_attention")}


def stack(*, heads: int | None = None, **options: Any) -> Stack:
    torch.manual_seed(0)
    provided: dict[str, Any] = {
        "num_layers": 3,
        "mixer": factory("mixer", "value_residual", num_kv_heads=heads, first_share=0.7),
        "position": factory("position", "rotary"),
        "norm": factory("norm", "layer_norm"),
        "residual": factory("residual", "pre"),
        "feedforward": factory("feedforward", "gelu"),
        "causal": True,
        "max_length": 16,
    }
    made = from_fields(Stack, d_model=16, num_heads=4, **{"cross": None, **provided, **options})
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if name.endswith("shares"):
                parameter.add_(torch.tensor([0.1, -0.2]))
    return made


def calls(made: Stack, x: Tensor) -> list[tuple[ValueResidual, Tensor, Tensor]]:
    """Return each call of a mixer that mixes values: the mixer, what it read and what it gave."""
    noted: list[tuple[ValueResidual, Tensor, Tensor]] = []

    def note(part: nn.Module, inputs: tuple[Any, ...], y: Tensor) -> None:
        assert isinstance(part, ValueResidual)
        noted.append((part, inputs[0], y))

    parts = [part for part in made.modules() if isinstance(part, ValueResidual)]
    hooks = [part.register_forward_hook(note) for part in parts]
    made(x, Context())
    for hook in hooks:
        hook.remove()
    return noted


@pytest.mark.parametrize("pattern", [["value_residual"], ["mamba", "value_residual", "value_residual"]])
def test_values_are_mixed_with_those_of_the_first_layer_that_has_them(pattern: list[str]) -> None:
    made = stack(pattern=pattern, mixers=OTHERS, position=factory("position", "none")).double()
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    noted = calls(made, x)
    first_values = None
    for part, h, y in noted:
        q, k, v = (of(h).view(2, 5, 4, 4).transpose(1, 2) for of in (part.query, part.key, part.value))
        if first_values is None:
            first_values = v
            assert part.shares is None
        else:
            assert part.shares is not None
            v = part.shares[0] * first_values + part.shares[1] * v
        scores = (q @ k.mT / 2.0).masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(1), -torch.inf)
        expected = part.output((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)
    assert len(noted) == 3 - pattern.count("mamba")


def test_shares_start_as_the_first_layer_is_to_count_and_alone_it_is_softmax_attention() -> None:
    mixer = factory("mixer", "value_residual", first_share=0.25)
    followers = [part for part in stack(mixer=mixer).modules() if isinstance(part, ValueResidual)][1:]
    starts = [part.shares.tolist() for part in followers if part.shares is not None]
    torch.testing.assert_close(starts, [[0.25 + 0.1, 0.75 - 0.2]] * 2)
    alone, plain = stack(num_layers=1), stack(num_layers=1, mixer=factory("mixer", "softmax_attention"))
    plain.load_state_dict(alone.state_dict())
    x = torch.randn(1, 4, 16)
    assert torch.equal(alone(x, Context()), plain(x, Context())) and alone.first_values_layer is None


@pytest.mark.parametrize("loops", [1, 2])
@pytest.mark.parametrize("heads", [None, 2])
@pytest.mark.parametrize("crossed", [False, True], ids=["alone", "beside a memory"])
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.kind)
def test_gradients_are_those_without_saving_memory(
    policy: Checkpointing, crossed: bool, heads: int | None, loops: int
) -> None:
    cross = factory("cross", "softmax_attention") if crossed else None

    def gradients(own: Checkpointing) -> list[Tensor | None]:
        made = stack(heads=heads, loops=loops, cross=cross).double()
        made.checkpointing = own
        x, memory = torch.randn(2, 2, 5, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        made(x, Context(memory=memory if crossed else None)).square().sum().backward()
        return [parameter.grad for parameter in made.parameters()]

    expected = gradients(Checkpointing())
    assert all(gradient is not None and gradient.abs().max() > 0 for gradient in expected)
    torch.testing.assert_close(gradients(policy), expected)


@pytest.mark.parametrize("loops", [1, 2])
@pytest.mark.parametrize("local", ["none", "short_conv"])
@pytest.mark.parametrize("pattern", [["value_residual"], ["mamba", "value_residual", "softmax_attention"]])
def test_tokens_one_by_one_have_the_outputs_of_the_whole_row(pattern: list[str], local: str, loops: int) -> None:
    known = {**OTHERS, "value_residual": factory("mixer", "value_residual", num_kv_heads=2)}
    parts = {"pattern": pattern, "mixers": known, "local": factory("local", local), "loops": loops}
    made = stack(**parts, num_layers=4, position=factory("position", "none")).double().eval()
    x = torch.randn(2, 6, 16, dtype=torch.float64)
    state, steps = made.initial_state(2, 6, device=x.device, dtype=x.dtype), []
    with torch.no_grad():
        for part in (x[:, :3], x[:, 3:4], x[:, 4:]):
            y, state = made.step(part, state, Context())
            steps.append(y)
        torch.testing.assert_close(torch.cat(steps, 1), made(x, Context()))


@pytest.mark.parametrize("position", ["rotary", "alibi"])
@pytest.mark.parametrize("heads", [None, 2])
def test_declared_activations_are_those_saved(position: str, heads: int | None) -> None:
    made = stack(heads=heads, position=factory("position", position))
    with saved_bytes(made) as saved:
        y = made(torch.randn(1, 9, 16, requires_grad=True), Context())
    assert made.costs(CostContext(9)).activation_bytes == saved(), y.shape
    assert made.costs(CostContext(9)).parameters == sum(parameter.numel() for parameter in made.parameters())


@pytest.mark.parametrize("loops", [1, 2])
@pytest.mark.parametrize("heads", [None, 2])
@pytest.mark.parametrize("memory", [0, 7])
@pytest.mark.parametrize("policy", [Checkpointing(), *POLICIES], ids=lambda policy: policy.kind)
def test_declared_activations_are_all_that_is_held_under_every_policy(
    policy: Checkpointing, memory: int, heads: int | None, loops: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_outside_memory(monkeypatch)
    cross = factory("cross", "softmax_attention") if memory else None
    made = stack(heads=heads, loops=loops, cross=cross, position=factory("position", "none"))
    made.checkpointing = policy
    device = "cuda" if policy.kind == "offload" else "cpu"
    assert made.costs(CostContext(9, memory, device=device)).activation_bytes == held_bytes(made, 9, memory)


def test_values_of_other_heads_are_refused_with_the_fix() -> None:
    wide = {name: factory("mixer", "value_residual", num_kv_heads=heads) for name, heads in (("a", 4), ("b", 2))}
    with pytest.raises(UsageError, match=r"num_kv_heads=2 .* the first, which has num_kv_heads=4 .* the same of each"):
        stack(pattern=["a", "b"], mixers=wide)

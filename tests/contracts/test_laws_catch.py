"""A law that nothing can break is worth nothing: planted faults, and the law that must notice each."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from headtohead.components.component import Context, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.mixers.attention.fused_attention import attend
from headtohead.components.mixers.attention.softmax_attention import SoftmaxAttention, merge_heads
from headtohead.components.mixers.reference.attention import ReferenceSoftmaxAttention as SlowAttention
from headtohead.diagnostics.laws import Law, LawBroken, LawSubject, alone, cost_laws, equivalence_laws, masking_laws
from order_laws import order_is_seen, permutation_equivariance


class SeesTheFuture(SoftmaxAttention):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        self.causal = False
        y = super().forward(x, context)
        self.causal = True
        return y


class SeesTheFutureInTraining(SeesTheFuture):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        return super().forward(x, context) if self.training else SoftmaxAttention.forward(self, x, context)


class SaysThatItIsPlain(SoftmaxAttention):
    def kernel_in_use(self, device: torch.device | None = None, dtype: torch.dtype | None = None) -> str:
        return "torch"


class SaysThatItIsFused(SlowAttention):
    def kernel_in_use(self, device: torch.device | None = None, dtype: torch.dtype | None = None) -> str:
        return "fused attention"


class IgnoresPadding(SoftmaxAttention):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        return super().forward(x, replace(context, bias=None, allowed=None))


class ForgetsToMaskWithInfinity(SoftmaxAttention):
    """Zero is not a mask."""

    def full_bias(self, q: Tensor, context: Context) -> Tensor | None:
        bias = super().full_bias(q, context)
        return None if bias is None else bias.clamp(min=-1.0)


class ForgetsTheCache(SoftmaxAttention):
    def step(self, x: Tensor, state: State, context: Context) -> tuple[Tensor, State]:
        fresh = self.initial_state(len(x), x.shape[1], device=x.device, dtype=x.dtype)
        y, _ = super().step(x, fresh, context)
        return y, state


class ScalesWrongly(SoftmaxAttention):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        q, k, v = self.project(x, context)
        y = attend(q, k, v, bias=context.bias, causal=self.causal, scale=self.scale * 1.001, dropout=0.0)
        return self.output(merge_heads(y))


class LooksAtItsNeighbour(SoftmaxAttention):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        return super().forward(x, context) + x.roll(1, dims=1)


class StopsAGradient(SoftmaxAttention):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        return super().forward(x, context).detach() + 0.0 * x


class HasAGainThatNobodyDraws(SoftmaxAttention):
    def __init__(self, d_model: int, *, num_heads: int, causal: bool, dropout: float = 0.0) -> None:
        super().__init__(d_model, num_heads=num_heads, causal=causal, dropout=dropout)
        self.gain = nn.Parameter(torch.ones(d_model))


class DrawsAGainFromItsOldValue(HasAGainThatNobodyDraws):
    def reset_parameters(self) -> None:
        with torch.no_grad():
            self.gain.mul_(0.5)


class Overflows(SoftmaxAttention):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        return super().forward(x, context) * 1e30 * 1e30


class LosesPrecision(SoftmaxAttention):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        y = super().forward(x, context)
        return y + (0.5 * y.abs().max() if y.dtype == torch.bfloat16 else 0.0)


class LosesPrecisionOfOneToken(SoftmaxAttention):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        y = super().forward(x, context)
        last = torch.zeros_like(y)
        last[:1, -1, 0] = 0.2 * y.abs().max()
        return y + last if y.dtype == torch.bfloat16 else y


class LosesALittlePrecision(SoftmaxAttention):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        y = super().forward(x, context)
        return y * 1.05 if y.dtype == torch.bfloat16 else y


def is_draw(x: Tensor, draw: int) -> bool:
    """Return whether these are the inputs of one draw of the law about autocast."""
    drawn = torch.randn(x.shape, generator=torch.Generator().manual_seed(draw + 1), dtype=torch.float64)
    return torch.equal(x, drawn.to(x.dtype))


class LosesPrecisionNowAndThen(SoftmaxAttention):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        y = super().forward(x, context)
        return -y if y.dtype == torch.bfloat16 and is_draw(x, 3) else y


class OverflowsNowAndThen(SoftmaxAttention):
    """A mixer that overflows in one element."""

    def forward(self, x: Tensor, context: Context) -> Tensor:
        y = super().forward(x, context)
        return torch.where(y == y.max(), torch.inf, y) if y.dtype == torch.bfloat16 and is_draw(x, 3) else y


class TurnsAFirstTokenAround(SoftmaxAttention):
    """A mixer that behaves like a norm whose denominator is near zero, in two draws of five."""

    def forward(self, x: Tensor, context: Context) -> Tensor:
        y = super().forward(x, context)
        unlucky = y.dtype == torch.bfloat16 and (is_draw(x, 0) or is_draw(x, 3))
        return torch.cat((-y[:, :1], y[:, 1:]), dim=1) if unlucky else y


class KeepsAWeightFromTheStateDict(SoftmaxAttention):
    def __init__(self, d_model: int, *, num_heads: int, causal: bool, dropout: float) -> None:
        super().__init__(d_model, num_heads=num_heads, causal=causal, dropout=dropout)
        self.register_buffer("hidden", torch.rand(d_model), persistent=False)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        return super().forward(x * self.hidden, context)


class ReturnsAnotherType(SoftmaxAttention):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        return super().forward(x, context).float()


class MixesNothing(SoftmaxAttention):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        return self.output(self.value(x))


class Undeclared(SoftmaxAttention):
    """Has a matrix more than its costs say."""

    fudge = Costs()

    def __init__(self, d_model: int, *, num_heads: int, causal: bool, dropout: float) -> None:
        super().__init__(d_model, num_heads=num_heads, causal=causal, dropout=dropout)
        self.extra = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        return super().forward(x, context) + self.extra(torch.sigmoid(x))

    def costs(self, query: CostContext) -> Costs:
        real = super().costs(query)
        hidden = sum(p.numel() for p in self.extra.parameters())
        return replace(real, parameters=real.parameters - hidden, state_elements=real.state_elements + 1)


FAULTS: list[tuple[Law, type[SoftmaxAttention], bool, torch.dtype]] = [
    (equivalence_laws.shape, ReturnsAnotherType, True, torch.float64),
    (equivalence_laws.shape, Overflows, True, torch.float32),
    (equivalence_laws.stepwise, ForgetsTheCache, True, torch.float64),
    (equivalence_laws.kernel_named, SaysThatItIsPlain, True, torch.float32),
    (equivalence_laws.kernel_named, SaysThatItIsFused, False, torch.float32),
    (equivalence_laws.stepwise, SeesTheFuture, True, torch.float64),
    (equivalence_laws.finite_gradients, StopsAGradient, True, torch.float64),
    (equivalence_laws.redrawn, HasAGainThatNobodyDraws, True, torch.float64),
    (equivalence_laws.redrawn, DrawsAGainFromItsOldValue, True, torch.float64),
    (equivalence_laws.finite_gradients, Overflows, True, torch.float32),
    (equivalence_laws.slow_twin, ScalesWrongly, True, torch.float64),
    (equivalence_laws.slow_twin, ScalesWrongly, False, torch.float32),
    (equivalence_laws.slow_twin, IgnoresPadding, False, torch.float64),
    (equivalence_laws.autocast, LosesPrecision, True, torch.float32),
    (equivalence_laws.autocast, LosesPrecisionOfOneToken, True, torch.float32),
    (equivalence_laws.autocast, LosesALittlePrecision, True, torch.float32),
    (equivalence_laws.autocast, LosesPrecisionNowAndThen, True, torch.float32),
    (equivalence_laws.autocast, OverflowsNowAndThen, True, torch.float32),
    (equivalence_laws.state_dict_round_trip, KeepsAWeightFromTheStateDict, True, torch.float64),
    (masking_laws.causality, SeesTheFuture, True, torch.float64),
    (masking_laws.causality, SeesTheFutureInTraining, True, torch.float64),
    (masking_laws.causality, MixesNothing, False, torch.float64),
    (masking_laws.order_independence, LooksAtItsNeighbour, False, torch.float64),
    (masking_laws.padding_invariance, IgnoresPadding, False, torch.float64),
    (masking_laws.padding_invariance, ForgetsToMaskWithInfinity, False, torch.bfloat16),
    (masking_laws.packed_documents, IgnoresPadding, True, torch.float64),
    (cost_laws.declared_parameters, Undeclared, True, torch.float64),
    (cost_laws.declared_flops, Undeclared, True, torch.float64),
    (cost_laws.declared_state, Undeclared, True, torch.float64),
    (cost_laws.declared_activations, Undeclared, True, torch.float32),
]


@pytest.mark.parametrize(
    ("law", "fault", "causal", "dtype"), FAULTS, ids=lambda value: getattr(value, "__name__", str(value))
)
def test_law_catches(law: Law, fault: type[SoftmaxAttention], causal: bool, dtype: torch.dtype) -> None:
    slow = alone(SlowAttention, causal=causal) if law is equivalence_laws.slow_twin else None
    with pytest.raises(LawBroken) as broken:
        law(LawSubject(alone(fault, causal=causal), slow, dtype))
    assert "\n" not in str(broken.value)


def test_a_token_that_rounding_turns_around_in_some_draws_breaks_no_law() -> None:
    equivalence_laws.autocast(LawSubject(alone(TurnsAFirstTokenAround, causal=True), None, torch.float32))


def test_a_bidirectional_mixer_that_agrees_to_decode_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from headtohead.components.stack import Stack
    from headtohead.components.stack_parts import StackState

    monkeypatch.setattr(Stack, "initial_state", lambda *_, **__: StackState())
    with pytest.raises(LawBroken, match="refuse"):
        equivalence_laws.stepwise(LawSubject(alone(SoftmaxAttention, causal=False)))


def test_order_laws_catch_each_other() -> None:
    from headtohead.components.positions.relative import Alibi

    without = LawSubject(alone(SoftmaxAttention, causal=False))
    encoded = LawSubject(alone(SoftmaxAttention, causal=False, position=partial(Alibi)))
    with pytest.raises(LawBroken, match="order"):
        order_is_seen(without)
    with pytest.raises(LawBroken, match="permuted"):
        permutation_equivariance(encoded)

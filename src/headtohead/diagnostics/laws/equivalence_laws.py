"""The same function in several forms: step by step, slowly, in another precision, saved and loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headtohead.components.component import PLAIN, Context
from headtohead.components.fast_kernels import kernels_in_use
from headtohead.components.initialisations import gpt2
from headtohead.components.stack import Stack
from headtohead.diagnostics.laws.law_subject import LawBroken, LawSubject, difference, require_equal
from headtohead.errors import UsageError


def shape(subject: LawSubject) -> None:
    """Outputs are shaped and typed like inputs, at length 1 too."""
    stack = subject.build()
    x, context = subject.inputs(stack)
    for tokens in (x, x[:, :1]):
        with torch.no_grad():
            y = stack(tokens, context)
        if y.shape != tokens.shape or y.dtype != tokens.dtype:
            raise LawBroken(
                f"outputs must be like inputs: {tuple(tokens.shape)} {tokens.dtype} gave {tuple(y.shape)} {y.dtype}"
            )
        if not y.isfinite().all():
            raise LawBroken("outputs of finite inputs must be finite")


def redrawn(subject: LawSubject) -> None:
    """An initialisation draws every parameter, whatever it held before."""
    stack = subject.build()
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.fill_(torch.nan)
    try:
        gpt2(stack)
    except (NotImplementedError, UsageError) as refusal:
        raise LawBroken(f"an initialisation must draw every parameter: {refusal}") from None
    if undrawn := [name for name, parameter in stack.named_parameters() if not parameter.isfinite().all()]:
        raise LawBroken(f"an initialisation must draw every parameter, and {undrawn[0]} keeps what it held")


def stepwise(subject: LawSubject) -> None:
    """A prompt, then several tokens, then one by one, give what the whole sequence gives."""
    stack = subject.build()
    x, context = subject.inputs(stack)
    if not stack.causal:
        _refuses_to_decode(stack, subject)
        return
    length = subject.length
    with torch.no_grad():
        whole = stack(x, context)
        for cuts in ([0, *range(1, length + 1)], [0, 4, 5, length - 2, *range(length - 1, length + 1)]):
            state = stack.initial_state(subject.num_rows, length, device=x.device, dtype=subject.dtype)
            parts = []
            for start, end in pairwise(cuts):
                y, state = stack.step(x[:, start:end], state, context)
                parts.append(y)
            require_equal(
                torch.cat(parts, dim=1), whole, "decoding step by step must give the outputs of the whole row"
            )


def _refuses_to_decode(stack: Stack, subject: LawSubject) -> None:
    try:
        stack.initial_state(1, subject.length, device=torch.device("cpu"), dtype=subject.dtype)
    except ValueError:
        return
    raise LawBroken("a bidirectional stack must refuse to decode step by step")


def _with_gradients(stack: Stack, x: Tensor, context: Context) -> tuple[Tensor, dict[str, Tensor]]:
    """Outputs, and gradients of an uneven sum of them by inputs and all parameters."""
    inputs = x.clone().requires_grad_()
    y = stack(inputs, context)
    weights = torch.linspace(-1.0, 1.0, y.numel(), dtype=torch.float64).view_as(y).to(y.dtype)
    (y * weights).sum().backward()
    gradients = {"the inputs": inputs.grad, **{name: p.grad for name, p in stack.named_parameters()}}
    missing = [name for name, gradient in gradients.items() if gradient is None]
    if missing:
        raise LawBroken(f"every parameter must have a gradient: {', '.join(missing)} got none")
    return y, {name: gradient for name, gradient in gradients.items() if gradient is not None}


def finite_gradients(subject: LawSubject) -> None:
    """Every parameter gets a gradient, finite, and not zero throughout."""
    stack = subject.build().train()
    x, context = subject.inputs(stack)
    _, gradients = _with_gradients(stack, x, context)
    for name, gradient in gradients.items():
        if not gradient.isfinite().all():
            raise LawBroken(f"gradients must be finite: that of {name} is not")
        if not gradient.abs().max() > 0:
            raise LawBroken(f"every parameter must matter: the gradient of {name} is zero")


def slow_twin(subject: LawSubject) -> None:
    """Outputs and gradients are those of the plain form that nobody can get wrong, masks and padding included."""
    fast, slow = subject.build(), subject.build(slow=True)
    slow.load_state_dict(fast.state_dict())
    x, context = subject.inputs(fast)
    valid = torch.ones(subject.num_rows, subject.length, dtype=torch.bool)
    valid[-1, subject.length // 2 :] = False
    for around in (context, Context(valid=valid, memory=context.memory)):
        fast.zero_grad()
        slow.zero_grad()
        y, gradients = _with_gradients(fast, x, around)
        slow_y, slow_gradients = _with_gradients(slow, x, around)
        real = slice(None) if around.valid is None else valid
        require_equal(y[real], slow_y[real], "the fast form must give the outputs of the slow one")
        if around.valid is None:
            scale = max(float(gradient.abs().max()) for gradient in slow_gradients.values())
            for name, gradient in gradients.items():
                message = f"both forms must give {name} the same gradient"
                require_equal(gradient, slow_gradients[name], message, scale=scale)


AUTOCAST_DRAWS = 5
"""An odd number, so that a majority decides and not a single draw."""
ROUNDINGS_OF_A_SUBLAYER = 7
"""The factor by which the error of a sublayer in 16 bits may exceed that of its input rounded once."""


def autocast(subject: LawSubject) -> None:
    """Outputs stay near, gradients finite and parameters as they are under bfloat16 autocast.

    Half the tokens move in every draw of weights and inputs by no more than 3 %; the largest move, in units of the
    largest value, is 10 % by the median of the draws, since a norm turns a token around whose numbers are near zero.
    A stack that magnifies whatever is rounded, as one without a stream may, moves by no more than a few times what it
    moves in float32 when the inputs of its sublayers alone are rounded.
    """
    moves = [_largest_move(subject, draw) for draw in range(AUTOCAST_DRAWS)]
    move, allowed = sorted(moves, key=lambda both: both[0] / both[1])[AUTOCAST_DRAWS // 2]
    if not move <= allowed:
        raise LawBroken(
            f"under autocast outputs must stay near: they moved by {move:.0%} of the largest value and more in most "
            "draws"
        )


def _largest_move(subject: LawSubject, draw: int) -> tuple[float, float]:
    """Return the largest move in units of the largest value, and what is allowed, once all that must hold in every draw
    does."""
    stack = subject.build(seed=draw)
    x, context = subject.inputs(stack, seed=draw + 1)
    with torch.no_grad():
        exact = stack(x, context)
    inputs = x.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        y = stack(inputs, context)
        loss = y.float().square().mean()
    loss.backward()
    if inputs.grad is None or not inputs.grad.isfinite().all():
        raise LawBroken("under autocast inputs must get a finite gradient")
    if not y.isfinite().all():
        raise LawBroken("under autocast outputs of finite inputs must be finite")
    for name, parameter in stack.named_parameters():
        if parameter.dtype != torch.float32 or parameter.grad is None or not parameter.grad.isfinite().all():
            raise LawBroken(f"under autocast {name} must stay float32 and get a finite gradient")
    typical = _typical_move(y.detach().float(), exact)
    move = difference(y.float(), exact)
    if typical <= 0.03 and move <= 0.1:
        return move, 0.1
    rounded = _rounded(stack, x, context)
    if not typical <= max(0.03, ROUNDINGS_OF_A_SUBLAYER * _typical_move(rounded, exact)):
        raise LawBroken(f"under autocast outputs must stay near: half the tokens moved by {typical:.1%} and more")
    return move, max(0.1, ROUNDINGS_OF_A_SUBLAYER * difference(rounded, exact))


def _typical_move(y: Tensor, exact: Tensor) -> float:
    """Return by how much half the tokens move and more, in units of a typical value."""
    by_token = (y - exact).square().mean(-1).sqrt()
    return float(by_token.median() / exact.square().mean().sqrt().clamp(min=1e-30))


@torch.no_grad()
def _rounded(stack: Stack, x: Tensor, context: Context) -> Tensor:
    """Return what a stack gives in float32 whose sublayers read inputs of bfloat16."""

    def round_input(part: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        del part
        return inputs[0].bfloat16().to(inputs[0].dtype), *inputs[1:]

    sublayers = [part for block in stack.layers for part in (block.mixer, block.cross, block.feedforward)]
    hooks = [part.register_forward_pre_hook(round_input) for part in sublayers if part is not None]
    try:
        y: Tensor = stack(x, context)
    finally:
        for hook in hooks:
            hook.remove()
    return y


def state_dict_round_trip(subject: LawSubject) -> None:
    """Weights saved and loaded into a stack that started elsewhere give the same outputs, bit for bit."""
    stack, other = subject.build(), subject.build(seed=7)
    x, context = subject.inputs(stack)
    other.load_state_dict(stack.state_dict())
    with torch.no_grad():
        if not torch.equal(stack(x, context), other(x, context)):
            raise LawBroken("a stack with loaded weights must give the same outputs, bit for bit")


_FUSED: Mapping[str, str] = {
    "scaled_dot_product_attention": "fused attention",
    "multi_head_attention_forward": "fused attention",
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), "fused recurrence"),
}
"""Functions of torch that run as one kernel, and what mixers call them."""


def kernel_named(subject: LawSubject) -> None:
    """The kernel that kernel_in_use names is the one that runs."""
    stack = subject.build()
    x, context = subject.inputs(stack)
    with torch.no_grad(), _Seen() as seen:
        stack(x, context)
    ran = {_FUSED[name] for name in seen.names & _FUSED.keys()}
    named = set(kernels_in_use(stack).values())
    if ran and named <= {PLAIN}:
        functions = " and ".join(sorted(seen.names & _FUSED.keys()))
        raise LawBroken(
            f"{functions} computes it, and kernel_in_use says {PLAIN}, so that verdicts on equal time would call it "
            f"bound by its implementation: let it return {' or '.join(map(repr, sorted(ran)))}"
        )
    if idle := (named & set(_FUSED.values())) - ran:
        raise LawBroken(f"kernel_in_use says {' and '.join(sorted(idle))}, and no such function of torch is called")


class _Seen(TorchFunctionMode):
    """The names of torch's functions that were called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[object], args: Sequence[object] = (), kwargs: Any = None
    ) -> Any:
        del types
        self.names.add(getattr(func, "__name__", ""))
        return func(*args, **(kwargs or {}))

"""What computes a mixer is what it says that does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from headtohead.components.contracts import PLAIN
from headtohead.components.kernels import kernels_in_use
from headtohead.examining.laws.subject import LawBroken, Subject

_FUSED: Mapping[str, str] = {
    "scaled_dot_product_attention": "fused attention",
    "multi_head_attention_forward": "fused attention",
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), "fused recurrence"),
}
"""Functions of torch that run as one kernel, and what mixers call them."""


def kernel_named(subject: Subject) -> None:
    """What it says by kernel_in_use is what runs."""
    stack = subject.build()
    x, context = subject.inputs(stack)
    with torch.no_grad(), _Seen() as seen:
        stack(x, context)
    ran = {_FUSED[name] for name in seen.names & _FUSED.keys()}
    said = set(kernels_in_use(stack).values())
    if ran and said <= {PLAIN}:
        functions = " and ".join(sorted(seen.names & _FUSED.keys()))
        raise LawBroken(
            f"{functions} computes it, and kernel_in_use says {PLAIN}, so that verdicts on equal time would call it "
            f"bound by its implementation: let it return {' or '.join(map(repr, sorted(ran)))}"
        )
    if idle := (said & set(_FUSED.values())) - ran:
        raise LawBroken(f"kernel_in_use says {' and '.join(sorted(idle))}, and no such function of torch is called")


class _Seen(TorchFunctionMode):
    """The names of torch's functions that were called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[Any], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        del types
        self.names.add(getattr(func, "__name__", ""))
        return func(*args, **(kwargs or {}))

"""The laws that every mixer and every stack obeys; the tests and `h2h check` run the same functions.

A law takes a Subject and returns nothing, or raises LawBroken with one sentence.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from headtohead.examining.laws import attending, costs, forms, kernels, masking
from headtohead.examining.laws.subject import LawBroken, Subject, alone

__all__ = ["LAWS", "Law", "LawBroken", "Subject", "alone", "applies"]

Law = Callable[[Subject], None]
LAWS: tuple[Law, ...] = (
    forms.shape,
    forms.stepwise,
    forms.finite_gradients,
    forms.slow_twin,
    forms.autocast,
    forms.state_dict_round_trip,
    kernels.kernel_named,
    masking.causality,
    masking.padding_invariance,
    masking.packed_documents,
    masking.left_padding,
    attending.explicit_attention,
    costs.declared_parameters,
    costs.declared_flops,
    costs.declared_state,
    costs.declared_activations,
)
"""The laws that hold without exception; those about positions are asked for by name."""


def applies(law: Law, *, causal: bool, dtype: torch.dtype, has_slow_twin: bool) -> bool:
    """Whether a law has anything to say: about single precision, decoding, or a twin."""
    if law in (forms.autocast, costs.declared_activations):
        return dtype == torch.float32
    if law in (costs.declared_state, masking.left_padding):
        return causal
    return law is not forms.slow_twin or has_slow_twin

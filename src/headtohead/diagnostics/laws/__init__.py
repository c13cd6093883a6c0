"""The laws that every mixer and every stack obeys; the tests and `h2h check` run the same functions.

A law takes a Subject and returns nothing, or raises LawBroken with one sentence.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from headtohead.diagnostics.laws import attention_laws, cost_laws, equivalence_laws, masking_laws
from headtohead.diagnostics.laws.law_subject import LawBroken, LawSubject, alone

__all__ = ["LAWS", "Law", "LawBroken", "LawSubject", "alone", "applies"]

Law = Callable[[LawSubject], None]
LAWS: tuple[Law, ...] = (
    equivalence_laws.shape,
    equivalence_laws.redrawn,
    equivalence_laws.stepwise,
    equivalence_laws.finite_gradients,
    equivalence_laws.slow_twin,
    equivalence_laws.autocast,
    equivalence_laws.state_dict_round_trip,
    equivalence_laws.kernel_named,
    masking_laws.causality,
    masking_laws.order_independence,
    masking_laws.padding_invariance,
    masking_laws.packed_documents,
    masking_laws.left_padding,
    attention_laws.explicit_attention,
    cost_laws.declared_parameters,
    cost_laws.declared_flops,
    cost_laws.declared_state,
    cost_laws.declared_activations,
)
"""The laws that hold without exception; those about positions are requested by name."""


def applies(law: Law, *, causal: bool, dtype: torch.dtype, has_slow_twin: bool) -> bool:
    """Return whether a law applies, which may concern single precision, decoding, or a slow reference."""
    if law in (equivalence_laws.autocast, cost_laws.declared_activations):
        return dtype == torch.float32
    if law is equivalence_laws.redrawn:
        return dtype == torch.float64
    if law in (cost_laws.declared_state, masking_laws.left_padding):
        return causal
    if law is masking_laws.order_independence:
        return not causal
    return law is not equivalence_laws.slow_twin or has_slow_twin

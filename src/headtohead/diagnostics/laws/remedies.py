"""Remedies say what to do about each law: how a broken one is mended, and why another has nothing to say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headtohead.components.attention_maps import HasAttentionMaps
from headtohead.diagnostics.laws import LAWS, Law, attention_laws, cost_laws, equivalence_laws, masking_laws
from headtohead.diagnostics.laws.law_subject import LawSubject

_MAKING = (
    "let the constructor take (d_model, *, num_heads, causal, dropout) and its own options; components/component.py "
    "has the contract"
)
REMEDIES: Mapping[Law, str] = {
    equivalence_laws.shape: "return a tensor of the shape and type of x: cast what was computed in another precision "
    "back with .to(x.dtype), and let a length of 1 pass",
    equivalence_laws.redrawn: "let reset_parameters() set the parameters that the class holds itself, and call it in "
    "the constructor",
    equivalence_laws.stepwise: "let initial_state hold all that step needs of the tokens before (keys and values, a "
    "sum, the last inputs of a convolution), and let step read it exactly as forward does",
    equivalence_laws.finite_gradients: "use every parameter in forward, and keep divisions, logarithms and roots away "
    "from zero; take out what is never read",
    equivalence_laws.slow_twin: "compare forward and the reference step by step at length 2: the first line that "
    "differs is wrong in one of them",
    equivalence_laws.autocast: "compute sums, exponentials and decays in float32 (components/precision.py) and cast "
    "the result back",
    equivalence_laws.state_dict_round_trip: "make all that is drawn at the start a parameter or a buffer "
    "(register_buffer), so that it is saved",
    equivalence_laws.kernel_named: "let kernel_in_use return the kernel that forward calls here, and None where it "
    "calls none",
    masking_laws.causality: "with causal=True, look at no later token: shift, mask (context.causal mask) or pad on the "
    "left only; a mean or norm over the whole row looks ahead too",
    masking_laws.order_independence: "set follows_order = True on the class: it goes by the index of a token",
    masking_laws.padding_invariance: "read context.valid: take padding out of sums, means and scores, and let it leave "
    "no trace in a state",
    masking_laws.packed_documents: "reset the state where context.segments changes, and mask pairs of different "
    "segments; sequence_ops/ragged_rows.py helps a recurrence",
    masking_laws.left_padding: "skip padding on the left in the state too: a row begins with its first valid token",
    attention_laws.explicit_attention: "let attention_maps return the weights that forward really uses, zero for every "
    "pair that a mask forbids",
    cost_laws.declared_parameters: "count every parameter in costs(): sum(p.numel() for p in self.parameters()) does",
    cost_laws.declared_flops: "count two for each multiply-add of forward's matrix products, in costs(): "
    "components/linear_maps.py has the sums for linear layers",
    cost_laws.declared_state: "declare in costs() as many state elements as initial_state and step carry after so many "
    "tokens",
    cost_laws.declared_activations: "declare in costs() what autograd saves: inputs of linear layers, results of "
    "activations and of softmax",
}
_SILENT: Mapping[Law, str] = {
    equivalence_laws.slow_twin: "no reference was given (--twin PACKAGE.CLASS)",
    attention_laws.explicit_attention: "it shows no attention: its output is not a weighted sum of tokens, or it "
    "does not "
    "derive from HasAttentionMaps",
    cost_laws.declared_state: "it cannot be causal, and only causal models decode",
    masking_laws.left_padding: "it cannot be causal, and only causal models decode",
}


def remedy_of(law: Law) -> str:
    """Return how a broken law is usually mended."""
    return REMEDIES.get(law, _MAKING)


def has_something_to_say(law: Law, subject: LawSubject) -> bool:
    """Return whether there is anything in the subject that the law is about: attention, for one, is not in every
    mixer."""
    if law is not attention_laws.explicit_attention:
        return True
    try:
        parts = list(subject.build().modules())
    except Exception:  # it cannot be made, which another law says
        return True
    return any(isinstance(part, HasAttentionMaps) for part in parts)


def silent_laws(requested: Sequence[Law]) -> dict[Law, str]:
    """Return the laws that were not asked of a class, each with the reason."""
    return {law: _SILENT[law] for law in LAWS if law not in requested and law in _SILENT}

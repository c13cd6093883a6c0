"""Every law over every mixer, in both directions and all precisions."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest
import torch

from contracts.choices import can_look, factory, names, slow_twin
from headtohead.diagnostics.laws import LAWS, Law, LawSubject, alone, applies
from headtohead.diagnostics.laws.cost_laws import declared_flops, declared_parameters, declared_state
from headtohead.diagnostics.laws.equivalence_laws import kernel_named, shape, stepwise
from headtohead.diagnostics.laws.equivalence_laws import slow_twin as equals_slow_twin
from headtohead.diagnostics.laws.masking_laws import packed_documents

VARIANTS: dict[str, list[dict]] = {
    "softmax_attention": [
        {"num_kv_heads": 2, "bias": False},
        {"num_kv_heads": 1, "qk_norm": True, "scale": 0.1},
        {"num_kv_heads": 2, "qk_norm": True, "qk_norm_over": "all"},
        {"num_kv_heads": 2, "scale": 1.0, "score_cap": 0.8, "rotated": False},
        {"head_width": 6, "num_kv_heads": 2, "output_bias": False},
    ],
    "forgetting_attention": [{"num_kv_heads": 2, "head_width": 6, "bias": False, "qk_norm": True}],
    "differential_attention": [
        {"num_kv_heads": 2, "head_width": 6, "qk_norm": True, "qk_norm_over": "all", "subtracted": 0.3}
    ],
    "disentangled_attention": [
        {"num_buckets": 4, "max_distance": 6, "own_maps": True, "head_width": 6, "bias": False},
        {"num_buckets": None, "max_distance": 3, "position_to_content": False, "norm_eps": None},
        {"num_buckets": 3, "max_distance": 9, "content_to_position": False, "own_maps": True, "shared": False},
    ],
    "value_residual": [{"num_kv_heads": 2, "head_width": 6, "bias": False, "qk_norm": True}],
    "gated_attention": [{"num_kv_heads": 2, "head_width": 6, "bias": False, "qk_norm": True}],
    "stick_breaking": [{"num_kv_heads": 2, "head_width": 6, "bias": False, "qk_norm": True}],
    "sink_attention": [{"num_kv_heads": 2, "head_width": 6, "qk_norm": True}],
    "sliding_window": [
        {"window": 3},
        {"window": 3, "num_kv_heads": 2, "scale": 1.0, "score_cap": 0.8},
        {"window": 4, "num_kv_heads": 2, "head_width": 6, "qk_norm": True, "qk_norm_over": "all"},
    ],
    "sink_window": [{"window": 3}, {"window": 4, "num_kv_heads": 2, "head_width": 6, "qk_norm": True}],
    "longformer": [{"window": 3, "num_global": 2}],
    "bigbird": [{"block_size": 2, "num_random": 1}],
    "strided": [{"window": 2, "stride": 3, "dilation": 2}],
    "mlp_mixer": [{"multiple": 0.5}],
    "pooling": [{"pool_size": 5}],
    "moba": [{"block_size": 2, "num_blocks": 2, "num_kv_heads": 2}, {"block_size": 3, "num_blocks": 1}],
    "low_rank": [{"rank": 3, "bias": False}],
    "latent_attention": [
        {"head_width": 6, "content_width": 4, "value_width": 5, "latent_width": 3, "query_latent_width": 7},
    ],
    "linformer": [{"rank": 4}, {"rank": 3, "share_key_value": True}],
    "nystrom": [{"landmarks": 4, "conv": 3}, {"landmarks": 3, "conv": 0, "bias": False}],
    "lstm": [{"bias": False}],
    "gated_short_conv": [{"kernel": 4, "bias": True}],
    "short_conv": [{"kernel": 3, "bias": False}, {"kernel": 7, "start": "identity"}],
    "linear_attention": [{"chunk_size": 4, "bias": False}],
    "mamba2": [{"chunk_size": 4, "state": 6, "num_groups": 2, "head_width": 4, "bias": True}],
    "mamba3": [{"chunk_size": 4, "state": 7, "head_width": 4, "rotated": 1.0, "expand": 1.5}],
    "mlstm": [{"chunk_size": 4, "bias": True}],
    "retention": [{"chunk_size": 4, "value_factor": 1}],
    "lightning_attention": [{"chunk_size": 4, "slope": 0.25}],
    "performer": [{"chunk_size": 4, "num_features": 7}],
    "based": [{"chunk_size": 4, "key_width": 1, "bias": True}, {"chunk_size": 4, "key_width": 5}],
    "mamba": [{"state": 3, "rank": 2, "conv": 3, "bias": True, "conv_bias": False}, {"state": 3, "norm_eps": 1e-2}],
    "rg_lru": [{"expand": 1.5, "conv": 2}],
    "rwkv4": [{"expand": 1.5}],
    "s4d": [{"state": 8, "start": "inv", "glu": False}],
    "hyena": [{"conv": 4, "reach": 7, "filter_width": 5, "filter_depth": 1, "bands": 2}],
    "min_gru": [{"expand": 1.5, "bias": False}],
    "min_lstm": [{"expand": 1.5, "bias": False}],
    "gated_linear": [{"chunk_size": 4, "key_ratio": 1.0, "value_ratio": 2.0, "temperature": 1.0}],
    "hgrn2": [{"chunk_size": 4, "key_ratio": 0.5, "value_ratio": 2.0}],
    "rwkv6": [{"shift_rank": 3, "decay_rank": 5, "chunk_size": 4}],
    "kimi_delta": [
        {"chunk_size": 4, "conv": 0, "rank": 3, "value_ratio": 2.0, "negative_eigenvalues": True},
        {"chunk_size": 4, "num_value_heads": 6, "num_key_heads": 3, "key_width": 5, "value_width": 3, "norm_eps": 1e-2},
    ],
    "delta_product": [
        {"chunk_size": 8, "products": 3, "conv": 0, "gate": False, "value_ratio": 2.0},
        {"chunk_size": 4, "num_value_heads": 6, "num_key_heads": 3, "key_width": 3, "value_width": 5},
    ],
    "rwkv7": [{"decay_rank": 3, "rate_rank": 5, "gate_rank": 2, "chunk_size": 4}],
    "gated_delta": [
        {"gate": False, "chunk_size": 4},
        {"num_value_heads": 6, "num_key_heads": 2, "key_width": 3, "value_width": 5, "chunk_size": 4, "norm_eps": 0.1},
        {"num_key_heads": 2, "conv": 0, "chunk_size": 8},
        {"conv": 0, "output_gate": False, "value_ratio": 1.0, "negative_eigenvalues": True, "chunk_size": 8},
    ],
}
"""Options to try besides the defaults."""
CROSS_VARIANTS: dict[str, list[dict]] = {
    "softmax_attention": [{"num_kv_heads": 2, "bias": False}],
    "bahdanau": [{"score_width": 5}],
    "luong": [{"score": "dot"}, {"score": "concat"}],
}
MIXERS = [(name, options) for name in names("mixer") for options in ({}, *VARIANTS.get(name, []))]
CROSSES = [(name, options) for name in names("cross") for options in ({}, *CROSS_VARIANTS.get(name, []))]
DTYPES = (torch.float64, torch.float32, torch.bfloat16)
THE_SAME_IN_EVERY_PRECISION = (declared_flops, declared_parameters, declared_state, kernel_named, shape)
SHAPES_CHECKED = (shape, stepwise, equals_slow_twin, packed_documents)
"""Laws that together call everything a mixer has, but its maps: those of test_attention_laws.py are checked there."""


def case_exists(law: Law, name: str, causal: bool, dtype: torch.dtype) -> bool:
    looks, has_slow_twin = _form(name, causal)
    return looks and applies(law, causal=causal, dtype=dtype, has_slow_twin=has_slow_twin)


@cache
def _form(name: str, causal: bool) -> tuple[bool, bool]:
    """Return whether a mixer can look this way, and whether it has a slow twin."""
    mixer = factory("mixer", name)
    return can_look(mixer, causal=causal), slow_twin(mixer) is not None


def marks(law: Law, options: dict, dtype: torch.dtype) -> list[pytest.MarkDecorator]:
    """Check everything in double; the other precisions are slow, and left to `make laws-long` where they can change
    nothing, or where a mixer has options.

    Shapes are the same in every precision, and checking them takes twice as long.
    """
    is_double = dtype == torch.float64
    is_whole = (not is_double and law in THE_SAME_IN_EVERY_PRECISION) or (not is_double and bool(options))
    is_slow = not is_double
    cost = [pytest.mark.whole] if is_whole else [pytest.mark.slow] * is_slow
    return [pytest.mark.shapes(is_double and law in SHAPES_CHECKED), *cost]


CASES = [
    pytest.param(law, *mixer, causal, dtype, marks=marks(law, mixer[1], dtype))
    for law, mixer, causal, dtype in product(LAWS, MIXERS, (True, False), DTYPES)
    if case_exists(law, mixer[0], causal, dtype)
]


def label(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={option}" for key, option in value.items()) or "default"
    if isinstance(value, bool):
        return "causal" if value else "bidirectional"
    return getattr(value, "__name__", str(value))


@pytest.mark.parametrize(("law", "name", "options", "causal", "dtype"), CASES, ids=label)
def test_mixer_obeys(law: Law, name: str, options: dict, causal: bool, dtype: torch.dtype) -> None:
    mixer = factory("mixer", name, **options)
    counterpart = slow_twin(mixer)
    law(
        LawSubject(
            alone(mixer, causal=causal), None if counterpart is None else alone(counterpart, causal=causal), dtype
        )
    )


@pytest.mark.sampled(12)
@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("name", "options"), CROSSES, ids=label)
def test_cross_mixer_obeys_every_law(name: str, options: dict, dtype: torch.dtype) -> None:
    mixer, cross = factory("mixer", "softmax_attention"), factory("cross", name, **options)
    counterpart = slow_twin(mixer)
    assert counterpart is not None
    subject = LawSubject(alone(mixer, causal=True, cross=cross), alone(counterpart, causal=True, cross=cross), dtype)
    for law in LAWS:
        if applies(law, causal=True, dtype=dtype, has_slow_twin=True):
            law(subject)

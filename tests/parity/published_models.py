"""A small published model of each family, and the rows that it is asked, by both sides' names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from torch import Tensor

from headtohead.architectures.head_names import HeadName

VOCABULARY, LENGTHS, TABLE = 37, (1, 7, 77), 96
Inputs = Mapping[str, Tensor]

_COMMON: dict[str, Any] = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
_GPT: dict[str, Any] = {**_COMMON, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": TABLE}
_LLAMA: dict[str, Any] = {
    **_COMMON, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3,
    "max_position_embeddings": TABLE,
}  # fmt: skip
_GROUPED: dict[str, Any] = {**_LLAMA, "num_key_value_heads": 1}
_STATES: dict[str, Any] = {**_COMMON, "hidden_size": 24, "num_hidden_layers": 2}


@dataclass(frozen=True)
class PublishedModel:
    """A class of `transformers`, its configuration, and what composes the task whose head it has."""

    reference: str
    config: Mapping[str, Any]
    task: tuple[str, ...] = ()
    head: HeadName = "language_model"
    asks: str = "tokens"
    """Kinds of rows: tokens, pairs (of source and target), or images."""
    masks: bool = True
    """Whether the reference takes a mask."""
    pads: bool = True
    """Whether the rows compared are padded: some references without a mask read padding as text."""
    old: Mapping[str, Any] = field(default_factory=dict)
    """Fields of older files, or those that other versions of the reference write, with a value."""
    first_is_global: bool = False
    """Whether the reference must be told that the first token is global, as it is here."""
    lengths: tuple[int, ...] = LENGTHS
    idle: tuple[str, ...] = ()
    """Weights that the reference holds and never reads for this head."""
    constants: tuple[str, ...] = ()
    """Buffers that a file holds, redrawn with the parameters."""


_ROTARY: dict[str, Any] = {"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 4.0}, "is_causal": False}
_SHARPENED: dict[str, Any] = {
    "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8, "mscale": 0.7, "mscale_all_dim": 1.3,
}  # fmt: skip
_MASKED: dict[str, Any] = {"task": ("task=masked_lm", "data=grammar_lm"), "head": "masked_language_model"}
_PAIRS: dict[str, Any] = {"task": ("task=seq2seq", "data=reverse"), "asks": "pairs"}
_CAUSAL: dict[str, Any] = {"is_causal": False}
_ENCODER: dict[str, Any] = {"old": {"is_causal": True, "position_embedding_type": "relative_key"}}

MODELS: dict[str, PublishedModel] = {
    "gpt2": PublishedModel("GPT2", {**_GPT, "n_inner": 40}, old={**_CAUSAL, "n_ctx": 5, "num_attention_heads": 2}),
    "llama": PublishedModel("Llama", _GROUPED, old={**_ROTARY, "partial_rotary_factor": 0.5}),
    "mistral": PublishedModel("Mistral", {**_GROUPED, "sliding_window": 9}, old=_ROTARY),
    "mixtral": PublishedModel("Mixtral", {**_GROUPED, "num_local_experts": 3}, old=_ROTARY),
    "qwen2": PublishedModel("Qwen2", _GROUPED, old={**_ROTARY, "attention_bias": False}),
    "qwen3": PublishedModel("Qwen3", {**_GROUPED, "head_dim": 12}, old=_ROTARY),
    "qwen3_moe": PublishedModel(
        "Qwen3Moe", {**_GROUPED, "head_dim": 12, "moe_intermediate_size": 12, "num_experts": 3,
                     "num_experts_per_tok": 2},
        old={**_ROTARY, "num_local_experts": 4, "mlp_only_layers": [0], "mlp_bias": True},
    ),
    "qwen3_next": PublishedModel(
        "Qwen3Next", {**_GROUPED, "head_dim": 8, "layer_types": ["linear_attention", "full_attention"],
                      "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 5,
                      "linear_value_head_dim": 6, "moe_intermediate_size": 12, "shared_expert_intermediate_size": 14,
                      "num_experts": 3, "num_experts_per_tok": 2},
        old={**_ROTARY, "partial_rotary_factor": 0.5, "full_attention_interval": 1, "mlp_only_layers": [0],
             "layer_types": ["linear_attention"] * 2, "head_dim": 12},
    ),
    "olmo2": PublishedModel("Olmo2", _GROUPED, old={**_ROTARY, "head_dim": 12, "mlp_bias": True}),
    "diffllama": PublishedModel(
        "DiffLlama", {**_LLAMA, "num_attention_heads": 4, "num_key_value_heads": 2},
        old={**_ROTARY, "mlp_bias": True, "head_dim": 12},
    ),
    "gemma2": PublishedModel(
        "Gemma2", {**_GROUPED, "head_dim": 8, "query_pre_attn_scalar": 3, "sliding_window": 5,
                   "attn_logit_softcapping": 0.8, "final_logit_softcapping": 1.5},
        old={**_ROTARY, "layer_types": None, "sliding_window_pattern": 1},
    ),
    "deepseek_v3": PublishedModel(
        "DeepseekV3", {**_LLAMA, "num_key_value_heads": 3, "moe_intermediate_size": 12, "kv_lora_rank": 10,
                       "q_lora_rank": 14, "qk_rope_head_dim": 4, "qk_nope_head_dim": 6, "v_head_dim": 5,
                       "n_routed_experts": 6, "n_group": 3, "topk_group": 2, "num_experts_per_tok": 2,
                       "first_k_dense_replace": 1},
        old={**_ROTARY, "scoring_func": "softmax", "topk_method": "greedy", "moe_layer_freq": 2,
             "num_key_value_heads": 1, "num_mtp_layers": 2, "rope_scaling": _SHARPENED},
        constants=("model.layers.1.mlp.gate.e_score_correction_bias",),
    ),
    "kimi_linear": PublishedModel(
        "KimiLinear", {**_LLAMA, "num_key_value_heads": 3, "layer_types": ["linear_attention", "full_attention"],
                       "linear_head_dim": 6, "linear_num_heads": 4, "moe_intermediate_size": 12, "kv_lora_rank": 10,
                       "qk_rope_head_dim": 4, "qk_nope_head_dim": 6, "v_head_dim": 5, "num_local_experts": 4,
                       "num_experts_per_tok": 2},
        old={"first_k_dense_replace": 2, "linear_attn_config": {"head_dim": 6, "num_heads": 4}, "is_causal": False,
             "mla_use_nope": False, "moe_layer_freq": 2, "moe_router_activation_func": "softmax"},
        constants=("model.layers.1.mlp.gate.e_score_correction_bias",),
    ),
    "gemma3_text": PublishedModel(
        "Gemma3", {**_GROUPED, "head_dim": 8, "query_pre_attn_scalar": 12, "sliding_window": 5,
                   "layer_types": ["sliding_attention", "full_attention"]},
        old={**_ROTARY, "rope_local_base_freq": 7.0, "sliding_window_pattern": 2, "layer_types": None,
             "rope_parameters": None},
    ),
    "gpt_oss": PublishedModel(
        "GptOss", {**_GROUPED, "head_dim": 8, "sliding_window": 5, "num_local_experts": 3, "num_experts_per_tok": 2,
                   "swiglu_limit": 0.7},
        old={**_ROTARY, "num_experts": 4, "layer_types": None},
    ),
    "cohere2": PublishedModel(
        "Cohere2", {**_GROUPED, "sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"],
                    "logit_scale": 0.4},
        old={**_ROTARY, "head_dim": 12, "sliding_window_pattern": 2, "layer_types": None},
    ),
    "lfm2": PublishedModel(
        "Lfm2", {**_GROUPED, "layer_types": ["conv", "full_attention"], "block_multiple_of": 8},
        old={**_ROTARY, "full_attn_idxs": [0], "tie_embedding": False, "block_ff_dim": 24, "layer_types": None,
             "head_dim": 12},
    ),
    "bamba": PublishedModel(
        "Bamba", {**_GROUPED, "num_attention_heads": 2, "attn_layer_indices": [1], "mamba_n_heads": 6,
                  "mamba_n_groups": 2, "mamba_d_state": 5, "mamba_chunk_size": 4},
        old={**_ROTARY, "partial_rotary_factor": 0.3, "head_dim": 8, "mamba_d_head": 8},
    ),
    "jamba": PublishedModel(
        "Jamba", {**_GROUPED, "attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 5, "mamba_dt_rank": 3,
                  "num_experts": 3, "expert_layer_period": 2, "expert_layer_offset": 1},
        old={"head_dim": 12, "num_local_experts": 4, "is_causal": False},
    ),
    "gpt_neox": PublishedModel(
        "GPTNeoX", _LLAMA, old={**_ROTARY, "rotary_pct": 0.5, "rotary_emb_base": 500, "partial_rotary_factor": 0.5}
    ),
    "gptj": PublishedModel("GPTJ", {**_GPT, "rotary_dim": 4}, old={**_CAUSAL, "num_attention_heads": 2}),
    "bloom": PublishedModel(
        "Bloom", {**_COMMON, "hidden_size": 24, "n_layer": 2, "n_head": 3},
        old={**_CAUSAL, "n_embed": 24, "num_attention_heads": 2, "slow_but_exact": True, "pretraining_tp": 2},
    ),
    "mpt": PublishedModel("Mpt", {**_COMMON, "d_model": 24, "n_layers": 2, "n_heads": 3}, old=_CAUSAL),
    "bert": PublishedModel("Bert", _LLAMA, **_MASKED, **_ENCODER),
    "roberta": PublishedModel("Roberta", _LLAMA, **_MASKED, **_ENCODER),
    "distilbert": PublishedModel(
        "DistilBert", {**_COMMON, "dim": 24, "hidden_dim": 40, "n_layers": 2, "n_heads": 3,
                       "max_position_embeddings": TABLE}, **_MASKED,
        old={"sinusoidal_pos_embds": True, "tie_weights_": True, "hidden_size": 12, "num_hidden_layers": 1},
    ),
    "electra": PublishedModel("Electra", {**_LLAMA, "embedding_size": 24}, **_MASKED, **_ENCODER),
    "roformer": PublishedModel(
        "RoFormer", _LLAMA, **_MASKED, **_ENCODER, idle=("roformer.encoder.embed_positions.weight",)
    ),
    "deberta-v2": PublishedModel(
        "DebertaV2", {**_LLAMA, "relative_attention": True, "position_buckets": 16, "max_relative_positions": 24,
                      "norm_rel_ebd": "layer_norm", "share_att_key": True, "pos_att_type": ["p2c", "c2p"],
                      "position_biased_input": False},
        **_MASKED,
        old={"conv_kernel_size": 3, "attention_head_size": 12, "embedding_size": 12, "pos_att_type": "c2p",
             "norm_rel_ebd": "none", "position_buckets": 0, "is_causal": True},
    ),
    "albert": PublishedModel("Albert", {**_LLAMA, "embedding_size": 10}, **_MASKED, **_ENCODER),
    "fnet": PublishedModel(
        "FNet", {name: size for name, size in _LLAMA.items() if name != "num_attention_heads"}, **_MASKED,
        masks=False, pads=False, idle=("fnet.pooler.dense.weight", "fnet.pooler.dense.bias"),
        old={"num_attention_heads": 5, "position_embedding_type": "relative_key"},
    ),
    "modernbert": PublishedModel(
        "ModernBert", {**_LLAMA, "local_attention": 6}, **_MASKED,
        old={"global_attn_every_n_layers": 1, "global_rope_theta": 500.0, "local_rope_theta": 7.0, "layer_types": None,
             "rope_parameters": None},
    ),
    "longformer": PublishedModel(
        "Longformer", {**_LLAMA, "attention_window": 4}, **_MASKED, **_ENCODER, first_is_global=True
    ),
    "big_bird": PublishedModel(
        "BigBird", {**_LLAMA, "attention_type": "original_full"}, **_MASKED, **_ENCODER,
        idle=("bert.pooler.weight", "bert.pooler.bias"),
    ),
    "t5": PublishedModel(
        "T5", {**_COMMON, "d_model": 24, "d_kv": 8, "d_ff": 40, "num_layers": 2, "num_heads": 3,
               "decoder_start_token_id": 0}, **_PAIRS,
        old={"dense_act_fn": "gelu", "is_gated_act": True, "scale_decoder_outputs": False},
    ),
    "switch_transformers": PublishedModel(
        "SwitchTransformers", {**_COMMON, "d_model": 24, "d_kv": 8, "d_ff": 40, "num_layers": 2, "num_heads": 3,
                               "num_decoder_layers": 2, "num_experts": 3, "expert_capacity": 80,
                               "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 2,
                               "decoder_start_token_id": 0}, **_PAIRS,
        old={"router_ignore_padding_tokens": True, "add_router_probs": True},
    ),
    "bart": PublishedModel(
        "Bart", {**_COMMON, "d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 3,
                 "decoder_attention_heads": 3, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40,
                 "max_position_embeddings": TABLE, "decoder_start_token_id": 2, "forced_eos_token_id": None}, **_PAIRS,
        old={**_CAUSAL, "num_attention_heads": 2, "normalize_before": True},
    ),
    "mbart": PublishedModel(
        "MBart", {**_COMMON, "d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 3,
                  "decoder_attention_heads": 3, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40,
                  "max_position_embeddings": TABLE, "decoder_start_token_id": 2, "forced_eos_token_id": None}, **_PAIRS,
        old={**_CAUSAL, "num_attention_heads": 2, "normalize_before": True, "add_final_layer_norm": True},
    ),
    "vit": PublishedModel(
        "ViT", {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40,
                "image_size": 12, "patch_size": 4, "num_labels": 5},
        task=("task=image_classification", "data=digits", "model.num_classes=5"), head="classifier", asks="images",
    ),
    "convnext": PublishedModel(
        "ConvNext", {"hidden_sizes": [8, 16], "depths": [1, 2], "num_stages": 2, "image_size": 12, "patch_size": 2,
                     "num_labels": 5},
        task=("task=image_classification", "data=digits", "model.num_classes=5", "model.image_shape=[3,12,12]"),
        head="classifier", asks="images",
    ),
    "swin": PublishedModel(
        "Swin", {"embed_dim": 8, "depths": [2, 1], "num_heads": [2, 4], "window_size": 3, "image_size": 12,
                 "patch_size": 2, "num_labels": 5},
        task=("task=image_classification", "data=digits", "model.num_classes=5"), head="classifier", asks="images",
    ),
    "mamba": PublishedModel("Mamba", {**_STATES, "state_size": 6}),
    "mamba2": PublishedModel("Mamba2", {**_STATES, "state_size": 6, "num_heads": 4, "head_dim": 12, "n_groups": 2}),
    "rwkv": PublishedModel(
        "Rwkv", {**_STATES, "intermediate_size": 40, "rescale_every": 0}, masks=False, lengths=(7, 77),
        old={"max_position_embeddings": 5},
    ),
}  # fmt: skip
_SUFFIX = {
    "language_model": "ForCausalLM",
    "masked_language_model": "ForMaskedLM",
    "classifier": "ForImageClassification",
}


def reference_class(model: PublishedModel) -> Any:
    """Return the class of `transformers` with the head."""
    if model.reference == "GPT2":
        return transformers.GPT2LMHeadModel
    suffix = "ForConditionalGeneration" if model.asks == "pairs" else _SUFFIX[model.head]
    return getattr(transformers, model.reference + suffix)


def reference_config(model: PublishedModel) -> Any:
    """Return its small configuration."""
    return config_class(model)(**model.config)


def config_class(model: PublishedModel) -> Any:
    """Return the class of its configuration."""
    return getattr(transformers, "Gemma3TextConfig" if model.reference == "Gemma3" else f"{model.reference}Config")


def rows(model: PublishedModel) -> Iterator[tuple[Inputs, Inputs, Tensor]]:
    """Give the inputs of each length by their names and by ours, with the logits that are compared."""
    generator = torch.Generator().manual_seed(3)
    if model.asks == "images":
        images = torch.randn(2, 3, 12, 12, generator=generator)
        yield {"pixel_values": images}, {"images": images}, torch.ones(2, dtype=torch.bool)
        return
    for length in model.lengths:  # without a cache the reference of RWKV gives two tokens for one
        theirs, ours = _tokens(length, generator, model.masks, model.pads)
        if model.first_is_global:
            theirs["global_attention_mask"] = (torch.arange(length) == 0).long().expand(2, length)
        scored = ours["valid"]
        if model.asks == "pairs":
            target_theirs, target = _tokens(length, generator, True)
            theirs = {**theirs, **{f"decoder_{name}": held for name, held in target_theirs.items()}}
            ours = {**ours, "decoder_tokens": target["tokens"], "decoder_valid": target["valid"]}
            scored = target["valid"]
        yield theirs, ours, scored


def _tokens(
    length: int, generator: torch.Generator, masks: bool, pads: bool = True
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Two rows, the second padded on the right by a third of its length."""
    tokens = torch.randint(5, VOCABULARY, (2, length), generator=generator)
    valid = torch.ones(2, length, dtype=torch.bool)
    valid[1, length - length // 3 :] = not pads
    theirs = {"input_ids": tokens, **({"attention_mask": valid.long()} if masks else {})}
    return theirs, {"tokens": tokens, "valid": valid}

"""Sizes and switches that published models rarely have, against `transformers`: logits and gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import RoFormerForMaskedLM
from transformers.models.bloom import modeling_bloom

from headtohead.pretrained.families import FAMILIES
from headtohead.pretrained.model_family import ModelFamily
from parity.experts_in_memory import IN_MEMORY
from parity.parity import Case, check
from parity.published_models import MODELS, PublishedModel, config_class, reference_class
from parity.test_decoder_parity import exact_gelu
from parity.test_encoder_decoder_parity import both_sides, untied
from parity.test_swin_parity import name_on_disk as swin_name_on_disk
from parity.test_vit_parity import name_on_disk
from parity.token_rows import LENGTH, VOCABULARY, pair_rows, token_rows

EAGER: Mapping[str, Any] = {"attn_implementation": "eager"}
NO_EAGER = {kind for kind, model in MODELS.items() if model.reference in ("Longformer", "Rwkv", "Mamba", "Mamba2")}
COMMON: dict[str, Any] = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, **EAGER}
LAYERS: dict[str, Any] = {
    **COMMON, "num_hidden_layers": 3, "intermediate_size": 17, "max_position_embeddings": LENGTH + 9,
}  # fmt: skip
GPT: dict[str, Any] = {**COMMON, "n_layer": 3, "n_positions": LENGTH + 4, "tie_word_embeddings": False}
FIVE_HEADS: dict[str, Any] = {"hidden_size": 35, "num_attention_heads": 5}
MULTI_QUERY: dict[str, Any] = {**FIVE_HEADS, "num_key_value_heads": 1}
APART: dict[str, Any] = {"hidden_size": 21, "num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 10}
ODD: dict[str, tuple[str, dict[str, Any]]] = {
    "GPT-2, odd heads and widths, eps, ReLU": (
        "gpt2", {**GPT, "n_embd": 35, "n_head": 5, "n_inner": 17, "layer_norm_epsilon": 1e-2,
                 "activation_function": "relu"}),
    "GPT-2, one head, tied": ("gpt2", {**GPT, "n_embd": 21, "n_head": 1, "tie_word_embeddings": True}),
    "Llama, multi-query, head_dim apart, eps": (
        "llama", {**LAYERS, **MULTI_QUERY, "head_dim": 14, "rms_norm_eps": 1e-2}),
    "Llama, odd width, biases of the feed-forward alone": ("llama", {**LAYERS, **APART, "mlp_bias": True}),
    "Llama, biases of attention alone, tied": (
        "llama", {**LAYERS, **APART, "attention_bias": True, "tie_word_embeddings": True, "hidden_act": "gelu"}),
    "Mistral, multi-query, windows of 3 tokens": (
        "mistral", {**LAYERS, **MULTI_QUERY, "head_dim": 6, "sliding_window": 3}),
    "Mixtral, three experts of three, windows of 5 tokens": (
        "mixtral", {**LAYERS, **MULTI_QUERY, "head_dim": 6, "sliding_window": 5, "num_local_experts": 3,
                    "num_experts_per_tok": 3, "experts_implementation": "eager"}),
    "Qwen2, multi-query, tied, eps": (
        "qwen2", {**LAYERS, "hidden_size": 30, "num_attention_heads": 5, "num_key_value_heads": 1,
                  "tie_word_embeddings": True, "rms_norm_eps": 1e-3}),
    "Qwen3, odd width, head_dim apart, biases": ("qwen3", {**LAYERS, **APART, "attention_bias": True}),
    "Qwen3, three experts of three whose weights sum to 1, head_dim apart, biases, tied": (
        "qwen3_moe", {**LAYERS, **APART, "attention_bias": True, "tie_word_embeddings": True, "num_experts": 3,
                      "moe_intermediate_size": 11, "num_experts_per_tok": 3, "norm_topk_prob": True,
                      "experts_implementation": "eager"}),
    "Qwen3-Next, no experts, biases of attention, a half of each head turned, tied, eps": (
        "qwen3_next", {**LAYERS, "hidden_size": 30, "num_attention_heads": 5, "num_key_value_heads": 1, "head_dim": 12,
                       "rms_norm_eps": 1e-2, "attention_bias": True, "tie_word_embeddings": True,
                       "linear_num_value_heads": 3, "linear_num_key_heads": 3, "linear_key_head_dim": 7,
                       "linear_value_head_dim": 4, "linear_conv_kernel_dim": 3, "mlp_only_layers": [0, 1, 2],
                       "layer_types": ["full_attention", "linear_attention", "linear_attention"],
                       "rope_parameters": {"rope_type": "default", "rope_theta": 77.0, "partial_rotary_factor": 0.5}}),
    "Qwen3-Next, three experts of three, four memories to a key": (
        "qwen3_next", {**LAYERS, "hidden_size": 30, "num_attention_heads": 5, "num_key_value_heads": 5, "head_dim": 8,
                       "linear_num_value_heads": 8, "linear_num_key_heads": 2, "linear_key_head_dim": 6,
                       "linear_value_head_dim": 5, "moe_intermediate_size": 11, "shared_expert_intermediate_size": 7,
                       "num_experts": 3, "num_experts_per_tok": 3, "full_attention_interval": 2,
                       "experts_implementation": "eager"}),
    "OLMo 2, multi-query, biases of attention, tied, eps": (
        "olmo2", {**LAYERS, "hidden_size": 30, "num_attention_heads": 5, "num_key_value_heads": 1, "rms_norm_eps": 1e-2,
                  "attention_bias": True, "tie_word_embeddings": True}),
    "DiffLlama, head_dim apart, biases of attention, tied, eps": (
        "diffllama", {**LAYERS, "hidden_size": 21, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10,
                      "rms_norm_eps": 1e-2, "attention_bias": True, "tie_word_embeddings": True}),
    "Gemma 2, biases of attention, untied, windows of 3 tokens, low caps, eps": (
        "gemma2", {**LAYERS, "hidden_size": 30, "num_attention_heads": 5, "num_key_value_heads": 1, "head_dim": 14,
                   "rms_norm_eps": 1e-2, "attention_bias": True, "tie_word_embeddings": False, "sliding_window": 3,
                   "attn_logit_softcapping": 0.4, "final_logit_softcapping": 0.7, "query_pre_attn_scalar": 3}),
    "DeepSeek-V3, odd heads and widths, one group of all, no query latents, halves, tied, eps": (
        "deepseek_v3", {**LAYERS, **FIVE_HEADS, "num_key_value_heads": 5, "moe_intermediate_size": 11,
                        "kv_lora_rank": 9, "q_lora_rank": None, "qk_rope_head_dim": 6, "qk_nope_head_dim": 3,
                        "v_head_dim": 8, "n_routed_experts": 5, "n_shared_experts": 3, "n_group": 1, "topk_group": 1,
                        "num_experts_per_tok": 3, "first_k_dense_replace": 2, "norm_topk_prob": False,
                        "routed_scaling_factor": 0.7, "rope_interleave": False, "tie_word_embeddings": True,
                        "rms_norm_eps": 1e-2, "hidden_act": "gelu", "experts_implementation": "eager"}),
    "Kimi Linear, odd heads and widths, query latents, groups of experts, layers as published, eps": (
        "kimi_linear", {**LAYERS, **FIVE_HEADS, "num_key_value_heads": 5, "moe_intermediate_size": 11,
                        "kv_lora_rank": 9, "q_lora_rank": 7, "qk_rope_head_dim": 3, "qk_nope_head_dim": 5,
                        "v_head_dim": 8, "num_local_experts": 6, "n_shared_experts": 2, "n_group": 3, "topk_group": 2,
                        "num_experts_per_tok": 3, "norm_topk_prob": False, "routed_scaling_factor": 0.7,
                        "rms_norm_eps": 1e-2, "experts_implementation": "eager", "mlp_layer_types": None,
                        "first_k_dense_replace": 2, "linear_attn_config": {
                            "full_attn_layers": [1], "kda_layers": [2, 3], "head_dim": 7, "num_heads": 3,
                            "short_conv_kernel_size": 3}}),
    "Kimi Linear, attention in no layer, experts in the last alone": (
        "kimi_linear", {**LAYERS, **FIVE_HEADS, "num_key_value_heads": 5, "linear_head_dim": 9, "linear_num_heads": 2,
                        "layer_types": ["linear_attention"] * 3, "use_cache": False,
                        "mlp_layer_types": ["dense", "dense", "sparse"], "moe_intermediate_size": 11,
                        "num_local_experts": 3, "num_experts_per_tok": 3, "linear_conv_kernel_dim": 2,
                        "experts_implementation": "eager"}),
    "Gemma 3, biases of attention, untied, windows of 3 tokens, eps": (
        "gemma3_text", {**LAYERS, "hidden_size": 30, "num_attention_heads": 5, "num_key_value_heads": 1, "head_dim": 14,
                        "rms_norm_eps": 1e-2, "attention_bias": True, "tie_word_embeddings": False,
                        "sliding_window": 3, "layer_types": ["sliding_attention", "sliding_attention",
                                                             "full_attention"],
                        "query_pre_attn_scalar": 7, "final_logit_softcapping": 0.7}),
    "gpt-oss, multi-query, windows of 3 tokens, three experts of three, no biases of attention, tied, eps": (
        "gpt_oss", {**LAYERS, "hidden_size": 30, "num_attention_heads": 5, "num_key_value_heads": 1, "head_dim": 14,
                    "rms_norm_eps": 1e-2, "attention_bias": False, "tie_word_embeddings": True, "sliding_window": 3,
                    "num_local_experts": 3, "num_experts_per_tok": 3, "swiglu_limit": 0.6, "swiglu_alpha": 1.1,
                    "experts_implementation": "eager"}),
    "Cohere 2, multi-query, biases of attention, untied, windows of 3 tokens, eps, GELU": (
        "cohere2", {**LAYERS, "hidden_size": 30, "num_attention_heads": 5, "num_key_value_heads": 1,
                    "layer_norm_eps": 1e-2, "attention_bias": True, "tie_word_embeddings": False, "sliding_window": 3,
                    "layer_types": ["full_attention", "sliding_attention", "sliding_attention"], "logit_scale": 1.7,
                    "hidden_act": "gelu"}),
    "LFM2, odd heads and widths, biased convolutions of 4 tokens, untied": (
        "lfm2", {**LAYERS, "hidden_size": 30, "num_attention_heads": 5, "num_key_value_heads": 1, "norm_eps": 1e-2,
                 "conv_bias": True, "conv_L_cache": 4, "block_auto_adjust_ff_dim": False,
                 "tie_word_embeddings": False, "full_attn_idxs": [1]}),
    "Bamba, odd heads and widths, three groups, all biases but that of convolutions, tied, eps": (
        "bamba", {**LAYERS, "hidden_size": 21, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 12,
                  "rms_norm_eps": 1e-2, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True,
                  "attn_layer_indices": [0, 2], "mamba_n_heads": 3, "mamba_n_groups": 3, "mamba_d_state": 5,
                  "mamba_d_conv": 3, "mamba_expand": 2, "mamba_chunk_size": 3, "mamba_conv_bias": False,
                  "mamba_proj_bias": True}),
    "Bamba, no layer with attention, three times as wide": (
        "bamba", {**LAYERS, "hidden_size": 12, "num_attention_heads": 3, "num_key_value_heads": 3,
                  "mamba_n_heads": 9, "mamba_d_state": 7, "mamba_expand": 3, "use_cache": False}),
    "Jamba, no experts, odd heads and widths, biases of projections, none of convolutions, tied, eps": (
        "jamba", {**LAYERS, **APART, "head_dim": 9, "rms_norm_eps": 1e-2, "tie_word_embeddings": True,
                  "num_experts": 1, "attn_layer_period": 3, "attn_layer_offset": 1, "mamba_d_state": 5,
                  "mamba_d_conv": 3, "mamba_expand": 3, "mamba_dt_rank": 4, "mamba_conv_bias": False,
                  "mamba_proj_bias": True}),
    "Jamba, three experts of three, no layer with attention": (
        "jamba", {**LAYERS, "hidden_size": 20, "num_attention_heads": 5, "num_key_value_heads": 5, "num_experts": 3,
                  "num_experts_per_tok": 3, "expert_layer_period": 1, "expert_layer_offset": 0,
                  "attn_layer_period": 7, "attn_layer_offset": 5, "mamba_d_state": 3, "use_cache": False,
                  "experts_implementation": "eager"}),
    "Jamba, experts in the second of three layers, no bias of convolutions, tied": (
        "jamba", {**LAYERS, **APART, "head_dim": 5, "tie_word_embeddings": True, "num_experts": 5,
                  "num_experts_per_tok": 3, "expert_layer_period": 3, "expert_layer_offset": 1, "attn_layer_period": 2,
                  "attn_layer_offset": 0, "mamba_d_state": 4, "mamba_conv_bias": False,
                  "experts_implementation": "eager"}),
    "GPT-NeoX, odd width, without biases of attention, eps": (
        "gpt_neox", {**LAYERS, "hidden_size": 33, "num_attention_heads": 3, "attention_bias": False,
                     "layer_norm_eps": 1e-2, "hidden_act": "relu",
                     "rope_parameters": {"rope_type": "default", "rope_theta": 77.0, "partial_rotary_factor": 0.4}}),
    "GPT-J, odd heads and widths, eps": (
        "gptj", {**GPT, "n_embd": 35, "n_head": 5, "n_inner": 17, "rotary_dim": 6, "layer_norm_epsilon": 1e-2}),
    "BLOOM, 5 heads, eps": (
        "bloom", {**COMMON, "hidden_size": 35, "n_layer": 3, "n_head": 5, "layer_norm_epsilon": 1e-2}),
    "MPT, 7 heads, odd width": (
        "mpt", {**COMMON, "d_model": 35, "n_layers": 3, "n_heads": 7, "max_seq_len": LENGTH}),
    "BERT, three segment types, odd heads and widths, eps": (
        "bert", {**LAYERS, **FIVE_HEADS, "type_vocab_size": 3, "layer_norm_eps": 1e-2, "hidden_act": "relu"}),
    "RoBERTa, three segment types, odd heads and widths": (
        "roberta", {**LAYERS, **FIVE_HEADS, "type_vocab_size": 3, "layer_norm_eps": 1e-3}),
    "DistilBERT, odd heads and widths, ReLU": (
        "distilbert", {**COMMON, "dim": 35, "n_heads": 5, "n_layers": 3, "hidden_dim": 17, "activation": "relu",
                       "max_position_embeddings": LENGTH + 3}),
    "ELECTRA, three segment types, odd heads and widths, ReLU": (
        "electra", {**LAYERS, **FIVE_HEADS, "embedding_size": 35, "type_vocab_size": 3, "layer_norm_eps": 1e-2,
                    "hidden_act": "relu"}),
    "RoFormer, three segment types, odd heads and widths, eps, ReLU": (
        "roformer", {**LAYERS, "hidden_size": 30, "num_attention_heads": 5, "type_vocab_size": 3,
                     "layer_norm_eps": 1e-2, "hidden_act": "relu"}),
    "RoFormer, one layer, one head, tanh GELU": (
        "roformer", {**LAYERS, "num_hidden_layers": 1, "hidden_size": 30, "num_attention_heads": 1,
                     "hidden_act": "gelu_new"}),
    "DeBERTa-v2, a vector for every distance, no norm, places and two segment types, eps, ReLU": (
        "deberta-v2", {**LAYERS, **FIVE_HEADS, "relative_attention": True, "max_relative_positions": 6,
                       "pos_att_type": ["p2c", "c2p"], "type_vocab_size": 2, "layer_norm_eps": 1e-2,
                       "hidden_act": "relu", "legacy": False}),
    "DeBERTa-v2, one layer, queries meet distances alone, odd buckets": (
        "deberta-v2", {**LAYERS, **FIVE_HEADS, "num_hidden_layers": 1, "relative_attention": True,
                       "position_buckets": 7, "max_relative_positions": 9, "norm_rel_ebd": "layer_norm",
                       "pos_att_type": "c2p", "position_biased_input": False}),
    "DeBERTa-v2, keys meet distances alone, of maps of their own": (
        "deberta-v2", {**LAYERS, **FIVE_HEADS, "relative_attention": True, "position_buckets": 4,
                       "norm_rel_ebd": "layer_norm", "pos_att_type": "p2c", "position_biased_input": False}),
    "ALBERT, one layer passed four times, odd heads and widths, three segment types, ReLU": (
        "albert", {**LAYERS, **FIVE_HEADS, "embedding_size": 7, "num_hidden_layers": 4, "type_vocab_size": 3,
                   "layer_norm_eps": 1e-2, "hidden_act": "relu"}),
    "ALBERT, three layers passed once, embeddings as wide as layers": (
        "albert", {**LAYERS, **FIVE_HEADS, "embedding_size": 35, "num_hidden_layers": 1, "inner_group_num": 3}),
    "FNet, three segment types, odd widths, eps, ReLU": (
        "fnet", {**LAYERS, "hidden_size": 35, "type_vocab_size": 3, "layer_norm_eps": 1e-2, "hidden_act": "relu"}),
    "FNet, one layer, one segment type, an odd number of places": (
        "fnet", {**LAYERS, "num_hidden_layers": 1, "hidden_size": 21, "type_vocab_size": 1,
                 "max_position_embeddings": LENGTH + 2}),
    "ModernBERT, odd heads and widths, windows of 3 tokens, eps": (
        "modernbert", {**LAYERS, "hidden_size": 30, "num_attention_heads": 5, "local_attention": 2, "norm_eps": 1e-2,
                       "hidden_activation": "relu", "attention_bias": True}),
    "Longformer, three segment types, windows of 6 tokens": (
        "longformer", {**LAYERS, **FIVE_HEADS, "type_vocab_size": 3, "attention_window": 6}),
    "BigBird, three segment types, odd heads and widths": (
        "big_bird", {**LAYERS, **FIVE_HEADS, "type_vocab_size": 3, "attention_type": "original_full"}),
    "T5, one layer and three, head width apart, eps": (
        "t5", {**COMMON, "d_model": 21, "d_kv": 10, "d_ff": 17, "num_layers": 1, "num_decoder_layers": 3,
               "num_heads": 3, "feed_forward_proj": "gated-silu", "tie_word_embeddings": False,
               "layer_norm_epsilon": 1e-2, "relative_attention_num_buckets": 6,
               "relative_attention_max_distance": 5, "decoder_start_token_id": 0}),
    "Switch transformer, one layer and four, experts in every second one of the decoder, eps": (
        "switch_transformers", {**COMMON, "d_model": 21, "d_kv": 10, "d_ff": 17, "num_layers": 1,
               "num_decoder_layers": 4, "num_heads": 3, "num_experts": 2, "num_sparse_encoder_layers": 2,
               "num_sparse_decoder_layers": 2, "dense_act_fn": "silu",
               "layer_norm_epsilon": 1e-2, "relative_attention_num_buckets": 6,
               "relative_attention_max_distance": 5, "decoder_start_token_id": 0}),
    "Switch transformer, three layers and two, experts in the second one where none are asked for": (
        "switch_transformers", {**COMMON, "d_model": 15, "d_kv": 7, "d_ff": 19, "num_layers": 3,
               "num_decoder_layers": 2, "num_heads": 5, "num_experts": 1, "num_sparse_encoder_layers": 0,
               "num_sparse_decoder_layers": 2, "relative_attention_num_buckets": 6,
               "relative_attention_max_distance": 5, "decoder_start_token_id": 0}),
    "BART, one layer and three, odd heads and widths": (
        "bart", {**COMMON, "d_model": 35, "encoder_layers": 1, "decoder_layers": 3, "encoder_attention_heads": 5,
                 "decoder_attention_heads": 5, "encoder_ffn_dim": 17, "decoder_ffn_dim": 17,
                 "activation_function": "relu", "max_position_embeddings": LENGTH + 3, "decoder_start_token_id": 2,
                 "forced_eos_token_id": None}),
    "mBART, one layer and three, odd heads and widths, embedding scaled": (
        "mbart", {**COMMON, "d_model": 35, "encoder_layers": 1, "decoder_layers": 3, "encoder_attention_heads": 5,
                  "decoder_attention_heads": 5, "encoder_ffn_dim": 17, "decoder_ffn_dim": 17, "scale_embedding": True,
                  "activation_function": "relu", "max_position_embeddings": LENGTH + 3, "decoder_start_token_id": 2,
                  "forced_eos_token_id": None}),
    "ViT, images of one channel, odd heads and widths, eps": (
        "vit", {**FIVE_HEADS, "num_hidden_layers": 3, "intermediate_size": 17, "image_size": 12, "patch_size": 4,
                "num_channels": 1, "num_labels": 5, "layer_norm_eps": 1e-2, "hidden_act": "relu", **EAGER}),
    "ConvNeXt, an odd grid, three stages, no layer scale, eps": (
        "convnext", {"hidden_sizes": [5, 10, 20], "depths": [2, 1, 3], "num_stages": 3, "image_size": 12,
                     "patch_size": 2, "num_labels": 5, "layer_norm_eps": 1e-2, "layer_scale_init_value": 0.0,
                     "hidden_act": "relu"}),
    "Swin, images of one channel, odd heads and widths, an even window": (
        "swin", {"embed_dim": 15, "depths": [3, 2], "num_heads": [3, 6], "window_size": 2, "image_size": 12,
                 "patch_size": 1, "num_channels": 1, "num_labels": 5, "qkv_bias": False, "mlp_ratio": 1.2,
                 "hidden_act": "relu", **EAGER}),
    "Mamba, odd width, narrow convolution, biases, eps": (
        "mamba", {**COMMON, "hidden_size": 21, "num_hidden_layers": 3, "state_size": 5, "expand": 3, "conv_kernel": 3,
                  "time_step_rank": 3, "use_bias": True, "layer_norm_epsilon": 1e-2, "use_cache": False}),
    "Mamba-2, odd heads and widths, three groups, eps": (
        "mamba2", {**COMMON, "hidden_size": 21, "num_hidden_layers": 3, "state_size": 5, "num_heads": 3,
                   "head_dim": 14, "n_groups": 3, "conv_kernel": 3, "chunk_size": 3, "layer_norm_epsilon": 1e-2,
                   "use_cache": False}),
    "RWKV-4, odd widths": (
        "rwkv", {**COMMON, "hidden_size": 21, "num_hidden_layers": 3, "attention_hidden_size": 27,
                 "intermediate_size": 17, "rescale_every": 0, "use_cache": False}),
}  # fmt: skip
"""The odd configurations by a name for the table: the family and the fields of the reference's configuration."""
CONSTANTS = {
    **dict.fromkeys(("bart", "mbart"), ("final_logits_bias",)),
    **dict.fromkeys(("deepseek_v3", "kimi_linear"), ("model.layers.2.mlp.gate.e_score_correction_bias",)),
}
"""Buffers that files of these hold, by family."""


def rows(
    model: PublishedModel, channels: int, types: int
) -> tuple[dict[str, Tensor], dict[str, Tensor], Tensor | None]:
    """Return the inputs by their names and by ours, and which logits are compared."""
    if model.asks == "images":
        shape = (2, channels, 12, 12)
        images = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        return {"pixel_values": images}, {"images": images}, None
    if model.asks == "pairs":
        theirs, ours = map(dict, both_sides())
        return theirs, ours, ours["decoder_valid"]
    theirs, ours = map(dict, pair_rows() if types > 1 else token_rows())
    if types > 2:
        third = theirs["token_type_ids"].where(torch.arange(LENGTH) < 7, 2)
        theirs["token_type_ids"] = ours["token_types"] = third
    if model.first_is_global:
        theirs["global_attention_mask"] = (torch.arange(LENGTH) == 0).long().expand(2, LENGTH)
    if not model.masks:
        del theirs["attention_mask"]
    if not model.pads:
        ours["valid"] = torch.ones_like(ours["valid"])
    return theirs, ours, ours["valid"]


def family_of(kind: str) -> ModelFamily:
    return IN_MEMORY.get(kind) or next(one for one in FAMILIES if one.model_type == kind)


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
def test_an_odd_configuration_gives_the_logits_and_gradients_of_its_reference(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modeling_bloom.BloomGelu, "forward", exact_gelu)
    kind, fields = ODD[name]
    model, family = MODELS[kind], family_of(kind)
    fields = {key: value for key, value in fields.items() if kind not in NO_EAGER or key not in EAGER}
    config = config_class(model)(**fields)
    theirs, ours, scored = rows(model, fields.get("num_channels", 3), fields.get("type_vocab_size", 1))
    made = {"t5": untied, "roformer": with_whole_angles}.get(kind, reference_class(model))
    case = Case(
        family, made, config, theirs, ours, head=model.head,
        scored=scored, overrides=model.task, idle=model.idle, on_disk=_names(kind, family),
        constants=CONSTANTS.get(kind, ()),
    )  # fmt: skip
    check(name, case)


def with_whole_angles(config: Any) -> nn.Module:
    """Return a RoFormer whose table of sines and cosines is not rounded to 32 bits, as its own is."""
    made = RoFormerForMaskedLM(config)
    table = made.roformer.encoder.embed_positions.weight
    length, width = table.shape
    angles = torch.arange(length)[:, None] * 10000.0 ** (torch.arange(0, width, 2) / -width)
    table.data = torch.cat((angles.sin(), angles.cos()), dim=1)
    return made


def _names(kind: str, family: ModelFamily) -> Callable[[str], str]:
    on_disk = {"vit": name_on_disk, "swin": swin_name_on_disk}
    return on_disk[kind] if kind in on_disk else lambda name: family.aliases.get(name, name)


def test_every_family_has_an_odd_configuration() -> None:
    assert {kind for kind, _ in ODD.values()} == set(MODELS)

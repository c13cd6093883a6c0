"""Llama and its kin, GPT-NeoX, GPT-J, BLOOM and MPT against `transformers`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import (
    BambaConfig,
    BambaForCausalLM,
    BloomConfig,
    BloomForCausalLM,
    Cohere2Config,
    Cohere2ForCausalLM,
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    DiffLlamaConfig,
    DiffLlamaForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPTJConfig,
    GPTJForCausalLM,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    GptOssConfig,
    GptOssForCausalLM,
    JambaConfig,
    JambaForCausalLM,
    KimiLinearConfig,
    KimiLinearForCausalLM,
    Lfm2Config,
    Lfm2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    MptConfig,
    MptForCausalLM,
    Olmo2Config,
    Olmo2ForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    Qwen3NextConfig,
    Qwen3NextForCausalLM,
)
from transformers.models.bloom import modeling_bloom
from transformers.models.mpt import modeling_mpt

from headtohead.pretrained.bloom import BloomFamily
from headtohead.pretrained.cohere2 import Cohere2Family
from headtohead.pretrained.gemma import Gemma2Family, Gemma3Family
from headtohead.pretrained.gpt_neox import GptJFamily, GptNeoXFamily
from headtohead.pretrained.gpt_oss import GptOssFamily
from headtohead.pretrained.lfm2 import Lfm2Family
from headtohead.pretrained.llama import LlamaFamily, Qwen2Family, Qwen3Family
from headtohead.pretrained.llama_descendants import DiffLlamaFamily, MistralFamily, Olmo2Family
from headtohead.pretrained.mamba_hybrids import BambaFamily
from headtohead.pretrained.model_family import ModelFamily
from headtohead.pretrained.mpt import MptFamily
from parity.experts_in_memory import (
    DeepseekInMemory,
    JambaInMemory,
    KimiLinearInMemory,
    MixtralInMemory,
    Qwen3MoeInMemory,
    Qwen3NextInMemory,
)
from parity.parity import Case, check
from parity.token_rows import LENGTH, VOCABULARY, token_rows

COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY, "attn_implementation": "eager", "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
SMALL: dict[str, Any] = {
    **COMMON, "hidden_size": 32, "intermediate_size": 56, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 4 * LENGTH,
}  # fmt: skip
FEWER = LENGTH - 3
SCALINGS: dict[str, dict[str, Any]] = {
    "plain rotary": {"rope_type": "default", "rope_theta": 5000.0},
    "linear scaling": {"rope_type": "linear", "factor": 4.0},
    "dynamic scaling, within its length": {"rope_type": "dynamic", "factor": 4.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": FEWER, "beta_fast": 2.0},
    "yarn with a factor of attention": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": FEWER, "attention_factor": 0.7,
    },
    "yarn with borders between pairs": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "rope_theta": 100.0,
        "beta_fast": 4.0, "beta_slow": 0.5, "truncate": False,
    },
    "llama 3 scaling": {
        "rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": FEWER, "low_freq_factor": 0.1,
        "high_freq_factor": 1.5,
    },
}  # fmt: skip


def compare(
    name: str, family: ModelFamily, reference: Any, config: Any, remark: str = "", constants: tuple[str, ...] = ()
) -> None:
    theirs, ours = token_rows()
    case = Case(
        family, reference, config, theirs, ours, scored=ours["valid"], on_disk=name_on_disk(family), constants=constants
    )
    check(name, case, remark=remark)


def name_on_disk(family: ModelFamily) -> Callable[[str], str]:
    """The reference calls some weights otherwise than files do."""
    return lambda name: family.aliases.get(name, name)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_llama_equals_its_reference_with_every_rotary_scaling(scaling: str) -> None:
    parameters = {"rope_theta": 10000.0, **SCALINGS[scaling]}
    compare(f"Llama, {scaling}", LlamaFamily(), LlamaForCausalLM, LlamaConfig(**SMALL, rope_parameters=parameters))


def test_llama_with_biases_and_a_tied_head_equals_its_reference() -> None:
    config = LlamaConfig(**SMALL, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)
    compare("Llama, biases, tied head", LlamaFamily(), LlamaForCausalLM, config)


def test_qwen2_equals_its_reference() -> None:
    compare("Qwen2", Qwen2Family(), Qwen2ForCausalLM, Qwen2Config(**SMALL))


def test_qwen3_equals_its_reference() -> None:
    compare("Qwen3", Qwen3Family(), Qwen3ForCausalLM, Qwen3Config(**SMALL, head_dim=12, rms_norm_eps=1e-5))


@pytest.mark.parametrize("parallel", [True, False])
def test_gpt_neox_equals_its_reference(parallel: bool) -> None:
    fields = {name: value for name, value in SMALL.items() if name != "num_key_value_heads"}
    turned = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
    config = GPTNeoXConfig(**fields, use_parallel_residual=parallel, rope_parameters=turned)
    compare("GPT-NeoX" if parallel else "GPT-NeoX, serial", GptNeoXFamily(), GPTNeoXForCausalLM, config)


@pytest.mark.parametrize("window", [4, None])
def test_mistral_equals_its_reference_with_and_without_a_window(window: int | None) -> None:
    config = MistralConfig(**SMALL, sliding_window=window)
    name = "Mistral" if window is None else "Mistral, windows of 4 tokens"
    compare(name, MistralFamily(), MistralForCausalLM, config)


def test_mixtral_equals_its_reference() -> None:
    config = MixtralConfig(**SMALL, num_local_experts=4, num_experts_per_tok=2, experts_implementation="eager")
    compare("Mixtral", MixtralInMemory(), MixtralForCausalLM, config)


def test_gptj_equals_its_reference() -> None:
    config = GPTJConfig(**COMMON, n_embd=36, n_layer=2, n_head=3, rotary_dim=8, n_positions=LENGTH)
    compare("GPT-J", GptJFamily(), GPTJForCausalLM, config)


@pytest.mark.parametrize("num_heads", [4, 6])
def test_bloom_equals_its_reference(num_heads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modeling_bloom.BloomGelu, "forward", exact_gelu)
    config = BloomConfig(**COMMON, hidden_size=24, n_layer=2, n_head=num_heads)
    remark = "with sqrt(2 / pi) exact; the reference rounds it to 8 digits"
    compare(f"BLOOM, {num_heads} heads", BloomFamily(), BloomForCausalLM, config, remark)


def exact_gelu(module: object, x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def test_bloom_with_its_own_rounded_constant_differs_in_the_ninth_digit() -> None:
    x = torch.linspace(-3, 3, 61, dtype=torch.float64)
    error = (modeling_bloom.BloomGelu()(x) - F.gelu(x, approximate="tanh")).abs().max()
    assert 1e-10 < error < 1e-8


@pytest.mark.parametrize("num_heads", [4, 6])
def test_mpt_equals_its_reference(num_heads: int) -> None:
    config = MptConfig(**COMMON, d_model=24, n_layers=2, n_heads=num_heads, max_seq_len=LENGTH)
    compare(f"MPT, {num_heads} heads", MptFamily(), MptForCausalLM, config)


def test_mpt_with_slopes_and_a_scale_of_its_own_equals_its_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    original = modeling_mpt.build_mpt_alibi_tensor

    def message(num_heads: int, sequence_length: int, alibi_bias_max: int, device: torch.device) -> Tensor:
        return original(num_heads, sequence_length, 5, device)

    monkeypatch.setattr(modeling_mpt, "build_mpt_alibi_tensor", message)
    own = {"alibi_bias_max": 5, "softmax_scale": 0.3}
    config = MptConfig(**COMMON, d_model=24, n_layers=2, n_heads=6, max_seq_len=LENGTH, attn_config=own)
    remark = "the reference assumes alibi_bias_max=8 whatever its file says; here it is passed in"
    compare("MPT, 6 heads, own slopes and scale", MptFamily(), MptForCausalLM, config, remark)


@pytest.mark.slow
@pytest.mark.parametrize("layers", [[], [0, 1], [0]])
def test_qwen3_with_experts_equals_its_reference(layers: list[int]) -> None:
    config = Qwen3MoeConfig(
        **SMALL, moe_intermediate_size=12, num_experts=4, num_experts_per_tok=2, mlp_only_layers=layers,
        experts_implementation="eager",
    )  # fmt: skip
    names = {0: "Qwen3, with experts", 1: "Qwen3, experts in the second layer", 2: "Qwen3, no layer with its experts"}
    compare(names[len(layers)], Qwen3MoeInMemory(), Qwen3MoeForCausalLM, config)


@pytest.mark.slow
@pytest.mark.parametrize("renormalised", [True, False])
def test_qwen3_next_equals_its_reference(renormalised: bool) -> None:
    config = Qwen3NextConfig(
        **SMALL, head_dim=16, layer_types=["linear_attention", "full_attention"], linear_num_value_heads=4,
        linear_num_key_heads=2, linear_key_head_dim=6, linear_value_head_dim=5, moe_intermediate_size=12,
        shared_expert_intermediate_size=20, num_experts=4, num_experts_per_tok=2, norm_topk_prob=renormalised,
        experts_implementation="eager",
    )  # fmt: skip
    name = "Qwen3-Next" if renormalised else "Qwen3-Next, weights of experts as they are"
    compare(name, Qwen3NextInMemory(), Qwen3NextForCausalLM, config)


def test_olmo2_equals_its_reference() -> None:
    compare("OLMo 2", Olmo2Family(), Olmo2ForCausalLM, Olmo2Config(**SMALL))


def test_diffllama_equals_its_reference() -> None:
    compare("DiffLlama", DiffLlamaFamily(), DiffLlamaForCausalLM, DiffLlamaConfig(**SMALL))


@pytest.mark.parametrize("capped", [True, False])
def test_gemma2_equals_its_reference(capped: bool) -> None:
    caps = dict.fromkeys(("attn_logit_softcapping", "final_logit_softcapping"), 0.9 if capped else None)
    rope = {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0}
    config = Gemma2Config(**SMALL, **caps, head_dim=10, query_pre_attn_scalar=5, sliding_window=4, rope_parameters=rope)
    name = "Gemma 2, capped" if capped else "Gemma 2, without caps"
    compare(f"{name}, linear scaling", Gemma2Family(), Gemma2ForCausalLM, config)


LATENT: dict[str, Any] = {
    **SMALL, "num_key_value_heads": 4, "moe_intermediate_size": 12, "kv_lora_rank": 10, "q_lora_rank": 14,
    "qk_rope_head_dim": 6, "qk_nope_head_dim": 8, "v_head_dim": 5, "n_routed_experts": 8, "num_experts_per_tok": 3,
    "n_group": 4, "topk_group": 2, "num_hidden_layers": 3, "experts_implementation": "eager",
}  # fmt: skip
SHARPENED = {"original_max_position_embeddings": FEWER, "beta_fast": 2.0, "mscale": 1.0, "mscale_all_dim": 0.6}
DEEPSEEKS: dict[str, dict[str, Any]] = {
    "DeepSeek-V3": {"first_k_dense_replace": 1},
    "DeepSeek-V3, YaRN": {
        "first_k_dense_replace": 1,
        "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, **SHARPENED},
    },
    "DeepSeek-V3, experts in all layers, no query latents, halves": {
        "first_k_dense_replace": 0, "q_lora_rank": None, "rope_interleave": False, "n_shared_experts": 2,
    },
    "DeepSeek-V3, dense layers alone": {"first_k_dense_replace": 4},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", DEEPSEEKS)
def test_deepseek_v3_equals_its_reference(name: str) -> None:
    config = DeepseekV3Config(**{**LATENT, **DEEPSEEKS[name]})
    layers = range(config.first_k_dense_replace, config.num_hidden_layers)
    biases = tuple(f"model.layers.{layer}.mlp.gate.e_score_correction_bias" for layer in layers)
    compare(name, DeepseekInMemory(), DeepseekV3ForCausalLM, config, constants=biases)


@pytest.mark.slow
def test_kimi_linear_equals_its_reference() -> None:
    fields = {name: value for name, value in LATENT.items() if name != "n_routed_experts"}
    layers = ["linear_attention", "linear_attention", "full_attention"]
    config = KimiLinearConfig(
        **{**fields, "q_lora_rank": None}, num_local_experts=8, layer_types=layers, linear_head_dim=6,
        linear_num_heads=3,
    )  # fmt: skip
    biases = tuple(f"model.layers.{layer}.mlp.gate.e_score_correction_bias" for layer in (1, 2))
    compare("Kimi Linear", KimiLinearInMemory(), KimiLinearForCausalLM, config, constants=biases)


def test_gemma3_equals_its_reference() -> None:
    kinds = ["sliding_attention", "full_attention"]
    config = Gemma3TextConfig(**SMALL, head_dim=10, query_pre_attn_scalar=9, sliding_window=4, layer_types=kinds)
    compare("Gemma 3", Gemma3Family(), Gemma3ForCausalLM, config)


@pytest.mark.slow
@pytest.mark.parametrize("plain", [True, False])
def test_gpt_oss_equals_its_reference(plain: bool) -> None:
    rope = {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}} if plain else {}
    config = GptOssConfig(
        **SMALL, **rope, head_dim=10, sliding_window=4, num_local_experts=4, num_experts_per_tok=2, swiglu_limit=0.7,
        experts_implementation="eager",
    )  # fmt: skip
    compare("gpt-oss" if plain else "gpt-oss, YaRN", GptOssFamily(), GptOssForCausalLM, config)


def test_cohere2_equals_its_reference() -> None:
    config = Cohere2Config(**SMALL, sliding_window=4, layer_types=["sliding_attention", "full_attention"])
    compare("Cohere 2", Cohere2Family(), Cohere2ForCausalLM, config)


def test_lfm2_equals_its_reference() -> None:
    config = Lfm2Config(**SMALL, layer_types=["conv", "full_attention"], block_multiple_of=8)
    compare("LFM2", Lfm2Family(), Lfm2ForCausalLM, config)


@pytest.mark.slow
def test_bamba_equals_its_reference() -> None:
    sizes = {"mamba_n_heads": 4, "mamba_n_groups": 2, "mamba_d_state": 6, "mamba_chunk_size": 4}
    config = BambaConfig(**SMALL, **sizes, attn_layer_indices=[0])
    compare("Bamba", BambaFamily(), BambaForCausalLM, config)


@pytest.mark.slow
@pytest.mark.parametrize("period", [1, 2])
def test_jamba_equals_its_reference(period: int) -> None:
    config = JambaConfig(
        **SMALL, attn_layer_period=2, attn_layer_offset=0, mamba_d_state=6, num_experts=4, expert_layer_period=period,
        expert_layer_offset=period - 1, experts_implementation="eager",
    )  # fmt: skip
    compare(
        "Jamba" if period == 1 else "Jamba, experts in every second layer", JambaInMemory(), JambaForCausalLM, config
    )

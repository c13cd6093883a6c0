"""DeepSeek-V3 as published: the fields of its files, their layer for a second token, and a run that starts there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM, PreTrainedModel

import headtohead as h2h
from headtohead.config.build import make_model
from headtohead.pretrained.deepseek_v3 import DeepseekV3Family
from headtohead.training.initial_weights import start_from
from pretrained.published_folders import write_text, write_tokenizer

_SHARED_FIELDS: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "attention_bias": False,
    "attention_dropout": 0.0, "aux_loss_alpha": 0.001, "ep_size": 1, "hidden_act": "silu", "initializer_range": 0.02,
    "moe_layer_freq": 1, "norm_topk_prob": True, "num_nextn_predict_layers": 1, "pretraining_tp": 1,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "kv_lora_rank": 512, "scoring_func": "sigmoid",
    "seq_aux": True, "tie_word_embeddings": False, "topk_method": "noaux_tc", "torch_dtype": "bfloat16",
    "use_cache": True,
}  # fmt: skip
PUBLISHED: dict[str, dict[str, Any]] = {
    "DeepSeek-V3": {
        **_SHARED_FIELDS, "first_k_dense_replace": 3, "hidden_size": 7168, "intermediate_size": 18432,
        "max_position_embeddings": 163840, "moe_intermediate_size": 2048, "n_group": 8, "n_routed_experts": 256,
        "n_shared_experts": 1, "num_attention_heads": 128, "num_experts_per_tok": 8, "num_key_value_heads": 128,
        "q_lora_rank": 1536, "rms_norm_eps": 1e-06, "rope_theta": 10000, "routed_scaling_factor": 2.5,
        "topk_group": 4, "vocab_size": 129280, "rope_scaling": {
            "beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
            "original_max_position_embeddings": 4096, "type": "yarn",
        },
    },
    "Moonlight-16B-A3B": {
        **_SHARED_FIELDS, "first_k_dense_replace": 1, "hidden_size": 2048, "intermediate_size": 11264,
        "max_position_embeddings": 8192, "moe_intermediate_size": 1408, "n_group": 1, "n_routed_experts": 64,
        "n_shared_experts": 2, "num_attention_heads": 16, "num_experts_per_tok": 6, "num_key_value_heads": 16,
        "q_lora_rank": None, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 50000.0,
        "routed_scaling_factor": 2.446, "topk_group": 1, "vocab_size": 163840,
    },
}  # fmt: skip
"""The fields of published files, without those that say where their code is and how their weights are rounded."""
SMALL: dict[str, Any] = {
    "hidden_size": 16, "intermediate_size": 24, "moe_intermediate_size": 8, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 2, "kv_lora_rank": 6, "q_lora_rank": 5, "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 4, "v_head_dim": 4, "n_routed_experts": 4, "n_group": 2, "topk_group": 1,
    "num_experts_per_tok": 2, "first_k_dense_replace": 1, "max_position_embeddings": 64,
}  # fmt: skip
# Four steps move the biases three times: two moves could cancel.
RUN = [
    "trainer=cpu", "trainer.max_steps=4", "trainer.validate_every=4", "trainer.progress_bar=false", "tracking=none",
    "probe=none", "data.batch_size=4", "data=text", "data.documents=line", "data.context_length=12",
]  # fmt: skip
BIAS = "model.layers.1.mlp.gate.e_score_correction_bias"


def write(folder: Path) -> PreTrainedModel:
    """Write a small model with its tokenizer, and a layer more than it has, as publishers do."""
    folder.mkdir()
    end = write_tokenizer(folder) - 1
    torch.manual_seed(0)
    config = DeepseekV3Config(**SMALL, vocab_size=end + 1, bos_token_id=end, eos_token_id=end)
    model: PreTrainedModel = DeepseekV3ForCausalLM(config).eval()
    model.save_pretrained(folder)
    file = folder / "model.safetensors"
    weights = load_file(file)
    after = {name.replace("layers.1.", "layers.2."): held.clone() for name, held in weights.items() if ".1." in name}
    more = {**after, "model.layers.2.eh_proj.weight": torch.ones(16, 32), "model.layers.2.enorm.weight": torch.ones(16)}
    save_file({**weights, **more}, file, metadata={"format": "pt"})
    return model


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_configuration_makes_a_model_of_as_many_weights_as_its_reference(name: str) -> None:
    fields = {**PUBLISHED[name], "num_hidden_layers": PUBLISHED[name]["first_k_dense_replace"] + 1}
    with torch.device("meta"):
        reference = DeepseekV3ForCausalLM(DeepseekV3Config(**fields))
    family = DeepseekV3Family()
    overrides = family.overrides(family.complete(fields), "language_model")
    ours = make_model(h2h.compose("train", overrides), device="meta")
    assert sum(held.numel() for held in ours.parameters()) == sum(held.numel() for held in reference.parameters())


def test_the_layer_that_predicts_a_second_token_is_left_aside(tmp_path: Path) -> None:
    reference = write(tmp_path / "hub")
    text = write_text(tmp_path)
    parts = h2h.build_parts(h2h.compose("train", [*RUN, f"data.path={text}", f"init_from=hf:{tmp_path / 'hub'}"]))
    model = parts.make_model()
    start = start_from(model, f"hf:{tmp_path / 'hub'}")
    assert not start.fresh and start.left_aside
    assert all(name.startswith("model.layers.2.") for name in start.left_aside)
    tokens = torch.randint(0, 200, (2, 12), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(tokens), reference(tokens).logits, rtol=0, atol=5e-5)


@pytest.mark.slow
def test_a_run_moves_the_biases_of_the_choice_and_is_read_back_with_them(tmp_path: Path) -> None:
    write(tmp_path / "hub")
    origin = [f"data.path={write_text(tmp_path)}", f"init_from=hf:{tmp_path / 'hub'}", f"output_dir={tmp_path}"]
    record = h2h.train(h2h.compose("train", [*RUN, *origin, "model.feedforward.bias_rate=0.01", "optimizer.lr=0.01"]))
    assert record.status == "finished" and record.path is not None
    out = tmp_path / "out"
    h2h.export(record.path, "hub", out=out)
    before, after = (load_file(tmp_path / folder / "model.safetensors")[BIAS] for folder in ("hub", "out"))
    assert not before.any() and after.any()
    fields = json.loads((out / "config.json").read_text())
    assert {name: fields[name] for name in SMALL} == SMALL
    there, message = DeepseekV3ForCausalLM.from_pretrained(out, output_loading_info=True)
    assert not any(message.values()) and torch.equal(there.state_dict()[BIAS], after)

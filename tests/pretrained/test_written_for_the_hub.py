"""Models of ours in the hub's format, read back by `transformers`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    RobertaConfig,
    RobertaForMaskedLM,
)

import headtohead as h2h
from headtohead.architectures.architecture import Architecture
from headtohead.config.build import fitted, make_model
from headtohead.config.origins.to_published import write_hub
from headtohead.data.row_formats.text_source import TextSource
from headtohead.pretrained.deepseek_v3 import DeepseekV3Family
from headtohead.pretrained.families import FAMILIES, differences
from headtohead.pretrained.hub_checkpoint import open_checkpoint
from headtohead.pretrained.llama_descendants import subtracted
from headtohead.pretrained.model_family import InexpressibleError
from headtohead.pretrained.switch_transformers import SwitchTransformersFamily
from pretrained.published_folders import TEXT, write_text

SIZE = ["model.d_model=32", "model.num_layers=2", "model.num_heads=4", "model.vocab_size=41", "model.max_length=128"]
LLAMA = ["model/norm=rms_norm", "model/feedforward=swiglu", "model.mixer.bias=false"]
PARALLEL = ["model/residual=parallel", "model.tie_weights=false"]
FORMS = {
    "gpt2": ["model/position=learned", "model/feedforward=gelu_tanh"],
    "llama": [*LLAMA, "model/position=rotary_yarn", "model.position.truncate=false", "model.mixer.num_kv_heads=2"],
    "mistral": [*LLAMA, "model/mixer=sliding_window", "model.mixer.window=3"],
    "mixtral": [*LLAMA, "model/feedforward=moe", "model.feedforward.gated=true", "model.feedforward.bias=false",
                "model.feedforward.activation=silu", "model.tie_weights=false"],
    "qwen2": [*LLAMA, "model.mixer.bias=true", "model.mixer.output_bias=false"],
    "qwen3": [*LLAMA, "model.mixer.qk_norm=true", "model.mixer.head_width=6", "model.position.head_width=6"],
    "qwen3_moe": [
        *LLAMA[::2], "model.mixer.qk_norm=true", "model.mixer.head_width=6", "model.position.head_width=6",
        "model/feedforward=moe", "model.feedforward.gated=true", "model.feedforward.bias=false",
        "model.feedforward.num_experts=3", "model.feedforward.activation=silu", "model.feedforward.renormalise=false",
        "model.tie_weights=false",
    ],
    "qwen3_next": [
        "model/norm=rms_norm", "model/feedforward=moe_gated_shared", "model.feedforward.num_experts=3",
        "model.feedforward.multiple=0.5", "model.feedforward.shared_multiple=0.75", "model.tie_weights=false",
        "model.pattern=[gated_delta,gated_attention]", "model.position.fraction=0.5",
        "model.mixers.gated_attention.bias=false", "model.mixers.gated_attention.qk_norm=true",
        "model.mixers.gated_delta.num_key_heads=2", "model.mixers.gated_delta.norm_eps=${model.norm.eps}",
    ],
    "olmo2": [*LLAMA, "model/residual=reordered", "model.mixer.qk_norm=true", "model.mixer.qk_norm_over=all",
              "model.mixer.num_kv_heads=2"],
    "diffllama": [
        *LLAMA[:2], "model.feedforward.bias=false", "model.pattern=[layer_0,layer_1]",
        *(f"+model/mixer@model.mixers.layer_{layer}=differential_attention" for layer in (0, 1)),
        *(f"model.mixers.layer_{layer}.bias=false" for layer in (0, 1)),
        *(f"model.mixers.layer_{layer}.subtracted={subtracted(layer)}" for layer in (0, 1)),
        *(f"model.mixers.layer_{layer}.norm_eps=${{model.norm.eps}}" for layer in (0, 1)),
    ],
    "gemma2": [
        "model/norm=rms_norm", "model/residual=sandwich", "model/feedforward=geglu", "model.feedforward.bias=false",
        "model.pattern=[sliding_window,softmax_attention]", "model.scale_embedding=true", "model.logit_cap=0.5",
        "model.mixers.sliding_window.window=3",
        *(f"model.mixers.{name}.{field}" for name in ("sliding_window", "softmax_attention")
          for field in ("bias=false", "scale=1.0", "score_cap=0.2")),
    ],
    "deepseek_v3": [
        "model/norm=rms_norm", "model/mixer=latent_attention", "model.mixer.query_latent_width=6",
        "model.mixer.scale=0.4", "model/position=rotary_yarn", "model.position.pairing=interleaved",
        "model/feedforward=moe_shared", "model.feedforward.num_experts=6", "model.feedforward.num_groups=3",
        "model.feedforward.groups_per_token=2", "model.feedforward.scale=2.5", "model.num_early_layers=1",
        "+model/feedforward@model.early_feedforward=swiglu", "model.early_feedforward.bias=false",
    ],
    "kimi_linear": [
        "model/norm=rms_norm", "model/position=none", "model.pattern=[kimi_delta,latent_attention]",
        "model.mixers.kimi_delta.num_value_heads=3", "model.mixers.kimi_delta.key_width=5",
        "model.mixers.kimi_delta.value_width=5", "model.mixers.kimi_delta.norm_eps=${model.norm.eps}",
        "model/feedforward=moe_shared", "model.feedforward.num_experts=6", "model.num_early_layers=1",
        "+model/feedforward@model.early_feedforward=swiglu", "model.early_feedforward.bias=false",
        "model.tie_weights=false",
    ],
    "gemma3_text": [
        "model/norm=rms_norm", "model/residual=sandwich", "model/feedforward=geglu", "model.feedforward.bias=false",
        "model/position=rotary_two_bases", "model.pattern=[sliding_window,softmax_attention]",
        "model.scale_embedding=true", "model.mixers.sliding_window.window=3",
        *(f"model.mixers.{name}.{field}" for name in ("sliding_window", "softmax_attention")
          for field in ("bias=false", "qk_norm=true")),
        "model.logit_cap=0.5",
    ],
    "gpt_oss": [
        "model/norm=rms_norm", "model/feedforward=moe_clamped", "model.feedforward.num_experts=3",
        "model.feedforward.limit=0.5", "model.pattern=[sink_window,sink_attention]", "model.tie_weights=false",
        "model.mixers.sink_window.window=3", "model/position=rotary_yarn", "model.position.truncate=false",
    ],
    "cohere2": [
        "model/norm=layer_norm_unbiased", "model/residual=parallel", "model/feedforward=swiglu",
        "model.feedforward.bias=false", "model.position.pairing=interleaved", "model.logit_scale=0.4",
        "model.pattern=[sliding_window,softmax_attention]", "model.mixers.sliding_window.window=3",
        "model.mixers.softmax_attention.rotated=false",
        *(f"model.mixers.{name}.bias=false" for name in ("sliding_window", "softmax_attention")),
    ],
    "lfm2": [*LLAMA[:2], "model.pattern=[gated_short_conv,softmax_attention]", "model.feedforward.bias=false",
             "model.mixers.softmax_attention.bias=false", "model.mixers.softmax_attention.qk_norm=true"],
    "bamba": [*LLAMA[:2], "model.pattern=[mamba2,mamba2,softmax_attention]", "model.num_layers=3",
              "model.feedforward.bias=false", "model.position.fraction=0.5",
              "model.mixers.softmax_attention.bias=false", "model.mixers.mamba2.num_groups=2",
              "model.mixers.mamba2.state=6",
              "model.mixers.mamba2.eps=${model.norm.eps}"],
    "jamba": [
        "model/norm=rms_norm", "model/position=none", "model.pattern=[mamba,softmax_attention]",
        "model.mixers.softmax_attention.bias=false", "model.mixers.mamba.norm_eps=${model.norm.eps}",
        "model/feedforward=moe", "model.feedforward.gated=true", "model.feedforward.bias=false",
        "model.feedforward.num_experts=3", "model.feedforward.activation=silu", "model.feedforward.renormalise=false",
        "model.tie_weights=false",
    ],
    "gpt_neox": [*PARALLEL, "model.residual.shared_norm=false", "model.position.fraction=0.5"],
    "gptj": [*PARALLEL, "model.position.pairing=interleaved", "model.mixer.bias=false", "model.head_bias=true"],
    "bloom": ["model/position=alibi", "model/feedforward=gelu_tanh", "model.embedding_norm=true"],
    "mpt": ["model/position=alibi", "model.norm.bias=false", "model.mixer.bias=false", "model.feedforward.bias=false"],
}  # fmt: skip


BOTH = ("sliding_window", "softmax_attention")
ATTENTION_ALONE = ["model.pattern=[gated_attention]"]

WITHOUT_ROTARY = {"gpt2", "bloom", "mpt", "gptj", "kimi_linear", "jamba"}
"""The forms whose config.json has no base: no rotary positions, or those of GPT-J, with 10,000."""
OLDER_BASES = {
    "full_attention": ("rope_theta", "global_rope_theta", "rotary_emb_base"),
    "sliding_attention": ("rope_local_base_freq", "local_rope_theta"),
}


def drawn(config: dict[str, Any]) -> Architecture:
    torch.manual_seed(0)
    model = make_model(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_transformers_reads_back_a_model_with_equal_logits(form: str, tmp_path: Path) -> None:
    config = h2h.compose("train", [*SIZE, *FORMS[form]])
    read_back(form, drawn(config), config, tmp_path)


@pytest.mark.parametrize("form", FORMS)
def test_rotary_positions_are_written_as_older_transformers_read_them_too(form: str, tmp_path: Path) -> None:
    """Bases stand beside `rope_scaling` as well, as versions before 5 read them; a file without had a default base."""
    config = h2h.compose("train", [*SIZE, *FORMS[form]])
    write_hub(drawn(config), config, tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    assert ("rope_parameters" in written) is not (form in WITHOUT_ROTARY)
    if form in WITHOUT_ROTARY:
        return
    rope = written["rope_parameters"]
    kinds = {"full_attention": rope} if "rope_theta" in rope else rope
    for kind, parameters in kinds.items():
        older = [written[name] for name in OLDER_BASES[kind] if name in written]
        assert older and all(base == parameters["rope_theta"] for base in older)
    if (fraction := rope.get("partial_rotary_factor")) is not None:
        assert {written[name] for name in ("partial_rotary_factor", "rotary_pct") if name in written} == {fraction}
    scaling = {name: value for name, value in rope.items() if name not in ("rope_theta", "partial_rotary_factor")}
    assert written.get("rope_scaling", {"rope_type": "default"}) == scaling or len(kinds) > 1


def read_back(form: str, model: Architecture, config: dict[str, Any], tmp_path: Path) -> None:
    """Raises where the model is not written in this form, or has other logits there."""
    assert write_hub(model, config, tmp_path) == form
    there = AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="eager").eval()
    tokens = torch.randint(0, 41, (2, 120), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(model(tokens), there(tokens).logits, rtol=0, atol=5e-5)
    again = open_checkpoint(f"hf:{tmp_path}")
    assert len(again.weights()) > 10 and differences(again, "language_model") == []


@pytest.mark.slow
@pytest.mark.parametrize(("form", "mixer"), [("bamba", "mamba2"), ("jamba", "mamba"), ("kimi_linear", "kimi_delta")])
def test_a_hybrid_without_attention_is_read_back_and_continues_a_text(form: str, mixer: str, tmp_path: Path) -> None:
    kinds = ("pattern", "position", "softmax_attention", "latent_attention")
    fields = [field for field in FORMS[form] if not any(kind in field for kind in kinds)]
    config = h2h.compose("train", [*SIZE, *fields, "model/position=none", f"model.pattern=[{mixer}]"])
    model = drawn(config)
    read_back(form, model, config, tmp_path)
    there, tokens = AutoModelForCausalLM.from_pretrained(tmp_path).eval(), torch.tensor([[3, 1, 4]])
    longer = there.generate(tokens, max_new_tokens=4, do_sample=False, pad_token_id=0, eos_token_id=None)
    for length in range(3, 7):
        assert longer[0, length] == model(longer[:, :length])[0, -1].argmax()


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["model/position=shaw"], r"gpt2: model\.position is Shaw, and gpt2 has Learned"),
        (["model/position=learned", "model.mixer.scale=0.5"], r"gpt2: .*mixer\.scale is 0\.5 here"),
        (["model/position=learned", "model.scale_embedding=true"], r"gpt2: embedding\.factor is"),
        ([*FORMS["mixtral"], "model.feedforward.renormalise=false"], r"mixtral: .*\.renormalise is False here"),
        ([*FORMS["llama"], "model.mixer.score_cap=1.0"], r"llama: .*mixer\.score_cap is 1\.0 here"),
        ([*FORMS["llama"], "model.logit_cap=1.0"], r"llama: head\.cap is 1\.0 here"),
        (
            [*FORMS["gemma3_text"], *(f"model.mixers.{name}.score_cap=1.0" for name in BOTH)],
            r"gemma3_text: .*mixer\.score_cap is 1\.0 here",
        ),
    ],
)
def test_a_model_that_no_form_can_say_is_refused_with_the_reason(
    overrides: list[str], sentence: str, tmp_path: Path
) -> None:
    config = h2h.compose("train", [*SIZE, *overrides])
    with pytest.raises(InexpressibleError, match=sentence):
        write_hub(drawn(config), config, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("model.mixer.eps=1e-5", r"model\.mixer\.eps=1e-05 cannot be written in the form of deepseek_v3"),
        ("model.early_feedforward.activation=relu", r"early_feedforward\.activation=relu .* supports only silu"),
        ("model/position=rotary", r"multiplied by .*, which takes a rotary scaling with factor above 1"),
        ("model/position=rotary_ntk", r"model\.position is RotaryNtk, and it has rotary, linear, yarn or llama3"),
    ],
)
def test_what_deepseek_v3_has_no_field_for_is_refused_with_ours(change: str, sentence: str) -> None:
    form = [one for one in FORMS["deepseek_v3"] if not one.startswith("model/position") or "position" not in change]
    config = h2h.compose("train", [*SIZE, *form, change])
    with pytest.raises(InexpressibleError, match=sentence):
        DeepseekV3Family().hub_config(config["model"])


def test_weights_of_experts_that_do_not_sum_to_1_are_written_as_qwen3_next(tmp_path: Path) -> None:
    config = h2h.compose("train", [*SIZE, *FORMS["qwen3_next"], "model.feedforward.renormalise=false"])
    read_back("qwen3_next", drawn(config), config, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [["model/feedforward=swiglu", "model.feedforward.bias=false"], ATTENTION_ALONE])
def test_qwen3_next_is_read_back_without_experts_and_without_delta_rules(changes: list[str], tmp_path: Path) -> None:
    left_out = "gated_delta" if changes is ATTENTION_ALONE else "model.feedforward"
    fields = [field for field in FORMS["qwen3_next"] if left_out not in field]
    config = h2h.compose("train", [*SIZE, *fields, *changes])
    read_back("qwen3_next", drawn(config), config, tmp_path)


T5 = [
    "model/position=t5_bias", "model/norm=rms_norm", "model.mixer.bias=false", "model.cross.bias=false",
    "model.mixer.scale=1.0", "model.cross.scale=1.0", "model.feedforward.bias=false", "model.scale_embedding=false",
]  # fmt: skip


@pytest.mark.parametrize("tied", [True, False])
def test_an_encoder_decoder_whose_sides_share_a_table_is_read_back_with_equal_logits(
    tied: bool, tmp_path: Path
) -> None:
    flag = str(tied).lower()
    sizes = ["model=encoder_decoder", "task=seq2seq", "data=number_words", *SIZE[3:], "model.max_target_length=128"]
    config = h2h.compose("train", [*sizes, *T5, f"model.tie_weights={flag}", f"model.scale_logits={flag}"])
    model = drawn(config)
    assert write_hub(model, config, tmp_path) == "t5"
    there = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, attn_implementation="eager").eval()
    source, target = torch.randint(0, 41, (2, 2, 120), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        ours, theirs = model(source, decoder_tokens=target), there(source, decoder_input_ids=target).logits
    torch.testing.assert_close(ours, theirs, rtol=0, atol=5e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "pattern",
    [
        ["model.num_layers=4"],
        ["model.encoder.num_layers=1", "model.encoder.feedforward_pattern=[moe]", "model.decoder.num_layers=3",
         "model.decoder.feedforward_pattern=[relu]"],
    ],
    ids=["in turn", "of each side"],
)  # fmt: skip
def test_a_switch_transformer_is_read_back_with_equal_logits(pattern: list[str], tmp_path: Path) -> None:
    sizes = ["model=switch_transformers", "task=seq2seq", "data=number_words", *SIZE, "model.max_target_length=128"]
    config = h2h.compose("train", [*sizes, *pattern])
    model = drawn(config)
    assert write_hub(model, config, tmp_path) == "switch_transformers"
    assert differences(open_checkpoint(f"hf:{tmp_path}"), "language_model") == []
    there = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, attn_implementation="eager").eval()
    source, target = torch.randint(0, 41, (2, 2, 120), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        ours, theirs = model(source, decoder_tokens=target), there(source, decoder_input_ids=target).logits
    torch.testing.assert_close(ours, theirs, rtol=0, atol=5e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["model.feedforward_pattern=[moe,relu]"], r"in the layers \[0, 2\] of the encoder, .* from the second layer"),
        (["model.feedforwards.moe.multiple=2"], "feed-forwards and experts are 64 and 128 wide"),
        (["model.feedforwards.moe.experts_per_token=2"], r"moe\.experts_per_token=2 .* supports only null or 1"),
        (["model.feedforwards.relu.gated=true"], r"feedforwards\.relu\.gated=True .* supports only False"),
        (["model.tie_weights=false"], r"tie_weights=False .* supports only True"),
        (["model.scale_logits=false"], r"scale_logits=False .* supports only True"),
    ],
)
def test_what_switch_transformers_have_no_field_for_is_refused_with_ours(changes: list[str], message: str) -> None:
    sizes = ["model=switch_transformers", "task=seq2seq", "data=number_words", *SIZE, "model.max_target_length=128"]
    config = h2h.compose("train", [*sizes, "model.num_layers=4", *changes])
    with pytest.raises(InexpressibleError, match=message):
        SwitchTransformersFamily().hub_config(config["model"])


FEW = "data.num_train=500"


@pytest.mark.slow
def test_an_encoder_that_no_form_can_say_is_compared_with_encoders(tmp_path: Path) -> None:
    config, _ = fitted(h2h.compose("train", ["model=encoder_only", "task=masked_lm", "model/mixer=nystrom", FEW]))
    with pytest.raises(InexpressibleError, match=r"represent this model \(bert: (?!.*DecoderOnly)"):
        write_hub(make_model(config), config, tmp_path / "out")


READY_MADE = {
    "bamba": [],
    "fnet": ["task=masked_lm"],
    "jamba": [],
    "kimi_linear": [],
    "modernbert": ["task=masked_lm"],
    "switch_transformers": ["task=seq2seq", "data=number_words"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", READY_MADE)
def test_a_ready_made_model_of_a_published_form_is_written_as_it_ships(name: str, tmp_path: Path) -> None:
    config, _ = fitted(
        h2h.compose("train", [f"model={name}", "model/size=tiny", "model.num_layers=4", *READY_MADE[name], FEW])
    )
    assert write_hub(make_model(config), config, tmp_path) == name


BASELINES = {
    "recurrent": [FEW],
    "text_cnn": ["task=classification", "data=sentence_grammar", FEW],
    "cnn": ["task=image_classification", "data=digits"],
    "resnet": ["task=image_classification", "data=digits"],
    "recurrent_encoder_decoder": ["task=seq2seq", "data=number_words", FEW],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_is_refused_with_a_reason(name: str, tmp_path: Path) -> None:
    config, _ = fitted(h2h.compose("train", [f"model={name}", *BASELINES[name]]))
    with pytest.raises(InexpressibleError, match="no form of the hub can represent this"):
        write_hub(make_model(config), config, tmp_path / "out")


@pytest.mark.parametrize("kind", ["char", "byte", "bpe"])
def test_the_tokenizer_goes_along(kind: str, tmp_path: Path) -> None:
    overrides = ["data=text", f"data.path={write_text(tmp_path)}", f"data.tokenizer={kind}", "data.documents=line"]
    composed = h2h.compose("train", [*overrides, *SIZE[:3], *FORMS["gpt2"]])
    data = h2h.build_parts(composed).data
    assert isinstance(data, TextSource)
    config, _ = fitted(composed)
    write_hub(drawn(config), config, tmp_path / "out", tokenizer=data.tokenizer_facts())
    there, line = AutoTokenizer.from_pretrained(tmp_path / "out"), TEXT.splitlines()[1]
    assert there(line, add_special_tokens=False)["input_ids"] == data.tokenizer.encode([line])[0].tolist()
    assert there.decode(there(line, add_special_tokens=False)["input_ids"]) == line
    assert (there.bos_token_id, there.eos_token_id) == (data.spec().bos_id, data.spec().eos_id)


LLAMA_SIZES: dict[str, Any] = {
    "vocab_size": 512, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3,
    "max_position_embeddings": 600,
}  # fmt: skip


@pytest.mark.parametrize(
    ("form", "reference", "task"),
    [
        ("llama", LlamaForCausalLM(LlamaConfig(**LLAMA_SIZES)), ["task=causal_lm", "data=grammar_lm"]),
        ("roberta", RobertaForMaskedLM(RobertaConfig(**LLAMA_SIZES)), ["task=masked_lm", "data=grammar_lm"]),
    ],
)
def test_a_checkpoint_goes_out_in_the_form_it_came_in_and_as_long(
    form: str, reference: PreTrainedModel, task: list[str], tmp_path: Path
) -> None:
    reference.save_pretrained(tmp_path / "in")
    config, _ = fitted(h2h.compose("train", [*task, f"init_from=hf:{tmp_path / 'in'}", "model.dropout=0", FEW]))
    assert write_hub(drawn(config), config, tmp_path / "out") == form
    if form == "llama":
        assert open_checkpoint(f"hf:{tmp_path / 'out'}").config["max_position_embeddings"] == 600


@pytest.mark.parametrize("model", ["decoder_only", "encoder_only", "encoder_decoder", "vision_transformer"])
def test_every_form_says_a_model_or_refuses_it_whatever_its_family(model: str) -> None:
    task = {"encoder_only": "masked_lm", "encoder_decoder": "seq2seq", "vision_transformer": "image_classification"}
    data = {"encoder_decoder": ["data=copy", "data.form=pairs"], "vision_transformer": ["data=digits"]}
    overrides = [f"model={model}", f"task={task.get(model, 'causal_lm')}", *data.get(model, [FEW])]
    config, _ = fitted(h2h.compose("train", overrides))
    for family in FAMILIES:
        try:
            assert family.hub_config(config["model"])
        except InexpressibleError as refusal:
            assert str(refusal)

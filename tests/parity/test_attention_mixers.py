"""Mixers of newer published models against their own in transformers, attention and recurrences: outputs, and gradients
of the inputs and of every weight."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from transformers.models.deepseek_v3 import modeling_deepseek_v3
from transformers.models.diffllama import modeling_diffllama
from transformers.models.gpt_oss import modeling_gpt_oss
from transformers.models.kimi_linear import modeling_kimi_linear
from transformers.models.lfm2 import modeling_lfm2
from transformers.models.minimax import modeling_minimax
from transformers.models.nystromformer import modeling_nystromformer
from transformers.models.qwen3_next import modeling_qwen3_next
from transformers.models.xlstm import modeling_xlstm

from headtohead.components.component import Context, Mixer
from headtohead.components.mixers.attention.differential_attention import DifferentialAttention
from headtohead.components.mixers.attention.gated_attention import GatedAttention
from headtohead.components.mixers.attention.latent_attention import LatentAttention, LatentWidths
from headtohead.components.mixers.attention.nystrom import Nystrom
from headtohead.components.mixers.attention.sink_attention import SinkAttention
from headtohead.components.mixers.attention.softmax_attention import AttentionHeads
from headtohead.components.mixers.convolution.gated_short_conv import GatedShortConvolution
from headtohead.components.mixers.linear.delta_rule import DeltaShape
from headtohead.components.mixers.linear.gated_delta import GatedDelta
from headtohead.components.mixers.linear.kimi_delta import KimiDelta
from headtohead.components.mixers.linear.lightning_attention import LightningAttention
from headtohead.components.mixers.linear.mlstm import Mlstm
from headtohead.components.positions.rotary import Rotary, RotatedPairs
from parity.parity import REPORTS, TOLERANCE, Errors, Report, exactly, redraw

D_MODEL, NUM_HEADS, NUM_KV_HEADS, HEAD_WIDTH, LENGTH = 24, 4, 2, 6, 13
Parameters = Mapping[str, Tensor]
Weights = dict[str, Tensor]


def plain(params: Parameters, *names: str) -> Weights:
    """Return the projections that have one name there and one here."""
    pairs = (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj"), ("output", "o_proj"))
    parts = [(ours, theirs) for ours, theirs in pairs if not names or ours in names]
    kinds = ("weight", "bias")
    return {f"{a}.{kind}": params[f"{b}.{kind}"] for a, b in parts for kind in kinds if f"{b}.{kind}" in params}


def gated(params: Parameters) -> Weights:
    """Return the weights of Qwen3-Next's attention, whose queries and gates alternate by head."""
    query, gate = params["q_proj.weight"].view(NUM_HEADS, 2, HEAD_WIDTH, D_MODEL).unbind(1)
    own = {"query.weight": query.flatten(0, 1), "gate.weight": gate.flatten(0, 1)}
    norms = {f"{ours}_norm.weight": params[f"{theirs}_norm.weight"] for ours, theirs in (("query", "q"), ("key", "k"))}
    return {**plain(params, "key", "value", "output"), **own, **norms}


def with_sinks(params: Parameters) -> Weights:
    return {**plain(params), "sink": params["sinks"]}


def differential(params: Parameters) -> Weights:
    rows = (torch.stack((params[f"lambda_q{i}"], params[f"lambda_k{i}"])) for i in (1, 2))
    return {**plain(params), "lambdas": torch.stack(tuple(rows))}


def latent(params: Parameters) -> Weights:
    """Return DeepSeek's weights, with the rotated part of every query first, and keys and values apart."""
    query = params["q_b_proj.weight"].view(NUM_HEADS, -1, params["q_b_proj.weight"].shape[1])
    content, rotated = query.split((query.shape[1] - HEAD_WIDTH, HEAD_WIDTH), dim=1)
    latents, shared = params["kv_a_proj_with_mqa.weight"].split((7, HEAD_WIDTH))
    key, value = params["kv_b_proj.weight"].view(NUM_HEADS, -1, 7).split((content.shape[1], 5), dim=1)
    return {
        "query_down.weight": params["q_a_proj.weight"],
        "query_latent_norm.weight": params["q_a_layernorm.weight"],
        "query.weight": torch.cat((rotated, content), dim=1).flatten(0, 1),
        "value.weight": latents,
        "key.weight": shared,
        "latent_norm.weight": params["kv_a_layernorm.weight"],
        "key_up.weight": key.flatten(0, 1),
        "value_up.weight": value.flatten(0, 1),
        "output.weight": params["o_proj.weight"],
    }


def gated_delta(params: Parameters) -> Weights:
    """Return Qwen3-Next's weights, which alternate by head: query, key, value, gate; and rate, decay."""
    by_head = params["in_proj_qkvz.weight"].view(NUM_HEADS, -1, D_MODEL)
    parts = by_head.split((HEAD_WIDTH, HEAD_WIDTH, 2 * HEAD_WIDTH, 2 * HEAD_WIDTH), dim=1)
    names = ("query", "key", "value", "gate")
    rate, decay = params["in_proj_ba.weight"].view(NUM_HEADS, 2, D_MODEL).unbind(1)
    return {
        **{f"{name}.weight": part.flatten(0, 1) for name, part in zip(names, parts, strict=True)},
        "rate.weight": rate,
        "decay.weight": decay,
        "decay_bias": params["dt_bias"],
        "log_strength": params["A_log"],
        "conv.weight": params["conv1d.weight"],
        "norm.weight": params["norm.weight"],
        "output.weight": params["out_proj.weight"],
    }


def kimi_delta(params: Parameters) -> Weights:
    narrow = {"decay_down": "forget_gate.f_a_proj", "decay_up": "forget_gate.f_b_proj", "gate_down": "g_a_proj"}
    others = {"gate_up": "g_b_proj", "rate": "b_proj", "conv": "conv1d", "norm": "o_norm"}
    return {
        **plain(params),
        **{f"{ours}.weight": params[f"{theirs}.weight"] for ours, theirs in {**narrow, **others}.items()},
        "decay_bias": params["forget_gate.dt_bias"],
        "log_strength": params["forget_gate.A_log"].flatten(),
    }


def gated_short_conv(params: Parameters) -> Weights:
    return {
        "weight": params["conv.weight"].squeeze(1),
        "bias": params["conv.bias"],
        **{f"input.{kind}": params[f"in_proj.{kind}"] for kind in ("weight", "bias")},
        **{f"output.{kind}": params[f"out_proj.{kind}"] for kind in ("weight", "bias")},
    }


def lightning(params: Parameters) -> Weights:
    """Return MiniMax's weights, of which queries, keys and values alternate by head."""
    maps = params["attention.qkv_proj.weight"].view(NUM_HEADS, 3, HEAD_WIDTH, D_MODEL).unbind(1)
    others = {"gate": "output_gate", "norm": "norm", "output": "out_proj"}
    return {
        **{f"{name}.weight": part.flatten(0, 1) for name, part in zip(("query", "key", "value"), maps, strict=True)},
        **{f"{ours}.weight": params[f"attention.{theirs}.weight"] for ours, theirs in others.items()},
    }


def mlstm(params: Parameters) -> Weights:
    names = {"query": "q", "key": "k", "value": "v", "output_gate": "ogate_preact", "output": "out_proj"}
    gates = ("layer.igate_preact", "layer.fgate_preact")
    return {
        **{f"{ours}.weight": params[f"layer.{theirs}.weight"] for ours, theirs in names.items()},
        "gate_weight": torch.cat([params[f"{gate}.weight"] for gate in gates]),
        **{f"{ours}_bias": params[f"{gate}.bias"] for ours, gate in zip(("input", "forget"), gates, strict=True)},
        "norm_weight": params["layer.multihead_norm.weight"],
    }


def nystrom(params: Parameters) -> Weights:
    names = {"query": "self.query", "key": "self.key", "value": "self.value", "output": "output"}
    maps = {f"{a}.{kind}": params[f"{b}.{kind}"] for a, b in names.items() for kind in ("weight", "bias")}
    return {**maps, "conv.weight": params["self.conv.weight"]}


SIZES = {
    "hidden_size": D_MODEL,
    "num_attention_heads": NUM_HEADS,
    "num_key_value_heads": NUM_KV_HEADS,
    "head_dim": HEAD_WIDTH,
    "attn_implementation": "eager",
}
GROUPED = AttentionHeads(num_kv_heads=NUM_KV_HEADS)


@dataclass(frozen=True)
class MixerCase:
    """A reference, our mixer, and how the weights of one become those of the other."""

    reference: Callable[[], nn.Module]
    mixer: Callable[[], Mixer]
    translated: Callable[[Parameters], Weights]
    added: Mapping[str, float] | None = None
    """The amounts that the reference adds to a weight when it computes, by the names of ours."""
    half_angles: bool = False
    """Whether it takes one cosine for each pair instead of one for each channel."""
    pairing: str = "half"
    reads_tokens_alone: bool = False
    """Whether the reference takes neither angles nor a mask, and returns its outputs alone."""
    shape: tuple[int, int] = (2, LENGTH)
    """Rows and tokens: one row where the reference lets rows change each other's outputs."""


def deepseek(*, interleaved: bool) -> nn.Module:
    config = modeling_deepseek_v3.DeepseekV3Config(
        **{**SIZES, "num_key_value_heads": NUM_HEADS},
        q_lora_rank=9,
        kv_lora_rank=7,
        qk_rope_head_dim=HEAD_WIDTH,
        qk_nope_head_dim=8,
        v_head_dim=5,
        rope_interleave=interleaved,
    )
    return modeling_deepseek_v3.DeepseekV3Attention(config, 0)


def qwen_delta() -> nn.Module:
    config = modeling_qwen3_next.Qwen3NextConfig(
        **SIZES,
        linear_num_value_heads=NUM_HEADS,
        linear_num_key_heads=NUM_HEADS,
        linear_key_head_dim=HEAD_WIDTH,
        linear_value_head_dim=2 * HEAD_WIDTH,
        rms_norm_eps=1e-5,
    )
    return modeling_qwen3_next.Qwen3NextGatedDeltaNet(config, 0)


def kimi() -> nn.Module:
    config = modeling_kimi_linear.KimiLinearConfig(
        **{**SIZES, "num_key_value_heads": NUM_HEADS},
        linear_num_heads=NUM_HEADS,
        linear_head_dim=HEAD_WIDTH,
        rms_norm_eps=1e-5,
    )
    return modeling_kimi_linear.KimiLinearDeltaAttention(config, 0)


def lfm2() -> nn.Module:
    return modeling_lfm2.Lfm2ShortConv(modeling_lfm2.Lfm2Config(hidden_size=D_MODEL, conv_bias=True), 0)


class NystromWithOutput(nn.Module):
    """The attention of Nyströmformer, which knows rows of one length that its landmarks divide, and the map behind."""

    def __init__(self) -> None:
        super().__init__()
        config = modeling_nystromformer.NystromformerConfig(
            hidden_size=D_MODEL,
            num_attention_heads=NUM_HEADS,
            segment_means_seq_len=12,
            num_landmarks=4,
            conv_kernel_size=5,
        )
        self.self = modeling_nystromformer.NystromformerSelfAttention(config)
        self.output = nn.Linear(D_MODEL, D_MODEL)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.output(self.self(x)[0])
        return y


class LightningAlone(nn.Module):
    """The lightning attention of one of MiniMax's six layers, which differ in their rates of decay, in blocks of 5."""

    def __init__(self, layer: int) -> None:
        super().__init__()
        config = modeling_minimax.MiniMaxConfig(
            **SIZES, num_hidden_layers=6, layer_types=["linear_attention"] * 6, block_size=5
        )
        self.attention = modeling_minimax.MiniMaxLightningAttention(config, layer)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.attention(x, None, None)[0]
        return y


class MlstmAlone(nn.Module):
    """The mixer of xLSTM 7B with queries as wide as values, a cap that no gate comes near and no eps in its normaliser,
    in chunks of 4, which divide its rows."""

    def __init__(self) -> None:
        super().__init__()
        config = modeling_xlstm.xLSTMConfig(
            hidden_size=D_MODEL,
            num_heads=NUM_HEADS,
            qk_dim_factor=1.0,
            gate_soft_cap=1e12,
            eps=0.0,
            norm_eps=1e-5,
            chunk_size=4,
            autocast_kernel_dtype="float32",
            mode="train",
            return_last_states=True,
        )
        self.layer = modeling_xlstm.xLSTMLayer(config)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x)[0]
        return y


def minimax(layer: int) -> MixerCase:
    slope = 1 - layer / (5 + 1e-5) + 1e-5
    ours = partial(LightningAttention, D_MODEL, num_heads=NUM_HEADS, causal=True, slope=slope)
    return MixerCase(partial(LightningAlone, layer), ours, lightning, reads_tokens_alone=True)


WIDTHS = LatentWidths(latent_width=7, query_latent_width=9, content_width=8, value_width=5)
LATENT = partial(LatentAttention, D_MODEL, num_heads=NUM_HEADS, causal=True, widths=WIDTHS)
CASES = {
    "qwen3_next": MixerCase(
        lambda: modeling_qwen3_next.Qwen3NextAttention(modeling_qwen3_next.Qwen3NextConfig(**SIZES), 0),
        lambda: GatedAttention(
            D_MODEL,
            num_heads=NUM_HEADS,
            causal=True,
            heads=AttentionHeads(num_kv_heads=NUM_KV_HEADS, bias=False, qk_norm=True),
        ),
        gated,
        added={"query_norm.weight": 1.0, "key_norm.weight": 1.0},
    ),
    "gpt_oss": MixerCase(
        lambda: modeling_gpt_oss.GptOssAttention(
            modeling_gpt_oss.GptOssConfig(**SIZES, layer_types=["full_attention"], num_hidden_layers=1), 0
        ),
        lambda: SinkAttention(D_MODEL, num_heads=NUM_HEADS, causal=True, heads=GROUPED),
        with_sinks,
        half_angles=True,
    ),
    "diffllama": MixerCase(
        lambda: modeling_diffllama.DiffLlamaAttention(
            modeling_diffllama.DiffLlamaConfig(**SIZES, attention_bias=True), 0
        ),
        lambda: DifferentialAttention(D_MODEL, num_heads=NUM_HEADS, causal=True, heads=GROUPED, subtracted=0.2),
        differential,
    ),
    "deepseek_v3": MixerCase(partial(deepseek, interleaved=False), LATENT, latent),
    "qwen3_next, gated delta": MixerCase(
        qwen_delta,
        lambda: GatedDelta(D_MODEL, num_heads=NUM_HEADS, causal=True, shape=DeltaShape(value_ratio=2.0)),
        gated_delta,
        reads_tokens_alone=True,
    ),
    "kimi_linear": MixerCase(
        kimi, lambda: KimiDelta(D_MODEL, num_heads=NUM_HEADS, causal=True), kimi_delta, reads_tokens_alone=True
    ),
    "lfm2": MixerCase(
        lfm2,
        lambda: GatedShortConvolution(D_MODEL, num_heads=NUM_HEADS, causal=True, bias=True),
        gated_short_conv,
        reads_tokens_alone=True,
    ),
    "nystromformer": MixerCase(
        NystromWithOutput,
        lambda: Nystrom(D_MODEL, num_heads=NUM_HEADS, causal=False, landmarks=4, conv=5),
        nystrom,
        reads_tokens_alone=True,
        shape=(1, 12),
    ),
    "xlstm": MixerCase(
        MlstmAlone,
        lambda: Mlstm(D_MODEL, num_heads=NUM_HEADS, causal=True),
        mlstm,
        reads_tokens_alone=True,
        shape=(2, 12),
    ),
    "minimax, first layer": minimax(0),
    "minimax, fourth layer": minimax(3),
    "deepseek_v3, interleaved": MixerCase(partial(deepseek, interleaved=True), LATENT, latent, pairing="interleaved"),
}


def encoding_of(case: MixerCase) -> Rotary:
    pairs = RotatedPairs(pairing=case.pairing)  # type: ignore[arg-type]
    return Rotary(D_MODEL, num_heads=NUM_HEADS, max_length=None, causal=True, pairs=pairs)


def with_angles(case: MixerCase, reference: nn.Module, x: Tensor, positions: Tensor) -> Tensor:
    half = RotatedPairs(pairing="half")
    angles = Rotary(D_MODEL, num_heads=NUM_HEADS, max_length=None, causal=True, pairs=half).rotation(positions, x.dtype)
    cos, sin = (part[:, 0, :, : HEAD_WIDTH // 2] if case.half_angles else part[:, 0] for part in angles)
    ahead = torch.full((LENGTH, LENGTH), float("-inf"), dtype=x.dtype).triu(1)[None, None]
    y: Tensor = reference(x, (cos, sin), ahead)[0]
    return y


def differences(case: MixerCase, dtype: torch.dtype) -> Errors:
    with exactly(dtype):
        reference = case.reference().to(dtype).train()
        redraw(reference)
        mixer = case.mixer().to(dtype)
        weights = case.translated(dict(reference.named_parameters()))
        assert weights.keys() == dict(mixer.named_parameters()).keys()
        with torch.no_grad():
            for name, parameter in mixer.named_parameters():
                parameter.copy_(weights[name] + (case.added or {}).get(name, 0.0))
        generator = torch.Generator().manual_seed(1)
        x, toward = (torch.randn(*case.shape, D_MODEL, generator=generator, dtype=torch.float64) for _ in range(2))
        ours, theirs = (x.to(dtype).requires_grad_() for _ in range(2))
        positions = torch.arange(case.shape[1])[None]
        encoding = encoding_of(case)
        rotation = encoding.rotation(positions, dtype)
        y = mixer(ours, Context(causal=True, positions=positions, encoding=encoding, rotation=rotation))
        expected = reference(theirs) if case.reads_tokens_alone else with_angles(case, reference, theirs, positions)
        for output in (y, expected):
            (output * toward.to(dtype)).sum().backward()
    translated = case.translated({name: p.grad for name, p in reference.named_parameters() if p.grad is not None})
    pairs = [(ours.grad, theirs.grad), *((p.grad, translated[name]) for name, p in mixer.named_parameters())]
    worst = max(
        float((one - other).abs().max() / other.abs().max().clamp(min=1.0))
        for one, other in pairs
        if one is not None and other is not None
    )
    assert all(one is not None and other is not None for one, other in pairs)
    return Errors(float((y - expected).detach().abs().max()), worst)


@pytest.mark.parametrize("name", CASES)
def test_a_mixer_is_the_attention_of_its_model(name: str) -> None:
    by_type = {dtype: differences(CASES[name], dtype) for dtype in (torch.float64, torch.float32)}
    for dtype, errors in by_type.items():
        assert max(errors.logits, errors.gradients) <= TOLERANCE[dtype]
    weights = [weight.numel() for weight in CASES[name].mixer().parameters()]
    reference = CASES[name].reference()
    inside = [type(part).__name__ for part in reference.children()]
    reference_name = inside[0] if type(reference).__module__ == __name__ else type(reference).__name__
    REPORTS.append(Report(name, reference_name, by_type, len(weights), sum(weights), "the mixer alone"))

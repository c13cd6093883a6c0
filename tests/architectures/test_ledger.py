"""The ledger's totals against parameters counted by torch and formulas written down from the papers."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
import yaml

from from_fields import from_fields
from headtohead.architectures.architecture import InputSize
from headtohead.architectures.encoder_decoder import EncoderOrDecoder
from headtohead.architectures.head_names import HeadName
from headtohead.architectures.ledger import ledger
from headtohead.architectures.token_stack import DecoderOnly
from headtohead.components.feedforwards import DenseFeedForward
from headtohead.components.initialisations import gpt2
from headtohead.components.mixers.attention.softmax_attention import AttentionHeads, SoftmaxAttention
from headtohead.components.norms import LayerNorm
from headtohead.components.positions.absolute import Learned
from headtohead.components.residuals import PreNorm
from small_models import FAMILIES, SIZE, VOCAB_SIZE, small_model

OF_TEXT = set(get_args(HeadName)) - {"pixel_decoder"}
SIZES = Path(__file__).resolve().parents[2] / "conf" / "model" / "size"


def size(name: str) -> dict[str, int]:
    return yaml.safe_load((SIZES / f"{name}.yaml").read_text())


def gpt(**changes: Any) -> DecoderOnly:
    """Build GPT-2 as published, on the meta device."""
    choices: dict[str, Any] = {
        "mixer": SoftmaxAttention,
        "position": Learned,
        "norm": LayerNorm,
        "residual": PreNorm,
        "feedforward": DenseFeedForward,
        "initialisation": gpt2,
        "vocab_size": 50257,
        "max_length": 1024,
    }
    with torch.device("meta"):
        return from_fields(DecoderOnly, **{**choices, **changes})


def test_gpt2_small_has_124_million_parameters() -> None:
    model = gpt(**size("gpt2_small"))
    totals = ledger(model, InputSize(length=1024)).totals
    assert totals.parameters == sum(p.numel() for p in model.parameters()) == 124_439_808
    assert totals.non_embedding_parameters == 124_439_808 - 50257 * 768 - 1024 * 768


def test_gpt2_medium_has_355_million_parameters() -> None:
    assert ledger(gpt(**size("gpt2_medium")), InputSize(length=1024)).totals.parameters == 354_823_168


def test_flops_of_gpt2_small_follow_the_formulas_by_hand() -> None:
    totals = ledger(gpt(**size("gpt2_small")), InputSize(length=1024)).totals
    d, n, v, layers = 768, 1024, 50257, 12
    # Projections 8d^2, causal scores and values 2(n+1)d, feed-forward 16d^2, head 2dV.
    forward = layers * (8 * d**2 + 2 * (n + 1) * d + 16 * d**2) + 2 * d * v
    assert totals.forward_flops_per_token == forward
    assert totals.training_flops_per_token == 3 * forward
    biases_and_norms = layers * (9 * d + 4 * d) + 2 * d
    palm = 6 * (12 * layers * d**2 + biases_and_norms + d * v) + 12 * layers * d * n
    assert totals.palm_flops_per_token == palm
    assert totals.state_elements == 2 * layers * n * d


@pytest.mark.slow
def test_seventy_billion_parameters_take_seconds() -> None:
    started = time.process_time()
    swiglu = partial(DenseFeedForward, multiple=3.5, activation="silu", gated=True, bias=False)
    grouped = partial(SoftmaxAttention, heads=AttentionHeads(num_kv_heads=8, bias=False))
    model = gpt(d_model=8192, num_layers=80, num_heads=64, mixer=grouped, feedforward=swiglu, vocab_size=128256)
    totals = ledger(model, InputSize(length=8192, bytes_per_element=2)).totals
    assert 69e9 < totals.parameters < 71e9
    assert time.process_time() - started < 10


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tie", [True, False])
def test_parameters_are_those_that_torch_counts(family: str, tie: bool) -> None:
    changes = {} if family == "vision_transformer" else {"tie_weights": tie, "scale_embedding": tie}
    model = small_model(family, **changes)
    totals = ledger(model, SIZE).totals
    assert totals.parameters == totals.active_parameters == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("family", "head"),
    [
        *(("decoder_only", head) for head in sorted(OF_TEXT - {"replaced_token_detector"})),
        *(("encoder_only", head) for head in sorted(OF_TEXT)),
    ],
)
def test_every_head_is_in_the_ledger_with_the_parameters_that_torch_counts(family: str, head: str) -> None:
    model = small_model(family, head=head, num_classes=3, tie_weights=False)
    totals = ledger(model, SIZE).totals
    assert totals.parameters == totals.active_parameters == sum(p.numel() for p in model.parameters())


def test_a_head_over_few_scored_positions_costs_less_unless_it_reads_them_all() -> None:
    """The FLOPs of the head alone are 2 x inputs x outputs for every row."""
    d = 16
    dense, vocabulary, pair = 2 * d * d, 2 * d * VOCAB_SIZE, 2 * d * d + 2 * d * 2
    expected = {
        "language_model": 4 * vocabulary,
        "multi_token_language_model": 4 * vocabulary,
        "masked_language_model": 4 * (dense + vocabulary),
        "masked_language_model_and_pair": 4 * (dense + vocabulary) + pair,
        "classifier": 2 * d * 3,
        "regressor": 2 * d,
        "text_vector": 0,
        "tagger": 4 * 2 * d * 3,
        "span": SIZE.length * 2 * d * 2,
        "reconstruction": SIZE.length * (2 * dense + vocabulary),
        "replaced_token_detector": SIZE.length * (dense + 2 * d),
    }
    assert expected.keys() == OF_TEXT
    for name, flops in expected.items():
        model = small_model("encoder_only", head=name, num_classes=3)
        rows = ledger(model, replace(SIZE, scored=4)).rows
        assert sum(row.costs.forward_flops for row in rows if row.path.startswith("head")) == flops, name


@pytest.mark.parametrize("family", ["decoder_only", "encoder_only", "encoder_decoder"])
def test_tying_changes_no_figure_but_the_parameters(family: str) -> None:
    tied, untied = (ledger(small_model(family, tie_weights=tie), SIZE).totals for tie in (True, False))
    assert untied.parameters - tied.parameters == VOCAB_SIZE * 16
    assert tied.non_embedding_parameters == untied.non_embedding_parameters
    assert tied.training_flops_per_token == untied.training_flops_per_token
    assert tied.palm_flops_per_token == untied.palm_flops_per_token


def test_two_tables_are_two_embeddings() -> None:
    shared, apart = (ledger(small_model("encoder_decoder", share_embeddings=s), SIZE).totals for s in (True, False))
    assert apart.parameters - shared.parameters == VOCAB_SIZE * 16
    assert apart.non_embedding_parameters == shared.non_embedding_parameters


def test_source_and_target_tokens_of_an_encoder_decoder_are_billed_apart() -> None:
    model = small_model(
        "encoder_decoder", encoder=EncoderOrDecoder(num_layers=3), decoder=EncoderOrDecoder(num_layers=2)
    )
    d, source, target = 16, SIZE.length, SIZE.decoder_length
    encoder = 3 * (8 * d**2 + 4 * source * d + 16 * d**2)
    memory = 2 * 4 * d**2
    decoder = 2 * (8 * d**2 + 2 * (target + 1) * d + 4 * d**2 + 4 * source * d + 16 * d**2) + 2 * d * VOCAB_SIZE
    costs = ledger(model, SIZE)
    assert costs.flops_by_side() == {"source": 3 * (encoder + memory), "target": 3 * decoder}
    total = source * (encoder + memory) + target * decoder
    assert costs.totals.forward_flops_per_token == total / (source + target)
    assert costs.totals.palm_flops_per_token is None


def test_only_what_decodes_carries_a_state() -> None:
    d, layers = 16, 2
    states = {family: ledger(small_model(family), SIZE).totals.state_elements for family in FAMILIES}
    own, memory = 2 * layers * SIZE.decoder_length * d, 2 * layers * SIZE.length * d
    assert states == {
        "decoder_only": 2 * layers * SIZE.length * d,
        "encoder_only": 0,
        "encoder_decoder": own + memory,
        "vision_transformer": 0,
    }


def test_one_sided_models_have_no_sides() -> None:
    assert ledger(small_model("encoder_only"), SIZE).flops_by_side() == {}


def test_a_first_patch_layer_needs_no_gradient_of_its_input() -> None:
    costs = ledger(small_model("vision_transformer"), SIZE)
    rows = {row.path: row.costs for row in costs.rows}
    patches = 16 * 2 * (2 * 2 * 3) * 16
    assert (rows["patches"].forward_flops, rows["patches"].training_flops) == (patches, 2 * patches)
    others = costs.totals.forward_flops_per_sample - patches
    assert costs.totals.training_flops_per_sample == 3 * others + 2 * patches
    assert costs.tokens == 17


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_add_up_to_the_totals_and_kinds_to_the_rows(family: str) -> None:
    costs = ledger(small_model(family), SIZE)
    for name in ("parameters", "state_elements", "activation_bytes"):
        assert sum(getattr(row.costs, name) for row in costs.rows) == getattr(costs.totals, name)
        assert sum(getattr(kind, name) for kind in costs.by_kind().values()) == getattr(costs.totals, name)
    assert {"mixer", "feedforward"} <= costs.by_kind().keys()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_ledger_is_plain_numbers(family: str) -> None:
    costs = ledger(small_model(family), SIZE)
    plain = json.loads(json.dumps(costs.to_dict()))
    assert plain["totals"]["parameters"] == costs.totals.parameters
    assert len(plain["rows"]) == len(costs.rows)


def test_paths_of_the_ledger_name_modules_of_the_model() -> None:
    for family in FAMILIES:
        model = small_model(family)
        modules, parameters = (named(remove_duplicate=False) for named in (model.named_modules, model.named_parameters))
        known = {name for name, _ in (*modules, *parameters)}
        paths = {row.path.removesuffix(".memory") for row in ledger(model, SIZE).rows}
        assert paths - {"decoder.memory", "encoder.dropout", "decoder.dropout", "stack.dropout"} <= known


def test_an_empty_sample_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one token, got length=0"):
        ledger(small_model("decoder_only"), InputSize())

"""Counting by the dispatcher: right on its own, and equal to what the families declare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from headtohead.architectures.architecture import Architecture, InputSize
from headtohead.architectures.ledger import Totals, ledger
from headtohead.architectures.operation_counter import Counts, counting, saved_bytes
from headtohead.components.feedforwards import DenseFeedForward
from headtohead.components.mixers.attention import fused_attention
from headtohead.components.mixers.attention.softmax_attention import AttentionHeads, SoftmaxAttention
from headtohead.components.mixers.attention.softmax_cross_attention import SoftmaxCrossAttention
from headtohead.components.positions.absolute import Learned
from headtohead.components.positions.image_positions import Rotary2d, Sinusoidal2d
from headtohead.components.positions.rotary import Rotary
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataSpec
from headtohead.tasks.masked_lm import MaskedLanguageModelling
from headtohead.tasks.next_sentence import MaskedLanguageModellingWithNextSentence
from headtohead.tasks.similarity import Similarity
from headtohead.tasks.span_qa import SpanQuestionAnswering
from headtohead.tasks.tagging import Tagging
from headtohead.tasks.task import Task
from small_batches import (
    LANGUAGE,
    NEXT,
    QUESTIONS,
    SCORES,
    TAGS,
    language_batch,
    question_batch,
    scored_batch,
    sentence_pair_batch,
    tagged_batch,
)
from small_models import SIZE, small_model

CPU = torch.device("cpu")
grouped = partial(SoftmaxAttention, heads=AttentionHeads(num_kv_heads=1, qk_norm=True))
swiglu = partial(DenseFeedForward, activation="silu", gated=True)
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "decoder_only": ("decoder_only", {"position": Rotary}),
    "decoder_only, untied, grouped, gated": (
        "decoder_only",
        {"tie_weights": False, "head_bias": True, "mixer": grouped, "feedforward": swiglu, "scale_embedding": True},
    ),
    "decoder_only, another feed-forward in the first layer": (
        "decoder_only",
        {"early_feedforward": swiglu, "num_early_layers": 1},
    ),
    "decoder_only, two feed-forwards in turn": (
        "decoder_only",
        {"feedforward_pattern": ["gated", "plain"], "feedforwards": {"gated": swiglu, "plain": DenseFeedForward}},
    ),
    "decoder_only, classifier": ("decoder_only", {"head": "classifier", "num_classes": 3}),
    "encoder_only": ("encoder_only", {"position": Learned}),
    "encoder_only, no first norm, a head without bias": (
        "encoder_only",
        {"embedding_norm": True, "first_norm": False, "head_dense_bias": False, "position": Rotary},
    ),
    "encoder_only, classifier, mean": ("encoder_only", {"head": "classifier", "num_classes": 3, "pooling": "mean"}),
    "encoder_only, classifier with a layer": (
        "encoder_only",
        {"head": "classifier", "num_classes": 3, "pooler": "gelu_tanh"},
    ),
    "encoder_only, another activation in the head": ("encoder_only", {"head_activation": "tanh"}),
    "encoder_only, tagger": ("encoder_only", {"head": "tagger", "num_classes": 3}),
    "decoder_only, tagger": ("decoder_only", {"head": "tagger", "num_classes": 3}),
    "encoder_only, regressor": ("encoder_only", {"head": "regressor"}),
    "decoder_only, regressor": ("decoder_only", {"head": "regressor"}),
    "encoder_only, text vector": ("encoder_only", {"head": "text_vector"}),
    "encoder_only, text vector with a layer": ("encoder_only", {"head": "text_vector", "pooler": "tanh"}),
    "encoder_only, span": ("encoder_only", {"head": "span"}),
    "decoder_only, span": ("decoder_only", {"head": "span"}),
    "decoder_only, looped": ("decoder_only", {"loops": 3, "position": Rotary}),
    "encoder_decoder, looped": ("encoder_decoder", {"loops": 2}),
    "encoder_only, narrow embeddings": (
        "encoder_only",
        {"embedding_width": 6, "embedding_norm": True, "position": Learned},
    ),
    "encoder_only, norm after the embedding": ("encoder_only", {"embedding_norm": True}),
    "encoder_decoder": ("encoder_decoder", {}),
    "encoder_decoder, scaled, heads of another width": (
        "encoder_decoder",
        {
            "scale_logits": True,
            "mixer": partial(SoftmaxAttention, heads=AttentionHeads(head_width=5)),
            "cross": partial(SoftmaxCrossAttention, head_width=5),
        },
    ),
    "encoder_decoder, two tables": ("encoder_decoder", {"share_embeddings": False, "tie_weights": False}),
    "vision_transformer": ("vision_transformer", {"position": Learned}),
    "vision_transformer, mean": ("vision_transformer", {"pooling": "mean", "position": Rotary2d}),
    "vision_transformer, 2-d waves": ("vision_transformer", {"position": Sinusoidal2d}),
}


def counted(model: Architecture, batch_size: int) -> tuple[Counts, Counts, int]:
    """Return the counts of forward and of forward with backward, and the saved bytes."""
    inputs = model.example_inputs(SIZE, batch_size, CPU)
    with counting() as forward, saved_bytes(model) as saved:
        logits = model(**inputs)
        num_bytes = saved()
    with counting() as training:
        model(**inputs).backward(torch.ones_like(logits))
    return forward, training, num_bytes


def declared(model: Architecture) -> Totals:
    return ledger(model, SIZE).totals


@pytest.mark.sampled(30)
@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("name", MODELS)
def test_declared_products_equal_counted_ones(name: str, batch_size: int) -> None:
    family, changes = MODELS[name]
    model = small_model(family, **changes)
    forward, training, _ = counted(model, batch_size)
    assert forward.products == batch_size * declared(model).forward_flops_per_sample
    assert training.products == batch_size * declared(model).training_flops_per_sample


@pytest.mark.parametrize("takes_groups", [True, False])
def test_heads_that_share_keys_are_counted_alike_whatever_the_fused_kernel_of_this_torch_takes(
    takes_groups: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused_attention, "CPU_TAKES_GROUPS", takes_groups and fused_attention.CPU_TAKES_GROUPS)
    model = small_model("decoder_only", mixer=grouped)
    forward, training, num_bytes = counted(model, 1)
    totals = declared(model)
    assert (forward.products, training.products) == (totals.forward_flops_per_sample, totals.training_flops_per_sample)
    assert num_bytes == totals.activation_bytes


def test_a_step_makes_logits_for_hidden_tokens_only_and_is_billed_for_no_others() -> None:
    model = small_model("encoder_only").double()
    task = MaskedLanguageModelling(mask_rate=0.4).bind(LANGUAGE)
    batch = task.view(replace(language_batch(3), valid=None), seed=0, epoch=0)
    assert batch.targets is not None
    hidden = int((batch.targets != IGNORED).sum())
    with counting() as step:
        task.loss(model, batch).total.backward()
    none, one = (
        ledger(model, InputSize(length=13, scored=scored)).totals.training_flops_per_sample for scored in (0, 1)
    )
    assert 0 < hidden < 3 * 13
    assert step.products == 3 * none + hidden * (one - none)


STEPS: dict[str, tuple[Task, DataSpec, Callable[[int], Batch]]] = {
    "tags": (Tagging(), TAGS, tagged_batch),
    "spans": (SpanQuestionAnswering(), QUESTIONS, question_batch),
    "scores": (Similarity(), SCORES, scored_batch),
    "pairs": (MaskedLanguageModellingWithNextSentence(mask_rate=0.4), NEXT, sentence_pair_batch),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_of_every_head_is_billed_for_the_products_it_makes(name: str) -> None:
    task, spec, make = STEPS[name]
    task.bind(spec)
    model = small_model("encoder_only", head=task.head, num_classes=spec.num_classes).double()
    batch = task.view(replace(make(4), valid=None), seed=0, epoch=0)
    assert batch.targets is not None and batch.tokens is not None
    scored = int((batch.targets != IGNORED).sum())
    with counting() as step:
        task.loss(model, batch).total.backward()
    length = batch.tokens.shape[1]
    none, one = (
        ledger(model, InputSize(length=length, scored=number)).totals.training_flops_per_sample for number in (0, 1)
    )
    assert step.products == 4 * none + scored * (one - none)


@pytest.mark.parametrize("name", MODELS)
def test_declared_activations_equal_counted_ones(name: str) -> None:
    family, changes = MODELS[name]
    model = small_model(family, **changes)
    _, _, num_bytes = counted(model, 1)
    assert num_bytes == declared(model).activation_bytes


def test_elementwise_work_counts_every_number_made_and_no_movement() -> None:
    x = torch.randn(6, 10)
    with counting() as counts:
        torch.relu(x + 1.0).view(10, 6).t().contiguous()
        x.softmax(-1)
    assert counts.by_operation == {"add": 60, "relu": 60, "_softmax": 60}
    assert (counts.elementwise, counts.products) == (180, 0)


def test_a_linear_layer_costs_two_flops_per_weight_and_row_and_thrice_that_in_training() -> None:
    linear, x = nn.Linear(5, 7), torch.randn(2, 3, 5, requires_grad=True)
    with counting() as counts:
        y = linear(x)
    assert counts.products == 2 * 6 * 5 * 7
    with counting() as counts:
        y.sum().backward()
    assert counts.products == 2 * (2 * 6 * 5 * 7)


def test_products_inside_inference_mode_are_seen() -> None:
    linear, x = nn.Linear(5, 7), torch.randn(2, 3, 5)
    with torch.inference_mode(), counting() as counts:
        linear(x)
    assert counts.products == 2 * 6 * 5 * 7


@pytest.mark.parametrize(
    ("layer", "shape", "forward"),
    [
        (nn.Conv2d(6, 8, 3), (2, 6, 9, 9), 2 * 2 * 8 * 7 * 7 * 6 * 9),
        (nn.Conv1d(6, 6, 4, padding=3, groups=6), (2, 6, 10), 2 * 2 * 6 * 13 * 4),
        (nn.ConvTranspose1d(6, 4, 2, stride=2), (2, 6, 5), 2 * 2 * 6 * 5 * 4 * 2),
    ],
)
def test_convolutions_count_groups_and_gradients_that_are_requested(
    layer: nn.Module, shape: tuple[int, ...], forward: int
) -> None:
    for needs_input, factor in ((True, 2), (False, 1)):
        x = torch.randn(shape, requires_grad=needs_input)
        with counting() as counts:
            y = layer(x)
        assert counts.products == forward
        with counting() as counts:
            y.sum().backward()
        assert counts.products == factor * forward


@pytest.mark.parametrize("kind", ["full", "causal", "mask"])
def test_fused_attention_counts_the_pairs_that_its_mask_lets_through(kind: str) -> None:
    q, k, v = (torch.randn(2, 3, 5, 4, requires_grad=True) for _ in range(3))
    mask = torch.zeros(2, 1, 5, 5).masked_fill(torch.rand(2, 1, 5, 5) < 0.4, float("-inf"))
    mask[..., 0] = 0.0
    pairs = {"full": 6 * 25, "causal": 6 * 15, "mask": 3 * int((mask == 0).sum())}[kind]
    with counting() as counts:
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask if kind == "mask" else None, is_causal=kind == "causal"
        )
    assert counts.products == 2 * pairs * (4 + 4)
    with counting() as counts:
        y.sum().backward()
    assert counts.products == 4 * pairs * (4 + 4)


def test_explicit_attention_shows_the_elementwise_work_and_computes_the_causal_square_in_full() -> None:
    q, k, v = (torch.randn(2, 3, 5, 4) for _ in range(3))
    with counting(explicit_attention=True) as counts:
        F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert counts.products == 4 * 6 * 25 * 4
    assert counts.elementwise > 6 * 25


def test_saved_bytes_count_each_storage_once_and_no_parameter() -> None:
    linear = nn.Linear(5, 7)
    x = torch.randn(3, 5)
    with saved_bytes(linear) as saved:
        y = linear(x) + linear(x)
        assert saved() == 3 * 5 * 4
        y.exp()
        assert saved() == 3 * 5 * 4 + 3 * 7 * 4


def test_counting_works_on_the_meta_device() -> None:
    with torch.device("meta"):
        model = small_model("encoder_only")
    inputs = model.example_inputs(SIZE, 1, torch.device("meta"))
    with counting() as counts:
        model(**inputs)
    assert counts.products == declared(model).forward_flops_per_sample

"""nGPT: a stream on a sphere, and weights whose vectors keep length 1 whatever the optimizer does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from contracts.choices import factory, names
from headtohead.architectures.architecture import Architecture
from headtohead.components.feedforwards import DenseFeedForward
from headtohead.components.linear_maps import InputLinear, ResidualLinear
from headtohead.components.mixers.attention.softmax_attention import AttentionHeads, SoftmaxAttention
from headtohead.components.norms import RmsNorm
from headtohead.components.positions.absolute import Learned
from headtohead.components.streams import Sphere
from headtohead.training.checkpoints import load_best
from headtohead.training.optim.optimizers import adamw, ademamix, lion, muon, sgd, soap
from headtohead.training.optim.weight_updates import UnitWeights
from headtohead.training.run import train
from small_models import FAMILIES, exact_model, small_model
from training.interruptions import interrupted
from training.runs import curve, losses, make_model, parts

NGPT: dict[str, Any] = {
    "mixer": partial(SoftmaxAttention, heads=AttentionHeads(bias=False, qk_norm=True)),
    "norm": RmsNorm,
    "residual": partial(Sphere, unit_weights=True),
    "feedforward": partial(DenseFeedForward, activation="silu", gated=True, bias=False, gains=True),
    "tie_weights": False,
}
OPTIMIZERS: dict[str, Callable[[nn.Module], Optimizer]] = {
    one.__name__: one for one in (adamw, ademamix, lion, muon, sgd, soap)
}
WIDTH, HEAD_WIDTH = 16, 8
ROWS = ("embedding.weight", "head.weight", "stack.positions.0.table.weight", "class_token.weight")
"""The parameters that hold vectors of the stream by rows, beside linear maps."""


def lengths(model: Architecture) -> dict[str, Tensor]:
    """The length of every vector that a matrix reads the stream with or writes to it, found by names and shapes."""
    rows = [name for name, _ in model.named_parameters() if name in ROWS]
    measured = {name: model.get_parameter(name).norm(dim=-1) for name in rows}
    for name, module in model.named_modules():
        if isinstance(module, ResidualLinear | InputLinear):
            measured |= {name: module.weight.norm(dim=0)} if module.out_features == WIDTH else {}
        elif isinstance(module, nn.Linear) and module.in_features == WIDTH:
            measured[name] = module.weight.norm(dim=1)
    return measured


def papers_logits(model: Architecture, tokens: Tensor) -> Tensor:
    """The paper's model on a sphere of radius 1, with gains of the last features in place of those of the logits."""
    weight = {name: parameter.detach() for name, parameter in model.named_parameters()}
    width = weight["embedding.weight"].shape[1]

    def unit(x: Tensor) -> Tensor:
        return F.normalize(x, dim=-1)

    def attention(h: Tensor, layer: str) -> Tensor:
        q, k, v = (
            (h @ weight[f"{layer}.mixer.{name}.weight"].T).unflatten(-1, (-1, HEAD_WIDTH)).transpose(1, 2)
            for name in ("query", "key", "value")
        )
        q, k = (unit(x) * weight[f"{layer}.mixer.{name}_norm.weight"] for x, name in ((q, "query"), (k, "key")))
        scores = HEAD_WIDTH**0.5 * q @ k.mT
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        heads = scores.masked_fill(future, -torch.inf).softmax(-1) @ v
        return heads.transpose(1, 2).flatten(2) @ weight[f"{layer}.mixer.output.weight"].T

    def feedforward(h: Tensor, layer: str) -> Tensor:
        s_u, s_v = (weight[f"{layer}.feedforward.{name}_gain"] for name in ("up", "gate"))
        u = h @ weight[f"{layer}.feedforward.up.weight"].T * s_u
        v = h @ weight[f"{layer}.feedforward.gate.weight"].T * s_v * width**0.5
        return (u * F.silu(v)) @ weight[f"{layer}.feedforward.down.weight"].T

    h = unit(F.embedding(tokens, weight["embedding.weight"]))
    for number in range(2):
        layer = f"stack.blocks.{number}"
        for step, sublayer in zip(weight[f"{layer}.wiring.gains"], (attention, feedforward), strict=True):
            h = unit(h + step * (unit(sublayer(h, layer)) - h))
    return (h * width**0.5 * weight["stack.final_norm.scale.weight"]) @ weight["head.weight"].T


def test_the_model_is_that_of_the_paper() -> None:
    model = exact_model("decoder_only", **NGPT).eval()
    UnitWeights(model).normalise()
    tokens = torch.randint(0, 29, (3, 11), generator=torch.Generator().manual_seed(3))
    logits, papers = model(tokens), papers_logits(model, tokens)
    assert (logits - papers).abs().max() < 1e-3 * papers.abs().max(), "but for the eps of the norms"


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_vector_keeps_length_1_while_other_models_are_free(tmp_path: Path, name: str) -> None:
    record = train(parts(tmp_path, make_model=partial(make_model, **NGPT), optimizer=OPTIMIZERS[name]))
    assert record.status == "finished" and record.path is not None
    trained = small_model("decoder_only", **NGPT)
    trained.load_state_dict(load_best(record.path)["model"])
    measured = lengths(trained)
    assert len(measured) == 2 + 2 * 7
    hold(measured)
    assert not UnitWeights(small_model("decoder_only", residual=Sphere)).weights


def hold(measured: dict[str, Tensor]) -> None:
    for name, of_vectors in measured.items():
        torch.testing.assert_close(of_vectors, torch.ones_like(of_vectors), msg=name)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("head", ["own", "other"])
def test_every_vector_of_the_stream_is_on_the_sphere_once_in_every_family(family: str, head: str) -> None:
    others: dict[str, Any] = {
        "decoder_only": {"head": "multi_token_language_model", "num_future_tokens": 2},
        "encoder_only": {"head": "classifier", "num_classes": 3},
    }
    model = small_model(
        family, residual=NGPT["residual"], position=Learned, **(others.get(family, {}) if head == "other" else {})
    )
    unit = UnitWeights(model)
    assert len({id(weight) for weight, _ in unit.weights}) == len(unit.weights)
    unit.normalise()
    hold(lengths(model))


@pytest.mark.parametrize("name", names("mixer"))
def test_a_mixers_maps_of_the_stream_are_on_the_sphere(name: str) -> None:
    model = small_model("encoder_only", residual=NGPT["residual"], mixer=factory("mixer", name))
    UnitWeights(model).normalise()
    hold(lengths(model))


@pytest.mark.slow
def test_a_resumed_run_is_bit_equal(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"make_model": partial(make_model, **NGPT), "accumulate": 2, "validate_every": 4}
    undisturbed = losses(tmp_path, **changes)
    first = interrupted(tmp_path, 7, **changes)
    second = train(parts(tmp_path, resume_from=first.path, **changes))
    assert curve(second.path) == undisturbed

"""Initialisations: every parameter is redrawn, and comes out with the size its paper gives it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from contracts.choices import factory, names
from headtohead.components.component import Context
from headtohead.components.embeddings import ClassToken, SegmentEmbedding, TokenEmbedding
from headtohead.components.stack import Stack
from headtohead.components.stack_parts import StackParts, StackSize
from headtohead.errors import UsageError

WIDTH, LAYERS = 64, 6


class Model(nn.Module):
    """A stack with all kinds of tables, and a head that may share the tokens' table."""

    def __init__(self, *, tied: bool = False, cross: bool = True, **choices: str) -> None:
        super().__init__()
        chosen = {"position": "learned", "norm": "layer_norm", "residual": "pre", "feedforward": "gelu", **choices}
        self.tokens = TokenEmbedding(WIDTH, 500)
        self.segments = SegmentEmbedding(WIDTH, 2)
        self.first = ClassToken(WIDTH)
        self.stack = Stack(
            StackSize(WIDTH, LAYERS, 4),
            StackParts(
                mixer=factory("mixer", "softmax_attention", qk_norm=True),
                **{group: factory(group, name) for group, name in chosen.items()},
            ),
            cross=factory("cross", "softmax_attention") if cross else None,
            causal=True,
            max_length=500,
        )
        if tied:
            self.head = nn.Linear(WIDTH, 500, bias=False)
            self.head.weight = self.tokens.weight


def initialised(name: str, model: Model, seed: int = 0, **options: float) -> Model:
    torch.manual_seed(seed)
    factory("initialisation", name, **options)(model)
    return model


def spread(weight: torch.Tensor) -> float:
    return float(weight.detach().std())


@pytest.mark.parametrize("position", ["learned", "t5_bias", "shaw", "kerple", "fire", "rotary"])
@pytest.mark.parametrize("residual", names("residual"))
@pytest.mark.parametrize("name", names("initialisation"))
def test_nothing_of_the_former_parameters_is_left(name: str, residual: str, position: str) -> None:
    model = Model(residual=residual, position=position, norm="batch_norm", feedforward="swiglu")
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.fill_(float("nan"))
    left = [key for key, tensor in initialised(name, model).state_dict().items() if tensor.isnan().any()]
    assert not left


@pytest.mark.parametrize("name", names("initialisation"))
def test_the_seed_decides(name: str) -> None:
    first, same, other = (initialised(name, Model(), seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[key], same[key]) for key in first)
    assert not torch.equal(first["tokens.weight"], other["tokens.weight"])
    assert not torch.equal(first["stack.positions.0.table.weight"], other["stack.positions.0.table.weight"])


@pytest.mark.parametrize("cross", [True, False])
def test_gpt2_scales_what_ends_a_branch_by_the_number_of_branches(cross: bool) -> None:
    model = initialised("gpt2", Model(cross=cross), std=0.1)
    block = model.stack.layers[3]
    ends = [block.mixer.output, block.feedforward.down, *([block.cross.output] if cross else [])]
    for linear in ends:
        assert spread(linear.weight) == pytest.approx(0.1 / ((3 if cross else 2) * LAYERS) ** 0.5, rel=0.05)
    for weight in (block.mixer.query.weight, block.feedforward.up.weight, model.tokens.weight,
                   model.stack.position.table.weight):  # fmt: skip
        assert spread(weight) == pytest.approx(0.1, rel=0.05)
    assert not block.mixer.query.bias.any()


def test_xavier_follows_fan_in_and_fan_out() -> None:
    model = initialised("xavier", Model())
    up = model.stack.layers[0].feedforward.up.weight
    limit = (6 / (WIDTH + 4 * WIDTH)) ** 0.5
    assert 0.99 * limit < float(up.detach().abs().max()) <= limit
    assert spread(model.tokens.weight) == pytest.approx(WIDTH**-0.5, rel=0.05)
    smaller = initialised("xavier", Model(), table_std=0.02)
    assert spread(smaller.tokens.weight) == pytest.approx(0.02, rel=0.05)


@pytest.mark.parametrize("scale", [None, 1.0])
def test_t5_gives_scores_of_variance_one_whatever_their_scale(scale: float | None) -> None:
    model = Model(cross=False)
    model.stack.blocks[0].mixer = factory("mixer", "softmax_attention", scale=scale)(WIDTH, num_heads=4, causal=True)
    mixer = initialised("t5", model).stack.blocks[0].mixer
    x = torch.randn(50, 40, WIDTH)
    q, k, _ = mixer.project(x, Context())
    assert float((mixer.scale * q @ k.mT).detach().std()) == pytest.approx(1.0, rel=0.1)


def test_t5_shrinks_a_table_that_also_makes_logits() -> None:
    assert spread(initialised("t5", Model()).tokens.weight) == pytest.approx(1.0, rel=0.05)
    assert spread(initialised("t5", Model(tied=True)).tokens.weight) == pytest.approx(WIDTH**-0.5, rel=0.05)


def test_t5_keeps_a_table_that_two_sides_read_and_no_head() -> None:
    model = Model()
    model.target_tokens = model.tokens
    assert spread(initialised("t5", model).tokens.weight) == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize("name", ["gpt2", "xavier"])
def test_deepnorm_shrinks_its_branches_but_not_queries_and_keys(name: str) -> None:
    plain, deep = (initialised(name, Model(cross=False, residual=residual)) for residual in ("post", "deepnorm"))
    gain = (8 * LAYERS) ** -0.25
    ours, theirs = deep.stack.layers[2], plain.stack.layers[2]
    for part in ("value", "output"):
        ratio = spread(getattr(ours.mixer, part).weight) / spread(getattr(theirs.mixer, part).weight)
        undone = (2 * LAYERS) ** 0.5 if name == "gpt2" and part == "output" else 1.0
        assert ratio == pytest.approx(gain * undone, rel=0.01)
    for part in ("query", "key"):
        assert torch.equal(getattr(ours.mixer, part).weight, getattr(theirs.mixer, part).weight)
    assert spread(ours.feedforward.up.weight) / spread(theirs.feedforward.up.weight) == pytest.approx(gain, rel=0.01)


@pytest.mark.parametrize("name", names("initialisation"))
def test_a_module_that_cannot_start_itself_is_named(name: str) -> None:
    model = Model()
    model.extra = nn.Bilinear(2, 2, 3)
    with pytest.raises(UsageError, match=r"how Bilinear starts \(weight, bias\)"):
        initialised(name, model)


def test_a_component_that_forgot_its_start_is_named() -> None:
    model = Model()
    model.first.register_parameter("late", nn.Parameter(torch.zeros(1)))
    model.stack.positions[0].register_parameter("own", nn.Parameter(torch.zeros(1)))
    with pytest.raises(NotImplementedError, match="Learned holds own"):
        initialised("gpt2", model)

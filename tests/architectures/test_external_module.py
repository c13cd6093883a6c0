"""Anybody's model: what goes in, what is taken out of it, what is refused, and what it is counted to cost."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import headtohead as h2h
from headtohead.architectures.architecture import InputSize
from headtohead.architectures.external_module import External
from headtohead.architectures.ledger import ledger
from headtohead.config.build import build_parts
from headtohead.generation.decoding_loop import greedy
from headtohead.interpretability.receptive_field import all_maps
from headtohead.interpretability.recorded_attention import attention_maps
from plain_modules import MaskedMean, NextToken, Pixels

SIZES: dict[str, Any] = {"vocab_size": 29, "max_length": None, "num_classes": 5, "image_shape": None}
TOKENS = torch.randint(0, 29, (3, 7), generator=torch.Generator().manual_seed(0))
FEW = ("data.num_train=200", "data.num_validation=20", "data.num_test=20")
GPT2 = (
    "model=external",
    "model.module._target_=transformers.AutoModelForCausalLM.from_config",
    "model.module.config._target_=transformers.GPT2Config",
    "model.module.config.vocab_size=512",
    "model.module.config.n_embd=16",
    "model.module.config.n_layer=2",
    "model.module.config.n_head=2",
    "model.module.config.n_positions=128",
    "model.module.config.attn_pdrop=0.0",  # with dropout a CPU takes attention apart, and computes all pairs
    "data.packing=stream",
)


def external(module: nn.Module, **changes: Any) -> External:
    return External(module=module, **{**SIZES, **changes})


def test_it_gives_what_the_module_gives() -> None:
    module = NextToken(29)
    assert torch.equal(external(module)(TOKENS), module(TOKENS))
    valid = torch.arange(7) < torch.tensor([7, 3, 1])[:, None]
    classes = MaskedMean(29, 5)
    wrapped = external(classes, head="classifier")
    assert torch.equal(wrapped(TOKENS, valid=valid), classes(TOKENS, valid)["logits"])
    images = torch.rand(2, 1, 4, 4)
    pixels = external(Pixels(16, 5), head="classifier", image_shape=(1, 4, 4))
    assert pixels(images=images).shape == (2, 5)


def test_a_module_without_a_mask_is_refused_padded_rows_unless_it_reads_one_way() -> None:
    valid = torch.arange(7) < torch.tensor([7, 3, 1])[:, None]
    assert external(NextToken(29))(TOKENS, valid=valid).shape == (3, 7, 29)
    with pytest.raises(ValueError, match="takes no mask"):
        external(NextToken(29), head="tagger")(TOKENS, valid=valid)


def test_a_module_that_cannot_keep_documents_apart_is_refused_packed_rows() -> None:
    with pytest.raises(ValueError, match=r"set data\.packing=none, or stream"):
        external(NextToken(29))(TOKENS, segments=torch.zeros_like(TOKENS))


def test_logits_of_another_shape_are_refused_with_both() -> None:
    with pytest.raises(ValueError, match=r"logits of shape \(3, 7, 20\), and the task reads \(3, 7, at least 29\)"):
        external(Narrow())(TOKENS)


class Narrow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(29, 20)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.table(tokens)


def test_costs_are_counted_and_declared_to_be() -> None:
    model = external(NextToken(29))
    before = torch.random.get_rng_state()
    costs = ledger(model, InputSize(length=11))
    assert torch.equal(before, torch.random.get_rng_state())
    assert [row["counted"] for row in costs.to_dict()["rows"]] == [True]
    assert costs.totals.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert costs.totals.forward_flops_per_sample >= 11 * (12 * 16**2 + 2 * 16 * 29)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_counting_leaves_statistics_and_modes_as_they_were() -> None:
    module = nn.Sequential(nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(16, 5)).eval()
    ledger(external(module, head="classifier", image_shape=(1, 4, 4)), InputSize())
    assert not any(part.training for part in module.modules())
    assert int(module[0].num_batches_tracked) == 0


def test_it_writes_what_rerunning_the_whole_prefix_writes() -> None:
    model, prefix = external(NextToken(29)).eval(), TOKENS
    for _ in range(5):
        prefix = torch.cat([prefix, model(prefix)[:, -1].argmax(-1, keepdim=True)], 1)
    assert torch.equal(greedy(model, TOKENS, max_length=5), prefix[:, 7:])


class Placed(nn.Module):
    """The mean of what came before, and places of its own, without a mask; logits for more tokens than there are."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.positions, self.out = nn.Embedding(29, 8), nn.Embedding(20, 8), nn.Linear(8, 40)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens) + self.positions.weight[: tokens.shape[1]]
        return self.out(x.cumsum(1) / torch.arange(1, tokens.shape[1] + 1)[:, None])


def test_prompts_of_unequal_length_are_written_as_each_alone_with_tokens_that_there_are() -> None:
    model = external(Placed()).eval()
    nn.init.constant_(model.module.out.bias[29:], 9.0)
    valid = torch.arange(7) >= torch.tensor([[0], [4], [2]])
    together = greedy(model, TOKENS.masked_fill(~valid, 0), valid, max_length=5)
    for row, real in enumerate(valid):
        assert torch.equal(together[row], greedy(model, TOKENS[row, real][None], max_length=5)[0])
    assert int(together.max()) < 29


class Broken(NextToken):
    def forward(self, tokens: Tensor) -> Tensor:
        raise KeyError("boom")


def test_what_a_module_raises_is_reported_with_what_it_was_given() -> None:
    with pytest.raises(ValueError, match=r"module=Broken fails at tokens of shape \(1, 7\) \(KeyError: 'boom'\)"):
        ledger(external(Broken(29)), InputSize(7))


@pytest.mark.slow
def test_what_a_constructor_raises_is_reported() -> None:
    config = h2h.compose("train", ["model=external", "model.module._target_=plain_modules.Unmakeable", *FEW])
    with pytest.raises(ValueError, match=r"module=plain_modules\.Unmakeable cannot be built \(KeyError: 'width'\)"):
        build_parts(config)


def test_its_receptive_field_is_followed_back_to_its_own_embedding_of_the_tokens() -> None:
    [field] = all_maps(external(Placed()).eval(), {"tokens": TOKENS})
    assert field.weights.shape == (3, 1, 7, 7) and field.causal
    expected = torch.ones(7, 7).tril() / torch.arange(1, 8)[:, None]
    torch.testing.assert_close(field.weights, expected.expand(3, 1, 7, 7))


def test_it_has_no_attention_to_show() -> None:
    assert attention_maps(external(NextToken(29)), {"tokens": TOKENS}) == []


@pytest.mark.parametrize("provided", [None, nn.Identity()])
def test_nothing_to_train_is_refused(provided: nn.Module | None) -> None:
    with pytest.raises(ValueError, match=r"model\.module"):
        External(module=provided, **SIZES)


@pytest.mark.slow
def test_a_transformers_model_is_composed_built_and_billed_like_ours() -> None:
    pytest.importorskip("transformers")
    config = h2h.compose("train", [*GPT2, *FEW, "trainer.max_steps=1"])
    parts = build_parts(config)
    d, length, vocab_size = 16, parts.costs["size"]["length"], 512
    projections = 2 * length * (24 * d**2)
    scores = 2 * 2 * length * (length + 1) * d
    head = 2 * length * d * vocab_size
    assert parts.costs["totals"]["forward_flops_per_sample"] == projections + scores + head
    assert parts.costs["rows"][0]["counted"]
    model = parts.make_model()
    assert model(torch.zeros(1, 4, dtype=torch.long)).shape == (1, 4, vocab_size)

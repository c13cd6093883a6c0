"""Masked diffusion: what is hidden, the bound on the likelihood, and texts written in any order."""

from __future__ import annotations

import math
from itertools import permutations

import pytest
import torch
from torch import Tensor, nn

from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.generation.decoding_loop import denoise
from headtohead.tasks.masked_diffusion import MaskedDiffusion
from small_batches import LANGUAGE, language_batch
from task_cases import TASKS

MASK = LANGUAGE.mask_id


def test_every_number_of_tokens_is_hidden_about_equally_often_and_no_special_one() -> None:
    task = TASKS["masked_diffusion"].task()
    batch = language_batch(6)
    assert batch.tokens is not None
    shares = []
    for epoch in range(200):
        view = task.training_view(batch, seed=0, epoch=epoch)
        assert view.tokens is not None and view.targets is not None
        hidden = view.targets != IGNORED
        assert not (hidden & LANGUAGE.are_special(batch.tokens)).any()
        assert (view.tokens[hidden] == MASK).all() and (view.tokens[~hidden] == batch.tokens[~hidden]).all()
        may_hide = ~LANGUAGE.are_special(batch.tokens)
        may_hide = may_hide if batch.valid is None else may_hide & batch.valid
        assert (hidden.sum(1) >= 1).all()
        shares += (hidden.sum(1) / may_hide.sum(1)).tolist()
    quarters = torch.tensor(shares).mul(4).ceil().long().bincount(minlength=5)[1:] / len(shares)
    assert ((quarters - 0.25).abs() < 0.1).all()


class Table(nn.Module):
    """Logits by what is seen, as a table draws them."""

    def forward(self, tokens: Tensor, valid: Tensor | None = None) -> Tensor:
        rows = [torch.Generator().manual_seed(hash(tuple(row)) % 2**31) for row in tokens.tolist()]
        return torch.stack([torch.randn(tokens.shape[1], LANGUAGE.vocab_size, generator=row) for row in rows])


def test_the_loss_is_the_mean_over_all_orders_of_writing() -> None:
    """The mean over k and over which k are hidden equals the mean over orders of the sum of conditionals."""
    length, truth = 3, torch.tensor([[7, 8, 9]])
    model = Table()

    def nats(hidden: set[int], position: int) -> float:
        seen = torch.tensor([[MASK if i in hidden else int(truth[0, i]) for i in range(length)]])
        return -float(model(seen)[0, position].log_softmax(-1)[truth[0, position]])

    orders = list(permutations(range(length)))
    by_order = [sum(nats(set(order[i:]), order[i]) for i in range(length)) for order in orders]
    by_number = []
    for k in range(1, length + 1):
        subsets = {frozenset(order[:k]) for order in orders}
        sums = [sum(nats(set(hidden), position) for position in hidden) for hidden in subsets]
        by_number.append(length / k * sum(sums) / len(sums))
    assert math.isclose(sum(by_order) / len(orders), sum(by_number) / length, rel_tol=1e-6)


def test_the_hidden_tokens_of_a_row_weigh_together_as_much_as_its_length() -> None:
    case = TASKS["masked_diffusion"]
    task, model, view = case.task(), case.model().eval(), case.view()
    assert isinstance(task, MaskedDiffusion) and view.targets is not None and view.tokens is not None
    loss = task.loss(model, view)
    logits, expected, tokens = model(**view.inputs()), 0.0, 0
    for row, targets in enumerate(view.targets):
        hidden = targets != IGNORED
        ordinary = ~LANGUAGE.are_special(view.tokens[row]) | hidden
        n = int((ordinary if view.valid is None else ordinary & view.valid[row]).sum())
        nats = -logits[row, hidden].log_softmax(-1).gather(1, targets[hidden, None]).sum()
        expected, tokens = expected + float(nats.detach()) * n / int(hidden.sum()), tokens + n
    assert float(loss.total.detach() / loss.count) == pytest.approx(expected / tokens, rel=1e-5)
    task.measure("validation", model, view)
    assert task.results("validation")["loss"] == pytest.approx(expected / tokens, rel=1e-5)


@pytest.mark.parametrize("steps", [1, 3, 50])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_denoising_writes_every_hidden_token_and_no_other(steps: int, temperature: float) -> None:
    tokens = torch.arange(5, 15).repeat(3, 1)
    hidden = torch.rand(3, 10, generator=torch.Generator().manual_seed(0)) < 0.6
    generator = torch.Generator().manual_seed(0)
    written = denoise(Table(), tokens, hidden, mask_id=MASK, steps=steps, temperature=temperature, generator=generator)  # type: ignore[arg-type]
    assert (written != MASK).all() and (written[~hidden] == tokens[~hidden]).all()
    if steps == 1 and temperature == 0.0:
        logits = Table()(tokens.masked_fill(hidden, MASK))
        logits[..., MASK] = float("-inf")
        assert (written == logits.argmax(-1))[hidden].all()


def test_samples_show_texts_that_the_model_wrote_from_nothing_but_masks() -> None:
    case = TASKS["masked_diffusion"]
    rows = case.task().samples(case.model(), case.view(), lambda ids: " ".join(map(str, ids)))
    assert rows[0].keys() == {"read", "truth", "written"}
    assert all(str(MASK) not in row["written"].split() for row in rows)
    assert isinstance(case.view(), Batch)

"""SOAP and schedule-free AdamW against plain writings of their papers' algorithms, and which weights are evaluated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from headtohead.components.streams import Sphere
from headtohead.errors import UsageError
from headtohead.training.checkpoints import load, load_best
from headtohead.training.checks import check_optimizer
from headtohead.training.optim.optimizers import schedule_free, soap
from headtohead.training.optim.schedule_free import ScheduleFree, ScheduleFreeWeights
from headtohead.training.optim.schedules import constant
from headtohead.training.optim.soap import Soap, first_basis
from headtohead.training.run import train
from small_models import small_model
from training.interruptions import interrupted
from training.runs import SETTINGS, curve, losses, make_model, parts
from training.test_lion_and_muon import steps

BOTH: dict[str, dict[str, Any]] = {
    "soap": {"optimizer": partial(soap, basis_every=3)},
    "schedule_free": {"optimizer": schedule_free, "schedule": partial(constant, warmup=3)},
}


def eigenvectors(matrix: np.ndarray) -> np.ndarray:
    """Return the eigenvectors by falling eigenvalue."""
    return np.linalg.eigh(matrix)[1][:, ::-1]


def test_soap_takes_the_steps_of_its_paper() -> None:
    """Algorithm 3, a matrix at a time, with the bias correction and decay of AdamW; the first gradient sets bases."""
    start = torch.randn(4, 4, dtype=torch.float64)  # square: the null space of a longer side has any basis
    weight = nn.Parameter(start.clone())
    optimizer = Soap([weight], lr=0.01, betas=(0.9, 0.95), basis_every=2, weight_decay=0.3)
    first, *others = steps(optimizer, [weight], 8)
    w, m, v = start.numpy().copy(), np.zeros((4, 4)), np.zeros((4, 4))
    left, right = 0.05 * first @ first.T, 0.05 * first.T @ first
    ql, qr = eigenvectors(left), eigenvectors(right)
    for t, g in enumerate(others, start=1):
        m, v = 0.9 * m + 0.1 * g, 0.95 * v + 0.05 * (ql.T @ g @ qr) ** 2
        n = (ql.T @ m @ qr) / (np.sqrt(v) + 1e-8) * np.sqrt(1 - 0.95**t) / (1 - 0.9**t)
        w = w - 0.01 * (ql @ n @ qr.T + 0.3 * w)
        left, right = 0.95 * left + 0.05 * g @ g.T, 0.95 * right + 0.05 * g.T @ g
        if t % 2 == 0:
            rows, columns = (np.argsort(-np.diag(q.T @ c @ q)) for q, c in ((ql, left), (qr, right)))
            v = v[rows][:, columns]
            ql, qr = np.linalg.qr(left @ ql[:, rows])[0], np.linalg.qr(right @ qr[:, columns])[0]
    np.testing.assert_allclose(weight.detach().numpy(), w, rtol=1e-8)


def test_a_long_dimension_has_no_basis_and_a_vector_takes_the_steps_of_adamw() -> None:
    long, square = nn.Parameter(torch.randn(40, 4)), nn.Parameter(torch.randn(4, 4, 3))
    optimizer = Soap([long, square], lr=0.01, max_basis=16)
    steps(optimizer, [long, square])
    assert {name for name in optimizer.state[long] if "_1" in name or "_0" in name} == {"basis_1", "covariance_1"}
    assert all(optimizer.state[square][f"basis_{dimension}"].shape == (n, n) for dimension, n in enumerate((4, 4, 3)))
    start = torch.randn(7)
    ours, reference = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    steps(Soap([ours], lr=0.02, betas=(0.9, 0.95), weight_decay=0.1), [ours])
    steps(torch.optim.AdamW([reference], lr=0.02, betas=(0.9, 0.95), weight_decay=0.1), [reference])
    torch.testing.assert_close(ours, reference)


def test_schedule_free_takes_the_steps_of_its_paper() -> None:
    """Algorithm 1 by its three sequences, with a warm-up whose rates weigh the average."""
    start = torch.randn(4, 3, dtype=torch.float64)
    weight = nn.Parameter(start.clone())
    optimizer = ScheduleFree([weight], lr=0.01, betas=(0.9, 0.99), weight_decay=0.3)
    z = x = start.numpy().copy()
    v, sum_of_squares = np.zeros((4, 3)), 0.0
    generator = torch.Generator().manual_seed(3)
    for t in range(1, 9):
        lr = optimizer.param_groups[0]["lr"] = 0.01 * min(1.0, t / 4)
        y = 0.1 * z + 0.9 * x
        np.testing.assert_allclose(weight.detach().numpy(), y, rtol=1e-10)
        weight.grad = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        g = weight.grad.numpy()
        v = 0.99 * v + 0.01 * g * g
        z = z - lr * (g / (np.sqrt(v / (1 - 0.99**t)) + 1e-8) + 0.3 * y)
        sum_of_squares += lr**2
        x = x + lr**2 / sum_of_squares * (z - x)
        optimizer.step()
    with ScheduleFreeWeights(optimizer).applied():
        np.testing.assert_allclose(weight.detach().numpy(), x, rtol=1e-10)


def test_training_goes_on_from_the_same_bits_after_an_evaluation() -> None:
    weight = nn.Parameter(torch.randn(9, 5))
    optimizer = ScheduleFree([weight], lr=0.1)
    steps(optimizer, [weight])
    before = weight.detach().clone()
    with ScheduleFreeWeights(optimizer).applied():
        assert not torch.equal(weight, before)
    assert torch.equal(weight, before)


@pytest.mark.slow
def test_the_best_checkpoint_holds_the_average_and_the_last_what_is_trained(tmp_path: Path) -> None:
    record = train(parts(tmp_path, **BOTH["schedule_free"]))
    assert record.status == "finished" and record.path is not None
    best, last = load_best(record.path)["model"], load(record.path / "checkpoints" / "last.ckpt")
    assert record.budget is not None
    trained = {name.removeprefix("model."): tensor for name, tensor in last["state_dict"].items()}
    model = small_model("decoder_only")
    model.load_state_dict(trained)
    optimizer = schedule_free(model)
    optimizer.load_state_dict(last["optimizer_states"][0])
    assert isinstance(optimizer, ScheduleFree)
    with ScheduleFreeWeights(optimizer).applied():
        for name, parameter in model.named_parameters():
            assert torch.equal(parameter, best[name]) and not torch.equal(parameter, trained[name]), name


@pytest.mark.slow
@pytest.mark.parametrize("name", BOTH)
def test_a_resumed_run_is_bit_equal(tmp_path: Path, name: str) -> None:
    changes = {**BOTH[name], "accumulate": 2, "gradient_clip": 0.5, "validate_every": 4}
    undisturbed = losses(tmp_path, **changes)
    first = interrupted(tmp_path, 7, **changes)
    second = train(parts(tmp_path, resume_from=first.path, **changes))
    assert curve(second.path) == undisturbed


@pytest.mark.slow
@pytest.mark.parametrize("name", BOTH)
def test_parts_of_a_batch_take_the_steps_of_the_whole(tmp_path: Path, name: str) -> None:
    still = partial(make_model, dropout=0.0)
    whole, split = (
        losses(tmp_path, **BOTH[name], make_model=still, max_steps=5, accumulate=count, gradient_clip=0.1)
        for count in (1, 4)
    )
    assert split == pytest.approx(whole, rel=1e-3)


MAKERS: list[Callable[[nn.Module], Optimizer]] = [soap, schedule_free]


@pytest.mark.parametrize("make", MAKERS)
def test_only_matrices_decay(make: Callable[[nn.Module], Optimizer]) -> None:
    groups = make(small_model("decoder_only")).param_groups
    assert {parameter.ndim for group in groups if group["weight_decay"] for parameter in group["params"]} == {2}
    assert {parameter.ndim for group in groups if not group["weight_decay"] for parameter in group["params"]} == {1}


def test_no_share_of_the_average_in_the_weights_is_refused() -> None:
    with pytest.raises(UsageError, match=r"optimizer\.betas\[0\]=0\.0 leaves nothing of the average"):
        schedule_free(nn.Linear(2, 2), betas=(0.0, 0.9))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight_averaging": 0.9}, "two averages"),
        ({"make_model": partial(make_model, residual=partial(Sphere, unit_weights=True))}, "shorter than 1"),
    ],
)
def test_runs_that_cannot_evaluate_the_average_are_refused(tmp_path: Path, changes: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        train(parts(tmp_path, **BOTH["schedule_free"], **changes))


@pytest.mark.parametrize("make", [soap, schedule_free])
def test_sharded_weights_are_refused(make: Callable[[nn.Module], Optimizer]) -> None:
    sharded = replace(SETTINGS, strategy="model_parallel")
    with pytest.raises(UsageError, match="reads whole weights"):
        check_optimizer(make(nn.Linear(2, 2)), sharded, has_unit_weights=False)


def test_a_first_gradient_of_any_kind_has_a_basis(monkeypatch: pytest.MonkeyPatch) -> None:
    """LAPACK gives up on some matrices in 32 bits, and on numbers that are not finite."""
    whole = torch.linalg.eigh

    def in_64_bits_alone(matrix: Tensor) -> Any:
        if matrix.dtype == torch.float32:
            raise torch.linalg.LinAlgError("failed to converge")
        return whole(matrix)

    covariance = torch.diag(torch.tensor([1.0, 3.0, 2.0]))
    expected = first_basis(covariance)
    monkeypatch.setattr(torch.linalg, "eigh", in_64_bits_alone)
    assert torch.allclose(first_basis(covariance).abs(), expected.abs())
    assert torch.equal(first_basis(torch.full((2, 2), torch.nan)), torch.eye(2))

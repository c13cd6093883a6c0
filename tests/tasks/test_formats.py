"""Every matrix product of training and of scoring is made in the number format that was requested."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, get_args

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from headtohead.config.compose.choices import choices
from headtohead.data.batches.batch import Batch
from headtohead.tasks import chunked_cross_entropy
from headtohead.training.loop.precision import Precision, PrecisionName
from task_cases import TASKS, TaskCase
from usual_formats import assert_plays_no_part, gradients

PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "convolution", "convolution_backward", "linear"}
NAMES = get_args(PrecisionName)


class Formats(TorchDispatchMode):
    """Notes the number formats of what every product multiplies."""

    def __init__(self) -> None:
        super().__init__()
        self.result: dict[str, set[torch.dtype]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().removeprefix("aten::").partition(".")[0]
        if name in PRODUCTS or "scaled_dot_product" in name:
            # Of attention's backward pass, what comes after these are sums, which are wider.
            multiplied = [arg for arg in args[:4] if isinstance(arg, Tensor) and arg.is_floating_point()]
            self.result.setdefault(name, set()).update(tensor.dtype for tensor in multiplied)
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def units(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor without units for a format computes the loss in float32, by intent."""
    monkeypatch.setattr(chunked_cross_entropy, "_has_units", lambda _: True)


def of(precision: Precision) -> AbstractContextManager[Any]:
    return torch.autocast("cpu", precision.dtype) if precision.name.endswith("mixed") else nullcontext()


def formats(case: TaskCase, precision: Precision, work: Callable[[Any, Any, Batch], None]) -> set[torch.dtype]:
    model = case.model().to(precision.of_weights)
    view = case.view().map(lambda tensor: tensor.to(precision.of_weights) if tensor.dtype == torch.float32 else tensor)
    with Formats() as seen, of(precision):
        work(case.task(), model, view)
    assert seen.result, "a model multiplies"
    return set().union(*seen.result.values())


def train(task: Any, model: Any, view: Batch) -> None:
    task.loss(model, view).total.backward()


def score(task: Any, model: Any, view: Batch) -> None:
    task.measure("validation", model.eval(), view)


@pytest.mark.sampled(100)
@pytest.mark.parametrize("work", [train, score])
@pytest.mark.parametrize("precision", NAMES)
@pytest.mark.parametrize("name", TASKS)
def test_every_product_is_made_in_the_format_requested(name: str, precision: PrecisionName, work: Any) -> None:
    options = Precision(precision)
    assert formats(TASKS[name], options, work) == {options.dtype}


@pytest.mark.parametrize("weights", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("name", TASKS)
def test_the_usual_format_of_new_tensors_plays_no_part(name: str, weights: torch.dtype) -> None:
    """Else a loss would be another where Lightning trains, where a plan times, and where a run is evaluated."""
    case = TASKS[name]
    model = case.model().to(weights)
    view = case.view().map(lambda tensor: tensor.to(weights) if tensor.dtype == torch.float32 else tensor)

    def numbers() -> dict[str, Any]:
        task = case.task()
        model.zero_grad()
        task.loss(model.train(), view).total.backward()
        task.measure("validation", model.eval(), view)
        return {**task.results("validation"), **gradients(model)}

    assert_plays_no_part(numbers)


def test_every_task_is_asked() -> None:
    assert set(TASKS) == {choice.name for choice in choices("task")}


def test_a_gradient_over_many_rows_stays_within_16_bits() -> None:
    """Sums over all 2^16 rows at once would leave float16, which ends at 65504."""
    features = torch.full((2**16, 1), 4.0, requires_grad=True)
    weight = torch.zeros(3, 1, requires_grad=True)
    with torch.autocast("cpu", torch.float16):
        loss = chunked_cross_entropy.cross_entropy_sum(features, weight, None, torch.zeros(2**16, dtype=torch.long))
    loss.backward()
    assert weight.grad is not None
    torch.testing.assert_close(weight.grad[:, 0], 2**16 * 4 * torch.tensor([-2 / 3, 1 / 3, 1 / 3]), rtol=1e-3, atol=0)

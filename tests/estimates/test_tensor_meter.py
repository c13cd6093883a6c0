"""The meter of living tensors: equal to counting all of them after each operation, which it need not do."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import Tensor

from headtohead.config.compose.choices import choices
from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.estimates.step_times import TimedModel
from headtohead.estimates.work_meter import TensorMeter, living_tensors


class CountedAgain(TensorMeter):
    """Also adds the bytes of everything that lives up again, after each operation."""

    def __init__(self, tensors: Iterable[Tensor] = (), *, ignored: Iterable[Tensor] = ()) -> None:
        self.seen: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()
        self.left_out = weakref.WeakSet(tensor.untyped_storage() for tensor in ignored)
        self.operations = 0
        super().__init__(tensors, ignored=ignored)

    def add(self, tensors: Iterable[Tensor]) -> None:
        listed = list(tensors)
        super().add(listed)
        for tensor in listed:
            if tensor.layout == torch.strided and tensor.untyped_storage() not in self.left_out:
                self.seen.add(tensor.untyped_storage())
        self.operations += 1
        assert self.bytes() == sum(storage.nbytes() for storage in self.seen)


BASE = [
    "model.d_model=32", "model.num_layers=1", "model.num_heads=2", "data.num_train=16", "data.num_validation=4",
    "data.num_test=4", "data.context_length=16", "data.batch_size=2", "data.tokenizer=char", "trainer.threads=1",
    "trainer.accelerator=cpu", "tracking=none",
]  # fmt: skip
MIXERS = [choice.name for choice in choices("model/mixer")]
IN_THE_GATE = MIXERS[:: len(MIXERS) // 6]


@pytest.mark.sampled(4)
@pytest.mark.slow
@pytest.mark.parametrize(
    "mixer", [pytest.param(name, marks=() if name in IN_THE_GATE else pytest.mark.whole) for name in MIXERS]
)
def test_a_step_of_any_mixer_counts_as_it_does_by_counting_all(mixer: str) -> None:
    overrides = [f"model/mixer={mixer}", "model/position=none", *(["checkpointing=full"] if len(mixer) % 2 else [])]
    try:
        config: dict[str, Any] = compose_checked("train", [*BASE, *overrides])
    except ConfigurationError:  # it cannot be causal
        config = compose_checked("train", [*BASE, *overrides, "model=encoder_only", "task=masked_lm"])
    before = living_tensors()
    trained = TimedModel(config)
    with CountedAgain(living_tensors(), ignored=before) as meter:
        trained.train(1)
    assert meter.operations > 100 and meter.peak > 0


def test_storages_that_are_emptied_filled_and_shared_count_what_they_hold() -> None:
    ignored = torch.zeros(1000)
    with CountedAgain(ignored=[ignored]) as meter:
        first = torch.zeros(10)
        view = first.view(2, 5)
        del first
        assert meter.bytes() == 40, "a view holds its storage"
        view.untyped_storage().resize_(0)
        assert meter.bytes() == 0
        view.untyped_storage().resize_(40)
        ignored.add_(1)
        assert meter.bytes() == 40
        view.add_(1)
        view.resize_(100)
        assert meter.bytes() == 400
        doubled = (view * 2).requires_grad_()
        total = (doubled * doubled).sum()
        assert meter.bytes() == 804
        total.backward()
        del total, view
        assert doubled.grad is not None and meter.bytes() == 800
    assert meter.peak >= 804


def test_shapes_alone_are_no_tensors_that_live() -> None:
    """The compiler leaves fake tensors, whose sizes may be symbols, and FLOPs are counted on the meta device."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    rows = torch.zeros(7, 5)
    symbolic = FakeTensorMode(shape_env=ShapeEnv()).from_tensor(rows, static_shapes=False)
    shapes = (symbolic, torch.zeros(7, device="meta"))
    living = {id(tensor) for tensor in living_tensors()}
    assert id(rows) in living and not living & {id(shape) for shape in shapes}
    with TensorMeter(living_tensors()) as meter:
        before = meter.bytes()
        made = torch.ones(3)
    assert type(before) is int and meter.peak >= before + made.nbytes


def test_an_operation_looks_at_what_it_makes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many tensors live."""
    looks: list[int] = []
    sized = torch.UntypedStorage.nbytes

    def nbytes(storage: torch.UntypedStorage) -> int:
        looks.append(1)
        return sized(storage)

    monkeypatch.setattr(torch.UntypedStorage, "nbytes", nbytes, raising=False)
    counts = []
    for living in (1, 300):
        held = [torch.zeros(1) for _ in range(living)]
        with TensorMeter(held):
            looks.clear()
            held.append(torch.ones(1))
        counts.append(len(looks))
    assert counts[0] == counts[1] > 0

"""The small instruments of a run: windows of losses, norms by layer, averages, peaks, the display."""

from __future__ import annotations

import gc
import io
import logging
import math
import re
import sys

import pytest
import torch
from torch import nn

from headtohead.training.callbacks.progress import ProgressLine
from headtohead.training.loop.run_state import RunState
from headtohead.training.loop.step_statistics import LayerNorms, LossWindow, layer_of
from headtohead.training.memory import PeakMemory
from headtohead.training.optim.weight_updates import WeightAverage
from headtohead.training.run_outcome import is_out_of_memory


def unchanged(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def test_a_window_gives_every_loss_once_and_in_order() -> None:
    window = LossWindow()
    for loss in (3.0, 2.0):
        window.add(torch.tensor(loss))
    assert window.read(unchanged) == [3.0, 2.0]
    window.add(torch.tensor(1.0))
    assert window.read(unchanged) == [3.0, 2.0, 1.0]
    window.clear()
    window.add(torch.tensor(0.5))
    assert window.read(unchanged) == [0.5]


def test_a_window_holds_no_more_than_was_added_however_rarely_it_is_read() -> None:
    window, many = LossWindow(), [float(loss) for loss in range(200)]
    for loss in many:
        window.add(torch.tensor(loss))
    assert window.read(unchanged) == many
    assert window._unread is not None and len(window._unread) < 2 * len(many)


@pytest.mark.parametrize(("losses", "ago"), [([1.0, 2.0], None), ([1.0, math.nan, math.nan], 1), ([math.inf], 0)])
def test_a_window_knows_how_long_ago_a_loss_was_first_no_number(losses: list[float], ago: int | None) -> None:
    window = LossWindow()
    for loss in losses:
        window.add(torch.tensor(loss))
    window.read(unchanged)
    assert window.first_bad() == ago


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("stack.blocks.3.mixer.query.weight", "stack.blocks.3"),
        ("encoder.blocks.0.norms.1.bias", "encoder.blocks.0"),
        ("stack.final_norm.weight", "stack.final_norm"),
        ("embedding.weight", "embedding"),
        ("scale", "scale"),
    ],
)
def test_a_parameter_belongs_to_the_layer_that_its_name_says(name: str, layer: str) -> None:
    assert layer_of(name) == layer


def test_norms_of_a_layer_are_over_all_its_parameters() -> None:
    model = nn.Sequential(nn.Linear(2, 1), nn.Linear(1, 1))
    norms = LayerNorms(model)
    before = norms.snapshot()
    with torch.no_grad():
        model[0].weight += torch.tensor([[3.0, 0.0]])
        model[0].bias += 4.0
    assert norms.updates(before) == pytest.approx({"0": 5.0, "1": 0.0}, abs=1e-6)
    model[1].weight.grad = torch.tensor([[2.0]])
    assert norms.gradients() == {"1": 2.0}


def test_an_average_follows_its_formula_and_leaves_the_weights_alone() -> None:
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(1.0)
    average = WeightAverage(model, decay=0.5)
    expected = 1.0
    for step in range(1, 20):
        with torch.no_grad():
            model.weight += 1.0
        average.update(step)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * (1.0 + step)
    assert model.weight.item() == 20.0
    average.swap()
    assert model.weight.item() == pytest.approx(expected)
    average.swap()
    assert model.weight.item() == 20.0


@pytest.mark.slow
def test_the_peak_is_what_was_held_at_once_not_what_is_left() -> None:
    gc.collect()  # what tests before it left would be freed meanwhile
    memory = PeakMemory(torch.device("cpu"))
    start = memory.read()
    block = torch.ones(64 * 2**20, dtype=torch.uint8)
    during = memory.read()
    del block
    assert during - start >= 60 * 2**20
    assert memory.read() >= during


@pytest.mark.parametrize("direction", ["min", "max"])
def test_small_gains_make_a_best_checkpoint_but_do_not_buy_patience(direction) -> None:
    sign = 1.0 if direction == "max" else -1.0
    state = RunState()
    judged = [state.judge(sign * value, direction, 0.1) for value in (1.0, 1.05, 1.2, 1.1, math.nan)]
    assert judged == [True, True, True, False, False]
    assert state.best_value == sign * 1.2
    assert state.validations_without_gain == 2


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (MemoryError(), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_only_an_allocator_s_error_counts_as_out_of_memory(error: Exception, answer: bool) -> None:
    assert is_out_of_memory(error) is answer


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_display_shows_steps_loss_and_speed_and_the_log_above_them(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    package = logging.getLogger("headtohead")
    before = package.handlers, package.propagate
    display = ProgressLine("run", start=0, total=40, enabled=True)
    display.update_text(loss=2.5, rate=12_345.0, unit="tokens")
    package.warning("above")
    display.close(40)
    assert "above" in screen.getvalue()
    assert "40/40" in screen.getvalue() and "loss 2.5000  12.3k tokens/s" in screen.getvalue()
    assert (package.handlers, package.propagate) == before


def test_what_is_counted_has_its_unit_and_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    display = ProgressLine("embedding", start=0, total=40, enabled=True, unit="texts")
    display.close(40)
    assert re.search(r"embedding .*40/40 texts, [\d.]+[kM]?/s", screen.getvalue())


@pytest.mark.parametrize("expected", [True, False])
def test_nothing_is_drawn_where_nobody_looks_or_wants_it(monkeypatch: pytest.MonkeyPatch, expected: bool) -> None:
    screen = io.StringIO() if expected else Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    display = ProgressLine("run", start=0, total=2, enabled=expected)
    display.step(1)
    display.close(2)
    assert screen.getvalue() == ""


def test_the_display_is_refreshed_a_few_times_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    display = ProgressLine("run", start=0, total=2, enabled=False)
    assert sum(display.step(step) for step in range(1000)) <= 2

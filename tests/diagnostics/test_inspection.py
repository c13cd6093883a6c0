"""`h2h inspect` shows shapes at each stage, the ledger and counted elementwise work, on the meta device too."""

from __future__ import annotations

import io
import json
import time

import pytest
import torch
from rich.console import Console

import headtohead as h2h
from headtohead.api.configurations import InspectedModel
from headtohead.architectures.architecture import InputSize
from headtohead.architectures.ledger import ledger
from headtohead.architectures.operation_counter import counting
from headtohead.components.mixers.identity import Identity
from headtohead.components.mixers.linear.retention import Retention
from headtohead.config.compose.composition import compose_checked
from headtohead.diagnostics.inspection import Inspection, fold, inspect, memory, number, show_inspection
from headtohead.estimates import replayed_lengths
from headtohead.estimates.layouts import Layout
from headtohead.estimates.run_planner import RunPlanner
from small_models import FAMILIES, SIZE, VOCAB_SIZE, small_model

TINY = [
    "model.d_model=16", "model.num_layers=2", "model.num_heads=2", "model.vocab_size=64", "data.num_train=400",
    "data.num_validation=8", "data.num_test=8", "data.batch_size=2", "data.tokenizer=char",
]  # fmt: skip


def on_meta(family: str, size: InputSize = SIZE, **changes: object) -> Inspection:
    with torch.device("meta"):
        model = small_model(family, **changes)
    return inspect(model, size)


def printed(result: Inspection) -> str:
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(show_inspection(result))
    return console.export_text()


@pytest.mark.parametrize("family", FAMILIES)
def test_shapes_on_the_meta_device_are_those_of_a_real_run(family: str) -> None:
    assert on_meta(family).stages == inspect(small_model(family), SIZE).stages


def test_every_stage_has_its_shape() -> None:
    stages = {stage.path: stage for stage in on_meta("decoder_only").stages}
    assert stages["inputs"].outputs == ((1, 11),)
    assert stages["embedding"].outputs == ((1, 11, 16),)
    assert stages["stack.blocks.1.mixer"].outputs == ((1, 11, 16),)
    assert stages["head"].inputs[0] == (1, 11, 16)
    assert stages["head"].outputs == ((1, 11, VOCAB_SIZE),)


@pytest.mark.slow
def test_seventy_billion_parameters_take_seconds() -> None:
    started = time.process_time()
    result = on_meta(
        "decoder_only",
        InputSize(length=4096, bytes_per_element=2),
        d_model=8192,
        num_layers=80,
        num_heads=64,
        vocab_size=128256,
        max_length=4096,
    )
    assert result.ledger.totals.parameters > 65e9
    assert time.process_time() - started < 30


def test_elementwise_work_is_what_counting_finds() -> None:
    model = small_model("encoder_only")
    with counting(explicit_attention=True) as counts:
        model(**model.example_inputs(SIZE, 1, torch.device("cpu")))
    result = inspect(model, SIZE)
    assert result.elementwise_forward_flops_per_token == counts.elementwise / 11
    assert result.elementwise_training_flops_per_token > 1.5 * result.elementwise_forward_flops_per_token


def test_inspecting_leaves_no_hook_and_no_gradient() -> None:
    model = small_model("encoder_decoder")
    inspect(model, SIZE)
    assert all(not module._forward_hooks for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("family", FAMILIES)
def test_an_inspection_is_plain_numbers(family: str) -> None:
    result = on_meta(family)
    plain = json.loads(json.dumps(result.to_dict()))
    assert plain["ledger"]["totals"]["parameters"] == result.ledger.totals.parameters
    assert plain["stages"][-1]["module"] == type(small_model(family).head).__name__


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_the_terminal_shows_totals_components_and_shapes(family: str) -> None:
    result = on_meta(family, num_layers=5)
    text = printed(result)
    totals = ledger(small_model(family, num_layers=5), SIZE).totals
    assert f"{totals.parameters:,}" in text
    assert "blocks.0-4.mixer  (5 x)" in text
    assert "1 x 17 x 16" in text if family == "vision_transformer" else "1 x 11 x 16" in text


@pytest.mark.slow
def test_mixers_are_shown_with_what_computes_them() -> None:
    result = on_meta("decoder_only", mixer=Retention, num_layers=3)
    assert (
        result.kernels == result.to_dict()["kernels"] == {f"stack.blocks.{layer}.mixer": "torch" for layer in range(3)}
    )
    assert "computed by" in printed(result)
    assert set(on_meta("decoder_only").kernels.values()) == {"fused attention"}
    without = on_meta("decoder_only", mixer=Identity)
    assert without.kernels == {} and "computed by" not in printed(without)


def test_equal_layers_are_folded_and_different_ones_are_not() -> None:
    lines = [("a", 1), ("b.0.x", 1), ("b.0.y", 2), ("b.1.x", 1), ("b.1.y", 3), ("b.2.x", 1)]
    assert [(line.path, line.count) for line in fold(lines)] == [
        ("a", 1),
        ("b.0-2.x", 3),
        ("b.0.y", 1),
        ("b.1.y", 1),
    ]


def test_numbers_are_written_for_people() -> None:
    assert [number(value) for value in (0, 999, 1234567, 2.5e12)] == ["0", "999", "1.235 M", "2.5 T"]
    assert [memory(value) for value in (12, 2048, 3 * 2**30)] == ["12 B", "2 KiB", "3 GiB"]


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("mixer", ["softmax_attention", "sliding_window model.mixer.window=32", "mamba2"])
def test_a_long_row_is_inspected_and_planned_at_shorter_lengths(mixer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def seen() -> tuple[InspectedModel, float]:
        words = [
            *f"model/mixer={mixer}".split(),
            "model/position=none",
            "data.context_length=768",
            "data.packing=stream",
        ]
        config = compose_checked("train", [*words, *TINY])
        return h2h.inspect(config), RunPlanner(config, "cpu").layout_costs.memory(Layout(), 2).total

    whole, planned = seen()
    monkeypatch.setattr(replayed_lengths, "LONGEST", 767)
    monkeypatch.setattr(replayed_lengths, "_PARABOLIC", (128, 256, 512))
    monkeypatch.setattr(replayed_lengths, "_LINEAR", (128, 256, 512))
    shorter, planned_shorter = seen()
    assert shorter.stages == whole.stages and shorter.ledger == whole.ledger
    assert shorter.elementwise_training_flops_per_token == pytest.approx(
        whole.elementwise_training_flops_per_token, rel=1e-3
    )
    assert planned_shorter == pytest.approx(planned, rel=2e-2)


def test_short_lengths_are_for_costs_that_grow_in_a_line() -> None:
    long = InputSize(length=100_000)
    with torch.device("meta"):
        line, parabola = small_model("decoder_only", mixer=Retention), small_model("decoder_only")
    assert max(replayed_lengths.replayed_lengths(line, long)) < 2048
    assert max(replayed_lengths.replayed_lengths(parabola, long)) == 8192
    assert replayed_lengths.replayed_lengths(line, SIZE) == (SIZE.length,)

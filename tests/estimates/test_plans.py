"""Plans beside what a step really holds, beside the ledger, and beside each other."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from headtohead.cli import main
from headtohead.components.component import Context
from headtohead.config.compose.choices import choices
from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.config.instantiate import make
from headtohead.estimates import replayed_lengths
from headtohead.estimates.device_speed import speed_of
from headtohead.estimates.fake_step import StepReplay
from headtohead.estimates.fake_tensors import PlannedWorkspace
from headtohead.estimates.layouts import Layout, fields_of, layout_of, layouts
from headtohead.estimates.named_devices import parsed_devices, speeds
from headtohead.estimates.plan import Plan, cheapest_plan, plan
from headtohead.estimates.run_planner import RunPlanner
from headtohead.estimates.step_times import TimedModel
from headtohead.estimates.work_meter import LEFT, SAVED, TensorMeter, WorkMeter, living_tensors
from headtohead.tasks import chunked_cross_entropy
from headtohead.tasks.chunked_cross_entropy import Workspace, cross_entropy_sum
from headtohead.training.parallel.device_sheets import device_sheets
from outside_memory import with_outside_memory

SMALL = [
    "model.d_model=32", "model.num_layers=3", "model.num_heads=2", "data.num_train=64", "data.num_validation=8",
    "data.num_test=8", "data.context_length=64", "data.batch_size=16", "data.tokenizer=char", "trainer.threads=1",
    "trainer.accelerator=cpu", "tracking=none",
]  # fmt: skip
FIXED = ("data.form=pairs", "data.length=24", "~data.context_length", "~data.tokenizer")
CASES = {
    "plain": [],
    "apart": ["data.packing=stream", "optimizer=lion"],
    "with bases": ["optimizer=soap"],
    "looped": ["model.loops=3", "checkpointing=every_k"],
    "recomputed": ["checkpointing=full"],
    "mixers recomputed": ["checkpointing=attention", "trainer.accumulate=2"],
    "recurrent": ["model/mixer=retention", "model/position=none", "model/feedforward=swiglu"],
    "experts": ["model/feedforward=moe", "model.feedforward.num_experts=4"],
    "shared experts": ["model/feedforward=moe_shared", "model.feedforward.num_experts=4", "checkpointing=full"],
    "masked": ["model=encoder_only", "task=masked_lm"],
    "several tokens": ["task=multi_token_prediction"],
    "spans": ["model=encoder_decoder", "task=span_corruption", "data.packing=stream"],
    "first values beside a memory": [
        *("model=encoder_decoder", "task=span_corruption", "data.packing=stream", "model/mixer=value_residual"),
        "checkpointing=attention",
    ],
    "pairs of texts": ["model=encoder_only", "task=contrastive_pairs", "data=reverse", *FIXED],
    "two rotary bases": ["model=modernbert", "task=masked_lm"],
    "short rows": ["data.context_length=8", "data.batch_size=64", "model.d_model=128", "checkpointing=full"],
    "frozen body": ["finetuning=head_only", "model.tie_weights=false"],
    "frozen in part": ["finetuning.freeze=2", "model.tie_weights=false", "trainer.accumulate=2"],
    "frozen, recomputed": ["finetuning.freeze=1", "model.tie_weights=false", "checkpointing=full"],
    "frozen encoder": ["model=encoder_decoder", "task=span_corruption", "data.packing=stream", "finetuning.freeze=3"],
    "in 16 bits": ["precision=bf16-mixed"],
    "in 16 bits, recomputed": ["precision=bf16-mixed", "checkpointing=full", "model.d_model=128"],
}


def composed(*overrides: str) -> dict[str, Any]:
    return compose_checked("train", [*SMALL, *overrides])


QUICK = ("plain", "mixers recomputed")
"""The cases that show both ways of saving; the others are slow."""


@pytest.mark.slow
@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[] if case in QUICK else [pytest.mark.slow]) for case in CASES]
)
def test_bytes_of_a_step_are_within_five_percent_of_what_a_meter_sees(case: str) -> None:
    config = composed(*CASES[case])
    before = living_tensors()
    trained = TimedModel(config)
    trained.train(1)
    with TensorMeter(living_tensors(), ignored=before) as meter:
        trained.train(1)
    runs, layout = RunPlanner(config, "cpu"), layout_of(config)
    rows = -(-runs.batch.num_samples // layout.accumulate)
    assert runs.layout_costs.memory(layout, rows).total == pytest.approx(meter.peak, rel=0.05)


OFFLOADED = {
    "plain": [],
    "wide": ["model.d_model=128", "model.num_layers=6", "model/feedforward=swiglu"],
    "in 16 bits, in parts": ["precision=bf16-mixed", "trainer.accumulate=2", "model.num_layers=6"],
    "translation": ["model=encoder_decoder", "task=span_corruption", "data.packing=stream"],
    "experts": ["model/feedforward=moe", "model.feedforward.num_experts=4"],
}


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("case", OFFLOADED)
def test_bytes_of_an_offloaded_step_are_those_of_a_device_with_another_memory_beside_it(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = with_outside_memory(monkeypatch)
    monkeypatch.setattr(StepReplay, "offloads", True)
    config = composed("checkpointing=offload", *OFFLOADED[case])
    before = living_tensors()
    trained = TimedModel(config)
    trained.train(1)
    moved = outside.num_bytes
    with TensorMeter(living_tensors(), ignored=before) as meter:
        trained.train(1)
    runs, layout = RunPlanner(config, "cpu"), layout_of(config)
    rows = -(-runs.batch.num_samples // layout.accumulate)
    planned = runs.layout_costs.memory(layout, rows)
    assert planned.total == pytest.approx(meter.peak, rel=0.05)
    assert planned.host * layout.accumulate == pytest.approx(outside.num_bytes - moved, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "bf16-true"])
def test_nothing_of_a_block_outlives_its_backward_pass(precision: str) -> None:
    runs = RunPlanner(composed(f"precision={precision}"), "cuda")
    (blocks,) = runs.layout_costs.kinds_of_blocks
    assert blocks.at(2).of(LEFT) == blocks.at(2, "recompute_mixers").of(LEFT) == 0
    assert blocks.at(2, "offload").of(LEFT) == 0


@pytest.mark.slow
@pytest.mark.parametrize("mixer", ["softmax_attention", "retention", "mamba2"])
def test_blocks_save_what_the_ledger_declares(mixer: str) -> None:
    runs = RunPlanner(composed(f"model/mixer={mixer}", "model/position=none"), "cpu")
    (blocks,) = runs.layout_costs.kinds_of_blocks
    assert len(blocks.paths) == 3, "blocks that are alike are replayed once"
    declared = sum(row.costs.activation_bytes for row in runs.costs.rows if row.path.startswith("stack.blocks.0."))
    for rows in (1, 2, 7):
        assert blocks.at(rows).of(SAVED) == pytest.approx(rows * declared, rel=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [2, 24])
def test_shorter_lengths_hold_what_a_long_wide_row_does(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wide block of few tokens has its peak where it makes the gradients of its weights."""

    def planned() -> float:
        config = composed(
            "model/mixer=mamba2", "model/position=none", "model/feedforward=swiglu", "model.d_model=512",
            "model.num_layers=1", "data.context_length=2048", "data.packing=stream", f"data.batch_size={batch}",
        )  # fmt: skip
        return RunPlanner(config, "cuda").layout_costs.memory(Layout(), batch).total

    whole = planned()
    monkeypatch.setattr(replayed_lengths, "LONGEST", 1024)
    monkeypatch.setattr(replayed_lengths, "_LINEAR", (256, 384, 512))
    assert planned() == pytest.approx(whole, rel=1e-2)


@pytest.mark.parametrize("capacity", ["null", "0.5"])
@pytest.mark.parametrize(
    "experts", [choice.name for choice in choices("model/feedforward") if choice.name.startswith("moe")]
)
def test_tokens_without_numbers_are_shared_out_among_experts(experts: str, capacity: str) -> None:
    """A replayed step has no numbers to tell where a token goes and which is padding."""
    config = composed(f"model/feedforward={experts}", f"model.feedforward.capacity={capacity}")
    width, node = 32, {key: value for key, value in config["model"]["feedforward"].items() if key != "_partial_"}
    with FakeTensorMode():
        layer = make({**node, "d_model": width}).train()
        tokens = torch.zeros(3, 8, width, requires_grad=True)
        output = layer(tokens, Context(valid=torch.ones(3, 8, dtype=torch.bool)))
        output.sum().backward()
    assert output.shape == tokens.shape and tokens.grad is not None


def replayed_operations(monkeypatch: pytest.MonkeyPatch, on: str, *overrides: str) -> list[int]:
    """Return the number of operations of each pass that a plan replays."""
    passes: list[WorkMeter] = []
    count, started = WorkMeter.called, WorkMeter.__init__
    operations: dict[int, int] = {}

    def starting(meter: WorkMeter, *args: Any, **options: Any) -> None:
        started(meter, *args, **options)
        passes.append(meter)

    def called(meter: WorkMeter, *args: Any) -> Any:
        operations[id(meter)] = operations.get(id(meter), 0) + 1
        return count(meter, *args)

    with monkeypatch.context() as patch:
        patch.setattr(WorkMeter, "__init__", starting)
        patch.setattr(WorkMeter, "called", called)
        planned = plan(composed("model.num_heads=4", "precision=bf16-mixed", *overrides), on)
    assert all(each.fits or each.reason for each in planned.layouts)
    return [operations[id(meter)] for meter in passes]


@pytest.mark.slow
def test_a_plan_replays_no_more_for_more_layers_layouts_or_words(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = replayed_operations(monkeypatch, "h100", "model.vocab_size=2000")
    grown = replayed_operations(monkeypatch, "h100x16", "model.vocab_size=2000000", "model.num_layers=24")
    assert len(grown) <= len(plain), "layouts share their replays, and blocks that are alike are replayed once"
    assert max(grown) < 3 * max(plain), "chunks of logits that are alike are replayed once"


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_chunks_that_are_alike_count_as_if_each_were_replayed(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype
) -> None:
    monkeypatch.setitem(chunked_cross_entropy.CHUNK_ELEMENTS, "cpu", 64 * 100)
    monkeypatch.setitem(chunked_cross_entropy.CACHED_ELEMENTS, "cpu", 10 * 100)

    def figures(workspace: Callable[[WorkMeter], Workspace]) -> tuple[int, dict[Any, float]]:
        with FakeTensorMode():
            features, weight = (torch.empty(n, 16, dtype=dtype, requires_grad=True) for n in (1001, 100))
            targets = torch.empty(1001, dtype=torch.int64)
            with WorkMeter(1.0, [features, weight]) as meter:
                cross_entropy_sum(features, weight, None, targets, workspace=workspace(meter)).backward()
        return meter.peak, dict(meter.work)

    assert figures(lambda meter: PlannedWorkspace(meter, "cpu")) == figures(lambda _: Workspace())


@pytest.mark.slow
def test_a_plan_for_a_gpu_is_the_same_on_every_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for has_units in (False, True):
        monkeypatch.setattr(chunked_cross_entropy, "_has_units", lambda _, has=has_units: has)
        runs = RunPlanner(composed("precision=bf16-mixed"), "cuda")
        seen.append(runs.layout_costs.seconds(Layout(), 2, speed_of(device_sheets()["h100-sxm"])))
    assert seen[0] == seen[1]


@pytest.fixture(scope="module")
def eight() -> Plan:
    return plan(composed("model.num_heads=4"), "h100x8", price=2.0, tokens=1e9)


def find(planned: Plan, **fields: Any) -> Any:
    (result,) = (
        each for each in planned.layouts if all(getattr(each.layout, name) == value for name, value in fields.items())
    )
    return result


@pytest.mark.slow
def test_shards_hold_less_and_recomputing_saves_less(eight: Plan) -> None:
    copies, shards = (
        find(eight, sharding=kind, tensor_parallel=1, recomputed="none").memory for kind in ("ddp", "full")
    )
    assert copies.weights == pytest.approx(8 * shards.weights) and copies.optimizer == pytest.approx(
        8 * shards.optimizer
    )
    saved = [find(eight, sharding="ddp", recomputed=kind).memory.activations for kind in ("none", "every_k", "full")]
    assert saved == sorted(saved, reverse=True) and saved[0] > saved[-1]


@pytest.mark.slow
def test_time_and_cost_follow_from_the_step(eight: Plan) -> None:
    best = eight.best
    assert best is not None and best.step is not None and best.price is not None
    assert best.hours * 3600 == pytest.approx(best.step.total * eight.steps)
    assert best.price == pytest.approx(best.hours * 8 * 2.0)
    assert eight.tokens >= 1e9 and best.hours == min(each.hours for each in eight.layouts if each.fits)
    assert json.loads(json.dumps(eight.to_dict()))["best"] == list(best.overrides)


def test_layouts_that_cannot_be_are_refused_by_the_sentence_of_training(eight: Plan) -> None:
    divided = find(eight, tensor_parallel=8, recomputed="none")
    assert not divided.fits and "model.num_heads=4" in divided.reason


@pytest.mark.slow
def test_what_a_plan_says_to_type_has_that_layout(eight: Plan) -> None:
    for each in eight.layouts:
        if each.fits:
            words = [word for word in each.overrides if not word.startswith("trainer.devices")]
            config = composed("model.num_heads=4", *words, f"trainer.devices={each.layout.devices}")
            assert layout_of(config).sharding == each.layout.sharding
            assert layout_of(config).shards == each.layout.shards


@pytest.mark.slow
def test_a_device_too_small_for_the_model_is_said_to_be() -> None:
    runs = RunPlanner(composed(), "cuda")
    speed = speed_of(device_sheets()["t4"])
    planned = runs.planned(Layout(), speed, 1000.0, steps=1, price=None)
    assert planned.reason == "one row does not fit" and planned.memory is not None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h100x8", ("h100-sxm", 8)),
        ("H100", ("h100-sxm", 1)),
        ("mi300x", ("mi300x", 1)),
        ("mi300x x 16", ("mi300x", 16)),
        ("rtx4090", ("rtx4090", 1)),
        ("rtx4090x2", ("rtx4090", 2)),
        ("cpux2", ("cpu", 2)),
    ],
)
def test_devices_are_read_as_people_write_them(text: str, expected: tuple[str, int]) -> None:
    assert parsed_devices(text) == expected


def test_an_unknown_device_is_refused_with_one_that_is_near() -> None:
    with pytest.raises(ConfigurationError, match="h100"):
        parsed_devices("h10x8")


@pytest.mark.parametrize("name", sorted(device_sheets()))
def test_every_device_has_a_source_and_can_be_planned_for(name: str) -> None:
    sheet = device_sheets()[name]
    assert sheet.source.startswith("https://") and name in speeds()
    speed = speed_of(sheet)
    assert speed.memory > 2**33 and speed.link > 0 and speed.products[torch.float32][0][1] > 1e12


def test_layouts_of_several_machines_include_groups_of_one() -> None:
    kinds = {layout.sharding for layout in layouts(16, 8)}
    assert kinds == {"ddp", "full", "grad_op", "hybrid"}
    assert {layout.shards for layout in layouts(16, 8) if layout.sharding == "hybrid"} == {8}


@pytest.mark.slow
def test_the_command_lists_devices_and_wants_some(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--devices"]) == 0 and "h100-sxm" in capsys.readouterr().out
    assert main(["plan"]) == 2 and "--on h100x8" in capsys.readouterr().err
    assert main(["plan", "--on", "l4x2", "--price", "1", *SMALL]) == 0
    assert "the cheapest that fits" in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_of_a_study_has_as_many_devices_as_make_it_cheapest() -> None:
    small, alone = cheapest_plan(composed(), "h100x8", price=2.0), plan(composed(), "h100", price=2.0)
    assert small.devices == 1 and small.best == alone.best, "messages would cost more than they save"
    wide = cheapest_plan(composed("model.d_model=8192", "model.num_layers=24"), "h100x16", price=2.0)
    assert 1 < wide.devices <= 16 and wide.best is not None and wide.best.price is not None
    assert wide.best.price == pytest.approx(2.0 * wide.device_hours)


@pytest.mark.slow
def test_a_study_is_planned_on_devices_by_both_commands(capsys: pytest.CaptureFixture[str]) -> None:
    devices = ["--on", "l4x2", "--price", "1", "--json"]
    assert main(["study", "norms_small", "--plan", *devices]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert main(["plan", "--study", "norms_small", *devices]) == 0
    assert json.loads(capsys.readouterr().out) == planned
    assert {arm: each["runs"] for arm, each in planned["arms"].items()} == {"layer_norm": 3, "rms_norm": 3}
    assert main(["study", "norms_small", "--plan", *devices[:-1]]) == 0
    shown = capsys.readouterr().out
    assert "all runs: " in shown and " of a device, at least " in shown and "with runs side by side" in shown
    assert not re.search(r"\de-\d", shown), "times and costs of small runs are in a unit of their size"
    assert main(["study", "norms_small", *devices]) == 2 and "--plan --on h100x8" in capsys.readouterr().err


TYPED = [
    [],
    ["checkpointing=full", "trainer.accumulate=4"],
    ["checkpointing=every_k", "checkpointing.every=3"],
    ["trainer=fsdp", "trainer.devices=4", "trainer.shard_among=2", "trainer.reshard=false"],
    ["trainer=tensor_parallel"],
    ["trainer=ddp", "trainer.num_nodes=2", "checkpointing=attention"],
]


@pytest.mark.slow
def test_what_a_plan_names_trains_in_its_layout_whatever_was_typed_before(draw_seed: int) -> None:
    """Training starts from what was typed for the plan, with the words of the layout after it."""
    draw = random.Random(draw_seed)
    every = [*layouts(1, 8), *layouts(4, 8), *layouts(8, 4)]
    for _ in range(12):
        typed, layout = draw.choice(TYPED), draw.choice(every).with_parts(draw.choice((1, 2)))
        words = layout.overrides(fields_of(composed("model.num_heads=4", *typed)))
        trained = composed("model.num_heads=4", *typed, *words)
        assert fields_of(trained) == {**fields_of(trained), **layout.fields()}, (typed, words)
        assert layout.overrides(fields_of(trained)) == (), "what is typed already is not named again"
        assert layout_of(trained).shards == layout.shards


@pytest.mark.slow
@pytest.mark.parametrize(
    "parts", [["model/feedforward=moe"], ["model=encoder_only", "task=masked_lm", "model/norm=batch_norm"]]
)
def test_a_plan_splits_no_batch_that_training_would_not(parts: list[str]) -> None:
    """A micro-batch that has to be smaller than the batch is refused where statistics are of the whole batch."""
    runs = RunPlanner(composed("data.batch_size=64", *parts), "cuda")
    fits_half = runs.layout_costs.memory(Layout(), 40).total
    planned = runs.planned(Layout(), speed_of(device_sheets()["t4"]), fits_half, steps=1, price=None)
    assert planned.reason is not None and "trainer.accumulate=2" in planned.reason

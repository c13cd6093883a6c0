"""Benchmarks: what is varied, rows made long, memory that is expected, and a small one from end to end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from headtohead.cli import main
from headtohead.config.build import build_task
from headtohead.config.compose.composition import compose_checked
from headtohead.config.origins.from_weights import build_data
from headtohead.data.batches.batch import IGNORED
from headtohead.diagnostics.bench.benchmark_plan import BenchmarkCase, BenchPlan, Variant
from headtohead.diagnostics.bench.benchmark_results import BenchmarkResults
from headtohead.diagnostics.bench.benchmark_run import MemoryGuard, bench, plot_benchmark
from headtohead.diagnostics.bench.case_measurement import (
    CaseMeasurement,
    batch_of_length,
    image_side,
    measure,
    spec_of_length,
)

GIB = 2**30
FEW = ["data.num_train=200", "data.num_validation=20", "data.num_test=20"]
TINY = ["model/size=tiny", "trainer.accelerator=cpu", "trainer.threads=1", "bench.seconds=0.01"]


def at(length: int, variant: Variant | None = None) -> BenchmarkCase:
    return BenchmarkCase("step", variant or Variant(), length)


def test_one_at_a_time_varies_a_single_axis_of_the_base() -> None:
    plan = BenchPlan(batch_sizes=[1, 4], precisions=["32-true", "bf16-mixed"], attention=["fused", "explicit"])
    labels = [variant.label(plan.base) for variant in plan.variants()]
    assert labels == ["base", "batch_size=4", "precision=bf16-mixed", "attention=explicit"]


def test_all_combines_every_value_with_every_other() -> None:
    plan = BenchPlan(batch_sizes=[1, 4], attention=["fused", "explicit"], combine="all")
    assert len(set(plan.variants())) == 4


def test_checkpointing_is_measured_where_there_is_a_backward_pass_only() -> None:
    plan = BenchPlan(lengths=[8], checkpointing=["none", "full"])
    measured = {case.measure for case in plan.cases() if case.variant.checkpointing == "full"}
    assert measured == {"step"}


@pytest.mark.parametrize(("field", "value"), [("lengths", []), ("lengths", [8, 8]), ("measures", [])])
def test_lists_without_sense_are_refused(field: str, value: list[int]) -> None:
    with pytest.raises(ValueError, match=rf"bench\.{field}="):
        BenchPlan(**{field: value})


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        ([], "tokens"),
        (["model=encoder_only", "task=masked_lm"], "tokens"),
        (["model=encoder_only", "task=classification", "data=sentence_grammar"], "tokens"),
        (["model=encoder_decoder", "task=seq2seq", "data=number_words"], "decoder_tokens"),
    ],
)
@pytest.mark.parametrize("length", [7, 300])
def test_rows_have_the_length_that_is_asked_for_and_hold_no_padding(
    overrides: list[str], field: str, length: int
) -> None:
    config = compose_checked("bench", [*overrides, *FEW])
    data = build_data(config)
    batch = batch_of_length(build_task(config, data.spec()), data, batch_size=3, length=length, patch=None)
    assert getattr(batch, field).shape == (3, length)
    assert batch.valid is None and batch.decoder_valid is None
    assert not (batch.tokens == data.spec().pad_id).any()
    assert batch.targets is not None and (batch.targets != IGNORED).any()
    if batch.targets.ndim == 2:
        assert batch.targets.shape == (3, length)


@pytest.mark.slow
def test_targets_stay_with_their_tokens_when_rows_are_repeated() -> None:
    config = compose_checked("bench", ["data=associative_recall"])
    data = build_data(config)
    task = build_task(config, data.spec())
    once = task.view(data.split("train").batch(torch.arange(2).numpy()), seed=0, epoch=0)
    batch = batch_of_length(task, data, batch_size=2, length=2 * data.spec().max_length, patch=None)
    assert once.tokens is not None and once.targets is not None
    assert torch.equal(batch.tokens, torch.cat([once.tokens] * 2, dim=1))
    assert torch.equal(batch.targets, torch.cat([once.targets] * 2, dim=1))


@pytest.mark.slow
def test_images_have_the_nearest_square_number_of_patches() -> None:
    config = compose_checked("bench", ["model=vision_transformer", "task=image_classification", "data=digits"])
    data = build_data(config)
    batch = batch_of_length(build_task(config, data.spec()), data, batch_size=1, length=60, patch=2)
    assert image_side(60, 2) == 16
    assert batch.images is not None and batch.images.shape[2:] == (16, 16)
    assert spec_of_length(data.spec(), length=60, patch=2).image_shape == (data.spec().image_shape[0], 16, 16)


def test_memory_is_expected_to_grow_as_it_did_between_the_last_two_lengths() -> None:
    guard = MemoryGuard(share=0.8)
    assert guard.refusal(at(512), free=GIB) is None, "nothing is known yet"
    guard.learn(at(512), GIB)
    assert guard.expected(at(1024)) == pytest.approx(4.4 * GIB), "one length alone: the square is assumed"
    guard.learn(at(1024), 2 * GIB)
    assert guard.expected(at(2048)) == pytest.approx(4.4 * GIB, rel=1e-6), "in proportion, with a tenth on top"
    guard.learn(at(2048), 8 * GIB)
    assert guard.expected(at(4096)) == pytest.approx(35.2 * GIB, rel=1e-6), "never more than the square"


def test_a_case_is_left_out_before_it_fills_the_memory() -> None:
    guard = MemoryGuard(share=0.5)
    guard.learn(at(512), GIB)
    assert guard.refusal(at(1024), free=9 * GIB) is None
    refusal = guard.refusal(at(1024), free=8 * GIB)
    assert refusal is not None and "4.4 GiB" in refusal and "8.0 GiB" in refusal
    guard.end(at(1024))
    assert "at length 1024" in str(guard.refusal(at(2048), free=999 * GIB))
    assert guard.refusal(at(2048, Variant(attention="explicit")), free=GIB) is None, "other variants go on"


def findings_of(seconds: dict[str, list[float]], lengths: list[int]) -> BenchmarkResults:
    plan = BenchPlan(measures=["step"], lengths=lengths, attention=["fused", "explicit"])
    variants = {variant.attention: variant for variant in plan.variants()}
    result = [
        CaseMeasurement(at(n, variants[name]), length=n, seconds=s, peak_bytes=int(1e6 * s), tokens=n, flops=n * n)
        for name, times in seconds.items()
        for n, s in zip(lengths, times, strict=True)
    ]
    return BenchmarkResults(plan, {"name": "a device"}, {"name": "a bench"}, tuple(result))


def test_growth_is_the_exponent_of_a_power_law() -> None:
    lengths = [128, 256, 512, 1024]
    findings = findings_of({"fused": [3 * n for n in lengths], "explicit": [7.0 * n * n for n in lengths]}, lengths)
    linear, quadratic = (findings.growth("step", variant) for variant in findings.plan.variants())
    assert linear.time == pytest.approx(1) and linear.time_at_the_end == pytest.approx(1)
    assert quadratic.time == pytest.approx(2) and quadratic.memory == pytest.approx(2, abs=1e-3)
    assert linear.flops == pytest.approx(2)


def test_a_saving_compares_at_the_longest_length_that_both_reached() -> None:
    findings = findings_of({"fused": [1.0, 2.0], "explicit": [2.0, 8.0]}, [128, 256])
    (saving,) = findings.savings()
    assert (saving.variant, saving.length, saving.time) == ("attention=explicit", 256, 0.25)


@pytest.mark.slow
def test_a_picture_is_drawn_of_what_was_found(tmp_path: Path) -> None:
    plot_benchmark(findings_of({"fused": [1.0, 2.0], "explicit": [2.0, 8.0]}, [128, 256]), tmp_path / "bench.png")
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("precision", ["32-true", "64-true", "bf16-true", "bf16-mixed"])
def test_every_measure_works_in_every_precision(precision: str) -> None:
    config = compose_checked("bench", [*TINY, *FEW])
    for name in ("step", "forward", "evaluation"):
        case = BenchmarkCase(name, Variant(precision=precision), 16)
        result = measure(config, case, seconds=0.0)
        assert result.status == "measured" and result.seconds > 0 and result.length == 16


def test_the_declared_flops_are_those_of_the_length_measured() -> None:
    config = compose_checked("bench", [*TINY, *FEW])
    short, long = (measure(config, BenchmarkCase("step", Variant(batch_size=2), n), seconds=0.0) for n in (32, 64))
    assert long.tokens == 2 * 64
    assert 2 < long.flops / short.flops < 4


@pytest.mark.process
def test_explicit_attention_holds_the_score_matrices_that_fused_attention_does_not() -> None:
    overrides = [
        *TINY,
        "bench.lengths=[1024]",
        "bench.measures=[forward]",
        "bench.rounds=1",
        "bench.precisions=[32-true]",
    ]
    fused, explicit = bench(compose_checked("bench", [*overrides, *FEW])).measurements
    assert explicit.case.variant.attention == "explicit"
    assert explicit.peak_bytes > fused.peak_bytes + 1024**2 * 4


@pytest.mark.process
def test_a_benchmark_is_told_saved_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    lists = ["bench.lengths=[16,32]", "bench.rounds=1", "bench.measures=[step]", "bench.attention=[fused]"]
    code = main(["bench", *TINY, *lists, f"output_dir={tmp_path}", "--json"])
    message = json.loads(capsys.readouterr().out)
    assert code == 0
    (folder,) = (tmp_path / "bench").iterdir()
    assert json.loads((folder / "bench.json").read_text()) == message
    assert (folder / "bench.png").stat().st_size > 10_000
    assert {row["variant"] for row in message["measurements"]} == {"base", "precision=bf16-mixed", "checkpointing=full"}
    assert all(row["status"] == "measured" for row in message["measurements"])


@pytest.mark.process
def test_a_case_that_fails_is_a_result_beside_the_others() -> None:
    """A learned table of 32 positions cannot reach 64 tokens."""
    lists = ["bench.lengths=[32,64]", "bench.rounds=1", "bench.measures=[forward]", "bench.precisions=[32-true]"]
    config = compose_checked("bench", [*TINY, *lists, "model.max_length=32", "bench.attention=[fused]"])
    short, long = bench(config).measurements
    assert short.status == "measured"
    assert long.status == "failed" and "model.max_length=32" in long.reason


@pytest.mark.parametrize(
    "override", ["bench.lengths=[0]", "bench.lengths=[a]", "bench.precisions=[fp8]", "bench.lenghts=[8]"]
)
def test_wrong_plans_are_refused_by_name(override: str, capsys: pytest.CaptureFixture) -> None:
    assert main(["bench", override]) == 2
    assert "bench.len" in (error := capsys.readouterr().err) or "bench.precisions" in error


@pytest.mark.process
def test_an_interrupted_benchmark_keeps_what_it_measured() -> None:
    lists = ["bench.lengths=[16,32]", "bench.rounds=1", "bench.measures=[forward]", "bench.precisions=[32-true]"]
    begun = []

    def stop_at_the_second(case: BenchmarkCase) -> None:
        begun.append(case)
        if len(begun) == 2:
            raise KeyboardInterrupt

    result = bench(compose_checked("bench", [*TINY, *lists, "bench.attention=[fused]"]), report=stop_at_the_second)
    assert [(m.status, m.reason) for m in result.measurements] == [("measured", ""), ("left_out", "interrupted")]

"""Models spread over two processes, sharded or divided, or over four, both: curves and checkpoints of one process."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from headtohead.components.checkpointing import Checkpointing
from headtohead.components.streams import Sphere
from headtohead.config.compose.choices import choices
from headtohead.records.record import RunRecord
from headtohead.training.checkpoints import load, load_best
from headtohead.training.optim.optimizers import adam, ademamix, lion, muon, sgd
from headtohead.training.run import train
from training.programs import records_of
from training.runs import curve, make_model, parts
from training.test_finetuning import drawn

pytestmark = [pytest.mark.slow, pytest.mark.process]
WAYS = ("sharded", "divided")
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "split and clipped": {"accumulate": 2, "gradient_clip": 0.1},
    "lion": {"optimizer": partial(lion, lr=1e-3)},
    "muon": {"optimizer": partial(muon, lr=3e-3)},
    "ademamix": {"optimizer": partial(ademamix, lr=1e-3, ramp=9)},
    "adam": {"optimizer": partial(adam, lr=1e-3)},
    "sgd": {"optimizer": partial(sgd, lr=0.1)},
    "recomputed": {"checkpointing": Checkpointing("full")},
    "frozen": {"make_model": drawn(1)},
    "frozen body": {"make_model": drawn("body")},
    "on a sphere": {"make_model": partial(make_model, dropout=0.0, residual=partial(Sphere, unit_weights=True))},
}
LOSSES = ("train/loss", "validation/loss", "test/loss")
NORMS = ("gradient_norm/stack.blocks.1", "update_norm/stack.blocks.1")
SPREAD = """
SHARDED = {"strategy": "model_parallel", "devices": 2}
DIVIDED = SHARDED | {"tensor_parallel": 2}
"""
TRAINED = f"""{SPREAD}
from training.test_spread_models import CASES

for case in CASES.values():
    for way in (SHARDED, DIVIDED):
        tell(train(parts(folder, **({{"make_model": still}} | case | way))))
"""


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], RunRecord]:
    """Every case in both ways."""
    result = records_of(TRAINED, tmp_path_factory.mktemp("spread"))
    return dict(zip([(case, way) for case in CASES for way in WAYS], result, strict=True))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunRecord]:
    """Every case in one process."""
    folder = tmp_path_factory.mktemp("alone")
    return {name: train(one_process(folder, **case)) for name, case in CASES.items()}


def one_process(folder: Path, **changes: Any) -> Any:
    return parts(folder, **({"make_model": partial(make_model, dropout=0.0)} | changes))


def test_every_optimizer_is_tried() -> None:
    usual, refused = {"adamw"}, {"soap", "schedule_free"}  # by tests/config/test_refusals.py
    assert {choice.name for choice in choices("optimizer")} == usual | refused | {
        name for name in CASES if "optimizer" in CASES[name]
    }


@pytest.mark.sampled(6)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES)
def test_a_model_on_two_processes_has_the_curves_of_one(
    records: dict[tuple[str, str], RunRecord], alone: dict[str, RunRecord], case: str, way: str
) -> None:
    """Losses, and the norms of gradients and updates by layer; a sign may turn where a gradient is next to nothing."""
    one, two = alone[case], records[case, way]
    assert one.status == two.status == "finished"
    rel = 1e-3 if case == "lion" else 1e-5
    norms = () if case == "frozen body" else NORMS
    for name in (*LOSSES, *norms):
        assert curve(two.path, name) == pytest.approx(curve(one.path, name), rel=rel), name
    assert two.metrics["test"] == pytest.approx(one.metrics["test"], rel=rel)
    assert two.progress.tokens == one.progress.tokens and two.progress.flops == one.progress.flops


@pytest.mark.parametrize("way", WAYS)
def test_checkpoints_are_whole_and_plain_and_those_of_one_process(
    records: dict[tuple[str, str], RunRecord], alone: dict[str, RunRecord], way: str
) -> None:
    one, two = alone["plain"].path, records["plain", way].path
    assert one is not None and two is not None
    make_model().load_state_dict(load_best(two)["model"])
    last, reference = (load(path / "checkpoints" / "last.ckpt") for path in (two, one))
    for ours, theirs in (
        (load_best(two)["model"], load_best(one)["model"]),
        (last["state_dict"], reference["state_dict"]),
    ):
        assert ours.keys() == theirs.keys()
        for name, held in ours.items():
            assert type(held) is torch.Tensor
            torch.testing.assert_close(held, theirs[name], atol=1e-5, rtol=1e-4)
    (state,), (expected,) = last["optimizer_states"], reference["optimizer_states"]
    assert [group["params"] for group in state["param_groups"]] == [g["params"] for g in expected["param_groups"]]
    for position, held in expected["state"].items():
        for name, tensor in held.items():
            torch.testing.assert_close(state["state"][position][name], tensor, atol=1e-5, rtol=1e-3)


def test_a_run_goes_on_with_any_number_of_processes(tmp_path: Path) -> None:
    """Six steps in one way and six in another, with momenta, clipping and a schedule that goes on."""
    begins = SPREAD + "for way in (SHARDED, DIVIDED): tell(train(parts(folder, make_model=still, max_steps=6, **way)))"
    sharded, divided = (record.path for record in records_of(begins, tmp_path))
    first, second = (train(one_process(tmp_path, max_steps=6)).path for _ in range(2))
    goes_on = f"""{SPREAD}
for path, way in (({str(first)!r}, SHARDED), ({str(sharded)!r}, DIVIDED)):
    tell(train(parts(folder, make_model=still, resume_from=Path(path), **way)))
"""
    result = [*records_of(goes_on, tmp_path), train(one_process(tmp_path, resume_from=divided))]
    expected = train(one_process(tmp_path, resume_from=second))
    for record in result:
        assert record.status == "finished" and record.timing.starts == 2
        for name in LOSSES:
            assert curve(record.path, name) == pytest.approx(curve(expected.path, name), rel=1e-5), name


def test_four_processes_shard_and_divide_at_once(tmp_path: Path) -> None:
    both = 'tell(train(parts(folder, make_model=still, strategy="model_parallel", devices=4, tensor_parallel=2)))'
    (record,) = records_of(both, tmp_path)
    assert curve(record.path) == pytest.approx(curve(train(one_process(tmp_path)).path), rel=1e-5)


def test_a_sharded_model_offloads_activations_and_no_weights(tmp_path: Path) -> None:
    """Gathered weights take the place of shards within the forward pass, and stay."""
    offloaded = """
from headtohead.components import checkpointing
from outside_memory import OutsideMemory

usual = checkpointing.offload
kind, bytes_of_each = checkpointing.Checkpointing("offload"), []
for strategy in ("ddp", "model_parallel"):
    outside = OutsideMemory()
    checkpointing.offload = partial(usual, away=outside.away, back=outside.back)
    tell(train(parts(folder, make_model=still, strategy=strategy, devices=2, checkpointing=kind)))
    bytes_of_each.append(outside.num_bytes)
assert bytes_of_each[0] == bytes_of_each[1] > 0, bytes_of_each
"""
    alone = train(one_process(tmp_path))
    for record in records_of(offloaded, tmp_path):
        assert curve(record.path) == pytest.approx(curve(alone.path), rel=1e-5)


FAMILIES = {
    "encoder_only": ["task=masked_lm", "data=grammar_lm", "data.context_length=16"],
    "encoder_decoder": ["task=seq2seq", "data=number_words", "model/position=sinusoidal"],
    "vision_transformer": ["task=image_classification", "data=digits", "model/position=learned"],
}
SMALL = [
    "model.d_model=32", "model.num_heads=2", "model.num_layers=2", "trainer.max_steps=4", "trainer.validate_every=2",
    "trainer.validation_batches=2", "trainer.log_every=1", "trainer.progress_bar=false", "trainer.accelerator=cpu",
    "tracking=none", "data.batch_size=8",
]  # fmt: skip
TEXT = ["data.num_train=200", "data.num_validation=20", "data.num_test=20"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_can_be_spread(tmp_path: Path, family: str) -> None:
    """The runs use configurations, metrics that write and samples."""
    import headtohead as h2h

    overrides = [f"model={family}", *FAMILIES[family], *SMALL, *(TEXT if family != "vision_transformer" else [])]
    program = f"""
import headtohead as h2h
for way in ("fsdp", "tensor_parallel"):
    tell(h2h.train(h2h.compose("train", {overrides!r} + [f"trainer={{way}}", f"output_dir={{folder}}"])))
"""
    one = h2h.train(h2h.compose("train", [*overrides, f"output_dir={tmp_path}"]))
    for record in records_of(program, tmp_path):
        assert record.status == "finished"
        for name in LOSSES:
            assert curve(record.path, name) == pytest.approx(curve(one.path, name), rel=1e-5), name
        assert record.metrics["test"] == pytest.approx(one.metrics["test"], rel=1e-4)
        tables = {path.relative_to(record.path) for path in (record.path / "tables").rglob("*")}
        assert tables == {path.relative_to(one.path) for path in (one.path / "tables").rglob("*")}

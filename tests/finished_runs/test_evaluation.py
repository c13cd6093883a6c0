"""A finished run measured again: as it was, by windows, at other lengths, on other data; and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from headtohead import api
from headtohead.config.compose.choices import choices
from headtohead.config.compose.composition import compose
from headtohead.config.errors import ConfigurationError
from headtohead.config.origins.revised_run import revised
from headtohead.data.cache.cached_source import CachedSource
from headtohead.data.data_source import DataError
from headtohead.finished_runs.evaluation.evaluate import evaluate
from headtohead.finished_runs.evaluation.evaluation_request import EvaluationRequest
from headtohead.finished_runs.evaluation.evaluation_results import Evaluation, EvaluationPoint
from headtohead.finished_runs.evaluation.loss_plot import plot_losses
from headtohead.finished_runs.finished_run import FinishedRun, open_run

LENGTH = 12
WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog")


def text(num_lines: int, seed: int) -> str:
    draw_ = np.random.default_rng(seed)
    return "\n".join(" ".join(draw_.choice(WORDS, draw_.integers(2, 7))) for _ in range(num_lines)) + "\n"


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = tmp_path_factory.mktemp("evaluation")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(made / "cache"))
        (made / "text.txt").write_text(text(60, 0))
        (made / "other.txt").write_text(text(60, 1).replace("fox", "Füchse"), encoding="utf-8")
        yield made


def trained(folder: Path, *overrides: str) -> FinishedRun:
    config = api.compose(
        "train",
        [
            "model.d_model=16", "model.num_layers=1", "model.num_heads=2", "data.batch_size=8",
            "trainer.accelerator=cpu", "trainer.max_steps=2", "trainer.validate_every=2", "trainer.progress_bar=false",
            "tracking=none", "probe=none", f"output_dir={folder}/outputs", *overrides,
        ],
    )  # fmt: skip
    record = api.train(config)
    assert record.status == "finished" and record.path is not None
    return open_run(record.path)


def on_text(folder: Path, *overrides: str) -> FinishedRun:
    about = ["data=text", f"data.path={folder}/text.txt", f"data.context_length={LENGTH}", "data.test_share=0.2"]
    return trained(folder, *about, *overrides)


@pytest.fixture(scope="module")
def stream(folder: Path) -> FinishedRun:
    return on_text(folder, "data.packing=stream", "data.documents=line", "model.position.base=500")


@pytest.fixture(scope="module")
def lines(folder: Path) -> FinishedRun:
    return on_text(folder, "data.packing=none", "data.documents=line")


def only(evaluation: Evaluation) -> EvaluationPoint:
    (point,) = evaluation.points
    return point


def requested(run: FinishedRun, *overrides: str, **question: Any) -> EvaluationPoint:
    return only(evaluate(run, EvaluationRequest(overrides=overrides, **question)))


def documents(run: FinishedRun, split: str = "test") -> list[Tensor]:
    """The tokens of each document, straight from what was prepared."""
    assert isinstance(run.data, CachedSource)
    table = run.data.content.tables[split]["tokens"]
    return [torch.from_numpy(table[row].astype(np.int64)) for row in range(len(table))]


@torch.no_grad()
def one_by_one(run: FinishedRun, tokens: Tensor, length: int, stride: int) -> list[float]:
    """Each token's loss by a forward pass of its own, over the window that must score it."""
    losses = []
    for target in range(1, len(tokens)):
        start = max(0, -(-(target - length) // stride)) * stride
        logits = run.model(tokens[None, start:target])[0, -1]
        losses.append(float(F.cross_entropy(logits, tokens[target])))
    return losses


@pytest.mark.slow
@pytest.mark.parametrize("stride", [5, LENGTH])
def test_strided_loss_is_that_of_every_token_by_itself(lines: FinishedRun, stride: int) -> None:
    losses = [loss for tokens in documents(lines) for loss in one_by_one(lines, tokens, LENGTH, stride)]
    point = requested(lines, stride=stride)
    assert point.scored == len(losses) == sum(len(tokens) - 1 for tokens in documents(lines))
    assert point.metrics["loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    assert point.metrics["perplexity"] == pytest.approx(math.exp(np.mean(losses)), rel=1e-5)
    num_bytes = sum(len(lines.data.decode(tokens.tolist()).encode()) for tokens in documents(lines))
    assert point.metrics["bits_per_byte"] == pytest.approx(sum(losses) / math.log(2) / num_bytes, rel=1e-5)


@pytest.mark.slow
def test_strided_stream_is_one_long_document(stream: FinishedRun) -> None:
    tokens = torch.cat(documents(stream))
    losses = one_by_one(stream, tokens, 20, 7)
    point = requested(stream, stride=7, lengths=(20,))
    assert (point.length, point.scored) == (20, len(losses))
    assert point.metrics["loss"] == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.slow
def test_windows_that_do_not_overlap_are_ordinary_rows(lines: FinishedRun, stream: FinishedRun) -> None:
    apart, plain = requested(lines, stride=LENGTH), requested(lines)
    assert (apart.scored, apart.samples) == (plain.scored, plain.samples)
    assert apart.metrics == pytest.approx(plain.metrics)
    windows, rows = requested(stream, stride=LENGTH), requested(stream)
    assert 0 <= windows.scored - rows.scored < LENGTH, "packed rows leave out an end that fills no row"


def test_what_was_recorded_is_found_again(stream: FinishedRun) -> None:
    for split in ("validation", "test"):
        assert requested(stream, split=split).metrics == pytest.approx(stream.record.metrics[split])


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true"])
def test_a_run_is_measured_in_the_precision_that_is_requested(folder: Path, precision: str) -> None:
    """The precision of its training repeats the recorded results; the default is 32 bits."""
    run = on_text(folder, f"precision={precision}", "model.num_layers=2")
    recorded = run.record.metrics["test"]["loss"]
    result = evaluate(run, EvaluationRequest(overrides=(f"precision={precision}",)))
    assert result.precision == precision and only(result).metrics["loss"] == pytest.approx(recorded, abs=1e-7)
    usual = evaluate(run, EvaluationRequest())
    assert usual.precision == "32-true" and only(usual).metrics["loss"] != only(result).metrics["loss"]
    exact = evaluate(run, EvaluationRequest(overrides=("precision=64-true",)))
    assert exact.precision == "64-true"
    assert only(exact).metrics["loss"] == pytest.approx(only(usual).metrics["loss"], abs=1e-5)


def test_another_trainer_is_what_sets_it_apart(stream: FinishedRun) -> None:
    config = revised({**stream.config, "trainer": {**stream.config["trainer"], "accelerator": "auto"}}, ["trainer=cpu"])
    assert config["trainer"] == {**stream.config["trainer"], "accelerator": "cpu"}
    assert revised(stream.config, ["precision=bf16-mixed"])["precision"]["name"] == "bf16-mixed"
    assert revised(stream.config, ["precision.name=bf16-true"])["precision"]["name"] == "bf16-true"


@pytest.mark.parametrize(
    "trained_with",
    [
        {"accumulate": 4},
        {"devices": 8, "strategy": "ddp"},
        {"devices": 8, "num_nodes": 2, "strategy": "model_parallel", "shard_among": 4, "reshard": False},
        {"devices": 8, "strategy": "model_parallel", "tensor_parallel": 2, "accumulate": 2},
    ],
    ids=str,
)
def test_how_batches_were_split_in_training_plays_no_part(stream: FinishedRun, trained_with: dict[str, Any]) -> None:
    config = {**stream.config, "trainer": {**stream.config["trainer"], **trained_with}}
    changed = revised(config, ["data.batch_size=1", "precision=16-mixed"])
    assert changed["data"]["batch_size"] == 1 and changed["trainer"] == config["trainer"]


def test_more_in_sight_is_counted(stream: FinishedRun) -> None:
    plain, strided = requested(stream), requested(stream, stride=3)
    assert plain.mean_context == pytest.approx((LENGTH + 1) / 2)
    assert strided.mean_context is not None and LENGTH - 3 < strided.mean_context <= LENGTH


def test_losses_by_place_add_up_to_the_loss(stream: FinishedRun) -> None:
    point = requested(stream, by_position=True)
    assert point.places is not None and len(point.places.loss) == LENGTH and sum(point.places.tokens) == point.scored
    total = sum(loss * count for loss, count in zip(point.places.loss, point.places.tokens, strict=True))
    assert total / point.scored == pytest.approx(point.metrics["loss"], rel=1e-5)


@pytest.mark.slow
def test_lengths_make_a_point_each_a_file_and_a_picture(stream: FinishedRun, tmp_path: Path) -> None:
    result = evaluate(stream, EvaluationRequest(lengths=(6, 12, 24), by_position=True))
    assert [point.length for point in result.points] == [6, 12, 24]
    assert result.points[1].metrics == pytest.approx(requested(stream).metrics)
    assert len({point.data_hash for point in result.points}) == 3
    written = json.loads(Path(result.path).read_text())
    assert Path(result.path) == stream.folder / "evaluations" / "test-length_6_12_24.json"
    assert (written["trained_length"], written["points"][2]["length"]) == (LENGTH, 24)
    plot_losses([result, result], tmp_path / "a" / "b.png")
    assert (tmp_path / "a" / "b.png").read_bytes().startswith(b"\x89PNG")


def test_other_text_is_read_with_the_runs_own_tokenizer(stream: FinishedRun, folder: Path) -> None:
    point = requested(stream, f"data.path={folder}/other.txt", split="train")
    assert point.data_hash != requested(stream, split="train").data_hash
    assert point.scored > 500 and math.isfinite(point.metrics["loss"])


def test_other_source_is_read_as_the_run_read_its_own(stream: FinishedRun) -> None:
    point = requested(stream, "data=grammar_lm", "data.num_train=40", "data.num_validation=5", "data.num_test=5")
    assert point.mean_context == pytest.approx((LENGTH + 1) / 2), "rows are as long, and packed, as in training"


@pytest.mark.slow
def test_a_rotary_scaling_stretches_to_the_length_and_keeps_the_trained_base(stream: FinishedRun) -> None:
    plain = requested(stream, lengths=(24,))
    scaled = {
        name: requested(stream, f"model/position=rotary_{name}", lengths=(24,)) for name in ("linear", "ntk", "yarn")
    }
    assert all((point.position["factor"], point.position["base"]) == (2.0, 500.0) for point in scaled.values())
    assert len({round(point.metrics["loss"], 9) for point in (plain, *scaled.values())}) == 4
    provided = requested(stream, "model/position=rotary_linear", "model.position.factor=3", "model.position.base=700")
    assert (provided.position["factor"], provided.position["base"]) == (3.0, 700.0)
    one = requested(stream, "model/position=rotary_linear", lengths=(LENGTH,))
    assert one.metrics == pytest.approx(requested(stream).metrics), "stretched by nothing, a scaling is plain rotary"


@pytest.mark.slow
def test_a_table_of_positions_is_refused_beyond_its_end_and_slides_instead(folder: Path) -> None:
    run = on_text(folder, "data.packing=stream", "model/position=learned")
    with pytest.raises(ConfigurationError, match=r"Learned knows 12 positions.* --length 12 --stride 6"):
        requested(run, lengths=(24,))
    assert requested(run, stride=6).mean_context > 6  # type: ignore[operator]
    assert requested(run, lengths=(8,)).length == 8


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        ["model=encoder_only", "task=masked_lm"],
        ["model=encoder_only", "task=classification", "data=sentence_grammar", "data.num_train=60"],
        pytest.param(
            ["model=encoder_decoder", "task=seq2seq", "data=number_words", "data.num_train=60", "data.max_number=99"],
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ["model=vision_transformer", "task=image_classification", "data=digits", "data.num_train=60"],
            marks=pytest.mark.slow,
        ),
    ],
    ids=["masked_lm", "classification", "seq2seq", "images"],
)
def test_other_tasks_are_measured_as_recorded_and_refuse_windows(folder: Path, overrides: list[str]) -> None:
    small = {"masked_lm": ["data=text", f"data.path={folder}/text.txt", "data.context_length=12"]}
    names = [override.partition("=")[2] for override in overrides]
    sizes = ["data.num_validation=8", "data.num_test=8"]
    more = small["masked_lm"] if "masked_lm" in names else [] if "digits" in names else sizes
    run = trained(folder, *overrides, *more)
    assert requested(run).metrics == pytest.approx(run.record.metrics["test"])
    with pytest.raises((ConfigurationError, DataError), match=r"leave it out|leave the stride out|needs windows"):
        requested(run, stride=4)


@pytest.mark.slow
def test_rows_of_made_up_data_get_longer_too(folder: Path) -> None:
    sizes = ["data.num_train=40", "data.num_validation=8", "data.num_test=8"]
    run = trained(folder, "data=associative_recall", "data.num_pairs=2", "data.length=16", *sizes)
    assert requested(run, lengths=(32,)).metrics != requested(run).metrics
    with pytest.raises(DataError, match="leave the stride out"):
        requested(run, stride=4)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["optimizer.lr=1"], "optimizer.lr cannot be changed"),
        (["model=encoder_only"], "model cannot be changed"),
        (["model/position=rotry"], "did you mean rotary"),
        (["model.d_model=32"], "do not fit the changed model"),
        (["model/position=t5_bias"], "do not fit the changed model"),
        (["data.pth=x"], "did you mean"),
        (["trainer.accumulate=2"], "trainer.accumulate plays no part once a run is trained: leave it out"),
        (["trainer.max_steps=2"], "trainer.max_steps plays no part"),
        (["task.label_smoothing=0.5"], "task.label_smoothing plays no part once a run is trained"),
        (["model.dropout=0.5"], "model.dropout plays no part"),
        (["data.path=nowhere.txt"], "does not exist"),
        (["data.tokenizer=bpe"], "data.tokenizer=bpe cannot be changed: the run reads text with"),
        (["data.tokenizer=bpe", "data.vocab_size=300"], "data.tokenizer=bpe cannot be changed"),
        (["data=number_words"], "reads data of kind"),
        (["data=copy"], "data=copy holds symbols of its own, and this run was trained on text"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_cannot_be_changed_is_refused(stream: FinishedRun, overrides: list[str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        requested(stream, *overrides)


def test_a_run_of_symbols_is_not_asked_about_text(folder: Path) -> None:
    run = trained(folder, "data=copy", "data.num_train=16", "data.num_validation=4", "data.num_test=4")
    with pytest.raises(ConfigurationError, match="data=text is text, and this run was trained on symbols"):
        requested(run, "data=text", f"data.path={folder}/text.txt")


@pytest.mark.parametrize("choice", [choice.name for choice in choices("trainer")])
def test_a_trainer_says_on_what_a_run_is_read_or_is_refused(stream: FinishedRun, choice: str) -> None:
    read, usual = (compose("train", words)["trainer"] for words in ([f"trainer={choice}"], []))
    if read == usual:
        assert revised(stream.config, [f"trainer={choice}"])["trainer"] == stream.config["trainer"]
    elif read["accelerator"] != usual["accelerator"]:
        assert revised(stream.config, [f"trainer={choice}"])["trainer"]["accelerator"] == read["accelerator"]
    else:
        with pytest.raises(ConfigurationError, match=f"trainer={choice} sets devices, strategy.* only matter while"):
            revised(stream.config, [f"trainer={choice}"])


@pytest.mark.parametrize(
    ("question", "sentence"), [({"stride": 13}, "needs windows"), ({"stride": 0, "lengths": (4,)}, "1 to 4"),
                           ({"lengths": (0,)}, "is refused"), ({"stride": 9, "lengths": (8,)}, "1 to 8")],
)  # fmt: skip
def test_windows_that_cannot_be_are_refused(stream: FinishedRun, question: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        requested(stream, **question)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of_task", "columns"),
    [
        (["task=classification", "model=encoder_only"], "text,label"),
        (["task=causal_lm", "task.without_labels=true"], "text,label"),
        (["task=masked_lm", "model=encoder_only"], "text,label"),
        (["task=similarity", "model=encoder_only"], "text,score"),
        (["task=seq2seq", "model=encoder_decoder"], "source,target"),
        (["task=tagging", "model=encoder_only"], "text,tags"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_no_length_is_requested_of_rows_that_are_as_long_as_their_texts(
    folder: Path, of_task: list[str], columns: str
) -> None:
    """The file's class has the field of a corpus too, which would do nothing."""
    answers = {"label": "AB", "score": "12", "target": WORDS, "tags": ("O", "B-X")}[columns.partition(",")[2]]
    rows = [f"{WORDS[row % 9]} {row},{answers[row % 2]} {answers[row % 2]}" for row in range(60)]
    if columns.endswith(("label", "score")):
        rows = [row.rpartition(" ")[0] for row in rows]
    file = folder / f"{columns.replace(',', '_')}.csv"
    file.write_text("\n".join([columns, *rows]), encoding="utf-8")
    named = [f"data.{column}_column={column}" for column in columns.split(",")]
    run = trained(folder, "data=csv", f"data.path={file}", *named, *of_task)
    with pytest.raises(ConfigurationError, match="--length 3 has no effect on data=csv, whose rows are as long as"):
        requested(run, lengths=(3,))
    with pytest.raises(ConfigurationError, match=r"data\.packing=stream has no effect on data=csv, whose rows are"):
        requested(run, "data.packing=stream")

"""Configurations become objects through the Python interface."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import headtohead as h2h
from headtohead.config.build import fitted
from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.config.origins.from_weights import build_data
from headtohead.records.record import Comparability, RunRecord, to_json

LANGUAGE = ["data.num_train=40", "data.num_validation=4", "data.num_test=4", "data.batch_size=4"]
SMALL = [*LANGUAGE, "data.context_length=8", "data.tokenizer=char", "model.d_model=16", "trainer.accelerator=cpu"]
IMAGES = ["model=vision_transformer", "task=image_classification", "data=digits"]


@pytest.fixture(scope="module", autouse=True)
def cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.process
def test_importing_the_package_imports_nothing_heavy() -> None:
    program = "import sys, headtohead; sys.exit(bool({'torch', 'hydra', 'pytorch_lightning'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_public_names_are_there_and_others_are_not() -> None:
    assert all(callable(getattr(h2h, name)) for name in dir(h2h))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = h2h.nothing


def test_built_model_is_a_plain_module_from_tokens_to_logits() -> None:
    config = h2h.compose("train", SMALL)
    vocab_size = build_data(config).spec().vocab_size
    logits = h2h.build_model(config)(torch.zeros(2, 5, dtype=torch.long))
    assert logits.shape == (2, 5, vocab_size)


def test_same_seed_builds_the_same_model() -> None:
    config = h2h.compose("train", SMALL)
    models = []
    for _ in range(2):
        torch.manual_seed(3)
        models.append(h2h.build_model(config).state_dict())
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])


def test_meta_model_has_shapes_and_no_memory() -> None:
    model = h2h.build_model(h2h.compose("train", [*SMALL, "model.num_layers=40"]), device="meta")
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}


def test_what_is_null_comes_from_the_data() -> None:
    filled, size = fitted(compose_checked("train", [*SMALL, "model/position=learned"]))
    spec = build_data(filled).spec()
    assert filled["model"]["vocab_size"] == spec.vocab_size
    assert filled["model"]["max_length"] == size.length == 8, "a row's last token is read by nobody"
    assert filled["model"]["num_classes"] is None


def test_images_give_their_shape_and_classes() -> None:
    filled, _ = fitted(compose_checked("train", IMAGES))
    assert filled["model"]["image_shape"] == [1, 8, 8] and filled["model"]["num_classes"] == 10


def test_pairs_give_both_lengths() -> None:
    pairs = ["model=encoder_decoder", "task=seq2seq", "data=number_words", *LANGUAGE]
    filled, size = fitted(compose_checked("train", pairs))
    assert (filled["model"]["max_length"], filled["model"]["max_target_length"]) == (size.length, size.decoder_length)
    assert size.length > 0 and size.decoder_length > 0


def test_a_number_that_is_given_wins_over_the_data() -> None:
    filled, _ = fitted(compose_checked("train", [*SMALL, "model.vocab_size=300", "model.max_length=99"]))
    assert (filled["model"]["vocab_size"], filled["model"]["max_length"]) == (300, 99)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ([*SMALL, "model.vocab_size=6"], ["model.vocab_size=6", "data=grammar_lm", "at least"]),
        ([*SMALL, "model/position=learned", "model.max_length=3"], ["model.max_length=3", "up to 8 tokens"]),
        ([*IMAGES, "model.num_classes=3"], ["model.num_classes=3", "10 classes of data=digits"]),
        ([*IMAGES, "model.patch_size=3"], ["model.patch_size=3", "8 x 8", "1, 2, 4, 8"]),
        ([*IMAGES, "model.image_shape=[3,8,8]"], ["model.image_shape=[3, 8, 8]", "[1, 8, 8] of data=digits"]),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else None,
)
def test_model_that_does_not_fit_its_data_is_refused_before_it_is_built(
    overrides: list[str], sentence: list[str]
) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        h2h.build_parts(h2h.compose("train", overrides))
    assert all(part in str(refusal.value) for part in sentence), str(refusal.value)


def test_parts_carry_the_run_whole(tmp_path: Path) -> None:
    config = h2h.compose("train", SMALL)
    ids = Comparability(tokenizer=h2h.build_parts(config).data.spec().tokenizer_hash)
    (tmp_path / "record.json").write_text(to_json(RunRecord(id="first", config=config, comparability=ids)))
    provided = [*SMALL, "seed=3", "tags=[a]", "notes=why", f"output_dir={tmp_path}", "checkpointing=full"]
    parts = h2h.build_parts(h2h.compose("train", [*provided, "precision=bf16-mixed", f"init_from=run:{tmp_path}"]))
    identity = parts.identity
    assert (identity.seed, identity.tags, identity.notes, identity.output_dir) == (3, ("a",), "why", tmp_path)
    assert Path(str(identity.init_from)) == tmp_path and identity.resume_from is None
    assert (parts.precision.name, parts.checkpointing.kind) == ("bf16-mixed", "full")
    assert parts.costs["totals"]["parameters"] == sum(p.numel() for p in parts.make_model().parameters())
    assert parts.config["model"]["vocab_size"] > 0 and parts.config["choices"]["model"] == "decoder_only"
    optimizer = parts.optimizer(parts.make_model())
    assert optimizer.param_groups[0]["lr"] == 1e-3
    assert parts.schedule(100)(99) < 1


@pytest.mark.slow
def test_encoder_and_decoder_can_be_set_apart() -> None:
    apart = ["model/position@model.decoder.position=alibi", "model.encoder.num_layers=1", "model.num_layers=3"]
    pairs = ["model=encoder_decoder", "task=seq2seq", "data=number_words", *LANGUAGE]
    model = h2h.build_model(h2h.compose("train", [*pairs, *apart]), device="meta")
    positions = [type(stack.positions[0]).__name__ for stack in (model.encoder, model.decoder)]
    assert positions == ["Sinusoidal", "Alibi"]
    assert [len(stack.blocks) for stack in (model.encoder, model.decoder)] == [1, 3]


@pytest.mark.slow
def test_rules_speak_of_the_side_that_was_set_apart() -> None:
    pairs = ["model=encoder_decoder", "task=seq2seq", "data=number_words"]
    with pytest.raises(
        ConfigurationError, match=r"model/position@model\.decoder\.position=rotary_2d places the patches"
    ):
        h2h.compose("train", [*pairs, "model/position@model.decoder.position=rotary_2d"])


@pytest.mark.slow
def test_a_trained_run_can_be_loaded_by_its_folder(tmp_path: Path) -> None:
    steps = ["trainer.max_steps=2", "trainer.progress_bar=false", "tracking=none", f"output_dir={tmp_path}"]
    record = h2h.train(h2h.compose("train", [*SMALL, *steps]))
    assert record.status == "finished" and record.path is not None
    assert h2h.load_run(record.path).record == record


def test_inspection_works_without_training() -> None:
    inspection = h2h.inspect(h2h.compose("train", SMALL))
    assert inspection.family == "decoder_only" and inspection.ledger.totals.parameters > 0


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ([], "decoder_only-tiny-grammar_lm-s0"),
        (["model/position=alibi", "seed=3"], "decoder_only-tiny-alibi-grammar_lm-s3"),
        (["model/position=none", "model/size=small"], "decoder_only-small-no_position-grammar_lm-s0"),
        (["model/position=rotary", "optimizer=adamw"], "decoder_only-tiny-grammar_lm-s0"),
        (["optimizer=sgd", "optimizer.lr=0.5"], "decoder_only-tiny-sgd-grammar_lm-lr0.5-s0"),
        (["model=encoder_only", "task=masked_lm"], "encoder_only-tiny-masked_lm-grammar_lm-s0"),
        (["trainer.max_steps=3", "tracking=none", "group=mine"], "decoder_only-tiny-grammar_lm-s0"),
        (["name=my_run"], "my_run"),
    ],
)
def test_name_tells_what_is_not_the_default(overrides: list[str], name: str) -> None:
    assert compose_checked("train", overrides)["name"] == name


@pytest.mark.parametrize(
    ("task", "data", "sentence"),
    [
        ("seq2seq model=encoder_decoder", "copy", "data=copy is language: choose data.form=pairs, other data"),
        ("classification", "dyck", "data=dyck is language: choose data.form=labelled, other data"),
        ("classification", "copy", "data=copy is language: choose other data"),
        ("causal_lm", "sort data.form=pairs", "is pairs_of_text: choose data.form=language, data.form=slots, other"),
    ],
)
def test_form_of_problems_that_fits_the_task_is_named(task: str, data: str, sentence: str) -> None:
    few = ["data.num_train=40", "data.num_validation=4", "data.num_test=4"]
    with pytest.raises(ConfigurationError, match=sentence):
        h2h.build_parts(h2h.compose("train", [*f"task={task} data={data}".split(), *few]))


def test_unknown_root_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="tran is not a root configuration: did you mean train"):
        compose_checked("tran")


def test_composition_leaves_no_state_behind() -> None:
    """Hydra keeps its own in a singleton."""
    from hydra.core.global_hydra import GlobalHydra

    first: dict[str, Any] = compose_checked("train", ["seed=1"])
    assert compose_checked("train", ["seed=2"])["seed"] == 2 and first["seed"] == 1
    assert not GlobalHydra.instance().is_initialized()


@pytest.mark.parametrize(("model", "task"), [("decoder_only", "seq2seq_one_row"), ("encoder_only", "seq2seq_at_once")])
def test_a_table_of_positions_holds_both_sides_of_a_pair_in_one_row(model: str, task: str) -> None:
    pairs = ["data=number_words", "data.num_train=500"]
    both = fitted(compose_checked("train", ["model=encoder_decoder", "task=seq2seq", *pairs]))[0]["model"]
    overrides = [f"model={model}", f"task={task}", *pairs, "model/position=learned"]
    alone = fitted(compose_checked("train", overrides))[0]["model"]
    assert alone["max_length"] == both["max_length"] + both["max_target_length"]

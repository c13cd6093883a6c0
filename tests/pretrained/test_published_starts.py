"""A run that starts from a published checkpoint, in a folder as the hub has it."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer as Library

import headtohead as h2h
from headtohead.architectures.architecture import Architecture
from headtohead.config.build import make_model
from headtohead.config.errors import ConfigurationError
from headtohead.data.row_formats.text_source import TextSource
from headtohead.training.initial_weights import InitialWeights, start_from
from headtohead.training.run_components import RunComponents
from pretrained.published_folders import END, TEXT, write_gpt2, write_text

SMALL = [
    "trainer=cpu", "trainer.max_steps=2", "trainer.validate_every=2", "trainer.progress_bar=false", "tracking=none",
    "probe=none", "data.batch_size=4", "optimizer.lr=1e-4",
]  # fmt: skip
Weights = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub") / "gpt2"
    write_gpt2(folder)
    return folder


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text(tmp_path_factory.mktemp("text"))


def config_of(origin: Path | str, text: Path, *overrides: str) -> dict:
    data = ["data=text", f"data.path={text}", "data.documents=line", "data.context_length=12"]
    return h2h.compose("train", [*data, *SMALL, f"init_from=hf:{origin}", *overrides])


def started(parts: RunComponents) -> tuple[Architecture, InitialWeights]:
    model = parts.make_model()
    assert isinstance(parts.identity.init_from, str)
    return model, start_from(model, parts.identity.init_from, class_names=parts.data.spec().class_names)


def test_published_weights_give_their_own_logits(published: Path, text: Path, tmp_path: Path) -> None:
    reference = write_gpt2(tmp_path / "again")
    model, start = started(h2h.build_parts(config_of(published, text)))
    tokens = torch.randint(0, 200, (2, 12), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(tokens), reference(tokens).logits, rtol=0, atol=5e-5)
    assert not start.fresh and not start.left_aside


def test_text_becomes_the_numbers_of_the_published_tokenizer(published: Path, text: Path) -> None:
    parts = h2h.build_parts(config_of(published, text))
    spec, library = parts.data.spec(), Library.from_file(str(published / "tokenizer.json"))
    end = library.token_to_id(END)
    assert (spec.bos_id, spec.eos_id, spec.vocab_size, spec.special_ids) == (end, end, end + 1, (end,))
    assert parts.config["data"]["tokenizer"] == "published" and parts.config["model"]["vocab_size"] == end + 1
    line = TEXT.splitlines()[0]
    assert isinstance(parts.data, TextSource)
    assert parts.data.tokenizer.encode([line])[0].tolist() == library.encode(line).ids
    assert parts.data.decode([end, *library.encode(line).ids, end]) == line


def test_documents_end_where_the_only_special_token_occurs_twice(published: Path, text: Path) -> None:
    parts = h2h.build_parts(config_of(published, text))
    batch, end = parts.data.split("train").batch(np.arange(4)), parts.data.spec().eos_id
    assert batch.tokens is not None and batch.segments is not None and batch.positions is not None
    twice = (batch.tokens[:, 1:] == end) & (batch.tokens[:, :-1] == end)
    assert twice.any() and torch.equal(batch.segments.diff(dim=1) == 1, twice)
    assert (batch.positions[:, 1:][twice] == 0).all()


@pytest.mark.slow
def test_a_run_of_published_weights_can_be_opened_and_evaluated_without_them(
    text: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "hub"
    write_gpt2(folder)
    with caplog.at_level(logging.INFO):
        record = h2h.train(config_of(folder, text, f"output_dir={tmp_path}", "finetuning=layer_decay"))
    assert record.status == "finished"
    assert any(message.startswith(f"init_from=hf:{folder}: taken: embedding") for message in caplog.messages)
    folder.rename(tmp_path / "elsewhere")
    assert record.path is not None
    measured = h2h.evaluate(record.path)
    assert measured.points[0].metrics["loss"] == pytest.approx(record.metrics["test"]["loss"], rel=1e-4)


def test_another_task_gets_a_head_of_its_own(published: Path) -> None:
    config = h2h.compose("train", ["task=classification", "data=sentence_grammar", *SMALL, f"init_from=hf:{published}",
                                   "data.num_train=40", "data.num_validation=20", "data.num_test=20"])  # fmt: skip
    model, start = started(h2h.build_parts(config))
    assert model.family == "decoder_only" and config["model"]["d_model"] == 16
    assert start.fresh == ("head.linear.weight", "head.linear.bias") and not start.left_aside


def test_a_checkpoint_without_a_head_and_with_old_masks_is_read(published: Path, text: Path, tmp_path: Path) -> None:
    def bare(weights: Weights) -> Weights:
        named = {name.removeprefix("transformer."): tensor for name, tensor in weights.items()}
        return {**named, "h.0.attn.bias": torch.ones(1, 1, 24, 24), "h.1.attn.masked_bias": torch.tensor(-1e4)}

    _, start = started(h2h.build_parts(config_of(changed(published, tmp_path, bare), text)))
    assert not start.fresh and not start.left_aside


def test_weights_in_several_files_are_found_by_their_index(published: Path, text: Path, tmp_path: Path) -> None:
    weights = load_file(published / "model.safetensors")
    folder = changed(published, tmp_path, lambda weights: weights)
    (folder / "model.safetensors").unlink()
    halves = {f"model-0000{part}-of-00002.safetensors": sorted(weights)[part - 1 :: 2] for part in (1, 2)}
    for file, names in halves.items():
        save_file({name: weights[name].contiguous() for name in names}, folder / file, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": {name: file for file, names in halves.items() for name in names}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    model, _ = started(h2h.build_parts(config_of(folder, text)))
    assert torch.equal(model.state_dict()["embedding.weight"], weights["transformer.wte.weight"])


def changed(published: Path, tmp_path: Path, change: Callable[[Weights], Weights]) -> Path:
    """Return a copy with other weights."""
    folder = tmp_path / "changed"
    folder.mkdir()
    for path in published.glob("*.json"):
        (folder / path.name).write_bytes(path.read_bytes())
    weights = change(load_file(published / "model.safetensors"))
    whole = {name: held.contiguous().clone() for name, held in weights.items()}
    save_file(whole, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def without(name: str) -> Callable[[Weights], Weights]:
    return lambda weights: {key: tensor for key, tensor in weights.items() if key != name}


def having(name: str, *shape: int) -> Callable[[Weights], Weights]:
    return lambda weights: {**weights, name: torch.zeros(shape)}


NORM = "transformer.h.1.ln_2.bias"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (without(NORM), rf"lacks {re.escape(NORM)}, which its config.json promises"),
        (having("transformer.h.0.gate", 3), r"holds transformer\.h\.0\.gate, for which our gpt2 has no place"),
        (having(NORM, 15), r"blocks\.1\.wiring\.norms\.1\.bias is 15 there and 16 here"),
        (having("transformer.h.0.attn.c_attn.weight", 16, 47), r"c_attn\.weight has another shape than its config"),
    ],
    ids=["missing", "left over", "other shape", "cannot be divided"],
)
def test_a_name_or_shape_left_over_is_refused_by_name(
    published: Path, text: Path, tmp_path: Path, change: Callable[[Weights], Weights], sentence: str
) -> None:
    parts = h2h.build_parts(config_of(changed(published, tmp_path, change), text))
    with pytest.raises(ValueError, match=sentence):
        started(parts)


def test_weights_that_do_not_fit_are_refused_before_there_is_a_run(published: Path, text: Path, tmp_path: Path) -> None:
    folder = changed(published, tmp_path, having(NORM, 15))
    with pytest.raises(ValueError, match="is 15 there and 16 here"):
        h2h.train(config_of(folder, text, f"output_dir={tmp_path / 'new'}"))
    assert not (tmp_path / "new").exists()


def test_an_index_that_lists_nothing_is_refused(published: Path, text: Path, tmp_path: Path) -> None:
    folder = changed(published, tmp_path, lambda weights: weights)
    (folder / "model.safetensors.index.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match=r"its model\.safetensors\.index\.json lists no weights"):
        started(h2h.build_parts(config_of(folder, text)))


def test_classes_without_numbers_are_refused(published: Path, text: Path, tmp_path: Path) -> None:
    folder = changed(published, tmp_path, lambda weights: weights)
    message = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**message, "id2label": {"good": "bad"}}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"id2label=\{'good': 'bad'\}, which numbers no classes"):
        started(h2h.build_parts(config_of(folder, text)))


def test_pickled_weights_are_refused_with_the_remedy(published: Path, text: Path, tmp_path: Path) -> None:
    folder = changed(published, tmp_path, lambda weights: weights)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    parts = h2h.build_parts(config_of(folder, text))
    with pytest.raises(ValueError, match=r"its weights are pickled, and reading them would run .* save_pretrained"):
        started(parts)


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("model.num_layers=3", r"model\.num_layers=3 contradicts init_from=.*were trained with 2: remove it"),
        ("model.num_heads=4", r"model\.num_heads=4 contradicts"),
        ("model/norm=rms_norm", r"model\.norm\._target_=.*RmsNorm contradicts"),
        ("model=encoder_only", r"model=encoder_only contradicts .* those of a decoder_only"),
        ("model.max_length=99", r"model\.max_length=99 contradicts"),
        ("model/size=small", r"model/size=small contradicts .* weights have their size: remove it"),
    ],
)
def test_what_contradicts_the_weights_is_refused(published: Path, text: Path, override: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        config_of(published, text, override)


def test_what_weights_know_nothing_of_may_be_chosen(published: Path, text: Path) -> None:
    config = config_of(published, text, "model.dropout=0.2", "model.max_length=12")
    model, start = started(h2h.build_parts(config))
    assert config["model"]["dropout"] == 0.2 and start.cut == ("stack.positions.0.table.weight",)
    assert make_model(config).state_dict().keys() == model.state_dict().keys()


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("model_type", "elmo", r"has model_type=elmo, and we know gpt2, llama"),
        (
            "scale_attn_by_inverse_layer_idx",
            True,
            r"_layer_idx=True, and our gpt2 supports only False",
        ),
        ("activation_function", "quick_gelu", r"its activation quick_gelu is not supported"),
        ("n_embd", "wide", r"has n_embd=wide, which must be a whole number above 0"),
        ("n_inner", True, r"has n_inner=True, which must be a whole number"),
        ("layer_norm_epsilon", None, r"its config\.json makes no model|layer_norm_epsilon|eps"),
        ("quantization_config", {"quant_method": "fp8"}, r"quantization_config, whose weights are coded \(fp8\)"),
        ("num_attention_heads", 4, r"has n_head=2 and num_attention_heads=4, which are two names of one field"),
    ],
)
def test_a_model_that_is_none_of_ours_is_refused_before_anything_is_built(
    published: Path, text: Path, tmp_path: Path, field: str, value: object, sentence: str
) -> None:
    folder = changed(published, tmp_path, lambda weights: weights)
    message = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**message, field: value}), encoding="utf-8")
    with pytest.raises(ConfigurationError, match=sentence):
        config_of(folder, text)


def test_text_without_the_published_tokenizer_is_refused(published: Path, text: Path, tmp_path: Path) -> None:
    folder = changed(published, tmp_path, lambda weights: weights)
    (folder / "tokenizer.json").unlink()
    config = config_of(folder, text)
    with pytest.raises(ConfigurationError, match=r"comes without a tokenizer\.json, and data=text is text"):
        h2h.build_parts(config)

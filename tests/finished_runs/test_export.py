"""An export gives the run's own logits at other batches and lengths, or is refused with the reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import MethodType
from typing import Any

import pytest
import torch
from jaxtyping import config
from safetensors.torch import load_file

from fresh_runs import ROWS, fresh_run
from headtohead.cli import main
from headtohead.components.component import Context, Mixer
from headtohead.config.errors import ConfigurationError
from headtohead.finished_runs.export_run import Form, compare_logits, export
from headtohead.finished_runs.traced_graph import InputShape
from sampled_cases import diagonal
from small_models import small_model

CHAR = [*ROWS, "data.context_length=16", "data.tokenizer=char"]
LABELLED = ["model=encoder_only", "task=classification", "data=sentence_grammar", *ROWS]
RUNS: dict[str, list[str]] = {
    "decoder_only": CHAR,
    "classifier": LABELLED,
    "vision_transformer": ["model=vision_transformer", "task=image_classification", "data=digits"],
    "encoder_decoder": ["model=encoder_decoder", "task=seq2seq", "data=number_words", *ROWS],
}
RECURRENT = ["linear_attention", "retention", "mamba2", "mamba", "gated_linear", "gated_delta", "min_gru"]


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def sizes_left_open() -> Iterator[None]:
    """Suspend the tests' type checks while a graph is traced: its sizes are symbols, which they take for no
    integers."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("name", "form"),
    [(name, "safetensors") for name in RUNS]
    + [pytest.param(name, form, marks=pytest.mark.slow) for name in RUNS for form in ("torch", "onnx")],
)
def test_an_artefact_gives_the_runs_own_logits(name: str, form: Form, tmp_path: Path) -> None:
    run = fresh_run(tmp_path, *RUNS[name])
    result = export(run, form)
    assert len(result.rows) == 3 and all(row.difference < 1e-5 and row.artefact_ms > 0 for row in result.rows)
    assert all(file.is_file() for file in result.files) and (result.files[0].parent / "config.yaml").is_file()
    message = json.loads((result.files[0].parent / "export.json").read_text())
    assert message["form"] == form and [row["batch"] for row in message["rows"]] == [1, 2, 5]


@pytest.mark.slow
def test_a_folder_with_files_of_others_is_left_alone(tmp_path: Path) -> None:
    run, own = fresh_run(tmp_path, *CHAR), tmp_path / "own"
    own.mkdir()
    (own / "model.safetensors").write_text("mine")
    with pytest.raises(
        ConfigurationError, match="own holds files that are not an export: name a new or an empty folder"
    ):
        export(run, "safetensors", own)
    assert (own / "model.safetensors").read_text() == "mine"
    for _ in range(2):
        export(run, "safetensors", tmp_path / "served")


@pytest.mark.slow
def test_onnx_goes_to_the_folder_that_is_given(tmp_path: Path) -> None:
    result = export(fresh_run(tmp_path, *CHAR), "onnx", tmp_path / "served")
    assert result.files[0] == tmp_path / "served" / "model.onnx" and all(row.difference < 1e-5 for row in result.rows)


@pytest.mark.slow
def test_attention_with_learned_biases_goes_to_onnx(tmp_path: Path) -> None:
    run = fresh_run(tmp_path, *LABELLED, "model.num_layers=1", "model/mixer=disentangled_attention")
    assert all(row.difference < 1e-5 for row in export(run, "onnx").rows)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("mixer", "form"), diagonal(RECURRENT, ["onnx", "torch"]))
@pytest.mark.slow
def test_recurrences_are_exported_for_any_length(mixer: str, form: Form, tmp_path: Path) -> None:
    """Longer and shorter than a chunk, and than the rows that the graph was traced with."""
    longer = [*ROWS, "data.context_length=80", "data.tokenizer=char", "model.num_layers=1", "model/position=none"]
    result = export(fresh_run(tmp_path, *longer, f"model/mixer={mixer}"), form)
    assert [row.length for row in result.rows] == [26, 80, 2] and all(row.difference < 1e-5 for row in result.rows)


@pytest.mark.slow
def test_an_operation_that_onnx_has_no_word_for_is_named_with_its_layer(tmp_path: Path) -> None:
    run = fresh_run(tmp_path, *CHAR, "model.num_layers=1", "model/position=none", "model/mixer=mlstm")
    with pytest.raises(ConfigurationError) as refused:
        export(run, "onnx")
    assert str(refused.value).startswith(
        "ONNX has no operation for what stack.blocks.0.mixer (model/mixer=mlstm) computes (aten.cummax): use --to torch"
    )


@pytest.mark.slow
def test_a_mixer_that_works_in_chunks_goes_to_a_graph_of_any_length(tmp_path: Path) -> None:
    result = export(
        fresh_run(tmp_path, *CHAR, "model.num_layers=1", "model/position=none", "model/mixer=linear_attention"), "torch"
    )
    assert all(row.difference < 1e-5 for row in result.rows)


def test_tied_weights_are_written_once(tmp_path: Path) -> None:
    run = fresh_run(tmp_path, *CHAR)
    weights = load_file(export(run, "safetensors").files[0])
    assert "embedding.weight" in weights and "head.weight" not in weights


@pytest.mark.slow
def test_what_depends_on_the_values_of_tokens_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = fresh_run(tmp_path, *CHAR)
    features = run.model.features

    def odd(tokens: torch.Tensor, **rest: Any) -> torch.Tensor:
        return features(tokens, **rest) * (2 if bool(tokens.sum() % 2) else 1)

    monkeypatch.setattr(run.model, "features", odd)
    with pytest.raises(ValueError, match=r"cannot be exported as a graph .* or on their values; use --to safetensors"):
        export(run, "torch")


@pytest.mark.slow
@pytest.mark.parametrize("experts", ["moe", "moe_shared", "moe_gated_shared", "moe_clamped"])
def test_experts_are_refused_as_a_graph_would_give_each_an_equal_share(experts: str, tmp_path: Path) -> None:
    run = fresh_run(tmp_path, *CHAR, f"model/feedforward={experts}")
    with pytest.raises(ConfigurationError, match=rf"feedforward \(model/feedforward={experts}\) depends on"):
        export(run, "torch")


@pytest.mark.slow
def test_the_part_that_depends_on_the_values_of_tokens_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = fresh_run(tmp_path, *CHAR)
    mixer = run.model.get_submodule("stack.blocks.1.mixer")
    forward = mixer.forward

    def odd(self: Mixer, x: torch.Tensor, context: Context) -> torch.Tensor:
        return forward(x, context) * (2 if bool(x.sum() > 0) else 1)

    monkeypatch.setattr(mixer, "forward", MethodType(odd, mixer))
    with pytest.raises(ConfigurationError) as refused:
        export(run, "torch")
    assert "since stack.blocks.1.mixer (model/mixer=softmax_attention) depends on" in str(refused.value)
    assert "Could not" not in str(refused.value) and "u0" not in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize("mixer", ["hyena", "lstm", pytest.param("rwkv4", marks=pytest.mark.slow)])
def test_the_part_that_takes_some_lengths_only_is_named(mixer: str, tmp_path: Path) -> None:
    """One whose Fourier transform, whose kernel or whose loop is of the length that was traced."""
    run = fresh_run(tmp_path, *CHAR, "model.num_layers=1", "model/position=none", f"model/mixer={mixer}")
    with pytest.raises(ConfigurationError) as refused:
        export(run, "torch")
    assert f"since stack.blocks.0.mixer (model/mixer={mixer}) depends on" in str(refused.value)
    assert "size()" not in str(refused.value)


@pytest.mark.parametrize("form", ["safetensors", pytest.param("torch", marks=pytest.mark.slow)])
@pytest.mark.parametrize("length", [1, 2])
def test_a_run_of_single_tokens_is_exported(form: Form, length: int, tmp_path: Path) -> None:
    run = fresh_run(tmp_path, *ROWS, f"data.context_length={length}", "data.tokenizer=char", "model.num_layers=1")
    result = export(run, form)
    assert len(result.rows) == 3 and all(row.difference < 1e-5 for row in result.rows)


def test_positions_for_one_token_make_no_graph(tmp_path: Path) -> None:
    single = ["data.context_length=1", "data.tokenizer=char", "model.num_layers=1", "model/position=learned"]
    with pytest.raises(ConfigurationError, match=r"rows of one token.* use --to safetensors"):
        export(fresh_run(tmp_path, *ROWS, *single), "torch")


def test_an_artefact_with_other_logits_is_refused() -> None:
    model = small_model("decoder_only").eval()
    with pytest.raises(ValueError, match=r"logits differ from the run's by .* for 2 rows of 5"):
        compare_logits(model, lambda inputs: model(**inputs) * 1.01, [InputShape(2, 5, 5)])


@pytest.mark.slow
def test_the_command_shows_a_table_and_names_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = fresh_run(tmp_path, *CHAR)
    assert main(["export", str(run.folder), "--to", "safetensors"]) == 0
    shown = capsys.readouterr()
    assert "difference" in shown.out and "model.safetensors" in shown.err
    assert main(["export", str(run.folder), "--to", "safetensors", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["inputs"] == ["tokens"]
    assert main(["export", str(run.folder), "--to", "pickle"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("form", ["safetensors", "torch", "onnx"])
def test_a_run_in_64_bits_is_exported_or_refused_with_what_is_missing(form: Form, tmp_path: Path) -> None:
    run = fresh_run(tmp_path, *CHAR, "precision=64-true")
    if form == "onnx":
        with pytest.raises(ConfigurationError, match=r"onnxruntime has no \w+ in float64: use --to torch"):
            export(run, form)
    else:
        assert all(row.difference < 1e-12 for row in export(run, form).rows)

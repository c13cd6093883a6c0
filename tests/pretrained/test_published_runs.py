"""Runs that started from a folder of the hub are runs like any other: looked into, written with, frozen in part."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import headtohead as h2h
from headtohead.cli import main
from headtohead.finished_runs.export_run import export
from headtohead.finished_runs.loaded_run import LoadedRun
from headtohead.pretrained.hub_checkpoint import open_checkpoint
from pretrained.published_folders import END, LINES, write_gpt2, write_text

PROMPT = LINES[0][:14]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub") / "gpt2"
    write_gpt2(folder)
    return folder


def trained(published: Path, tmp_path: Path, *overrides: str) -> LoadedRun:
    config = h2h.compose(
        "train",
        ["data=text", f"data.path={write_text(tmp_path)}", "data.documents=line", "data.context_length=24",
         "trainer=cpu", "trainer.max_steps=2", "trainer.validate_every=2", "trainer.progress_bar=false",
         "tracking=none", "probe=none", "data.batch_size=4", f"output_dir={tmp_path / 'outputs'}",
         f"init_from=hf:{published}", *overrides],
    )  # fmt: skip
    record = h2h.train(config)
    assert record.status == "finished" and record.path is not None
    return h2h.load_run(record.path)


@pytest.mark.slow
def test_a_run_writes_what_its_reference_writes_with_its_own_tokenizer(published: Path, tmp_path: Path) -> None:
    run = trained(published, tmp_path, "optimizer.lr=1e-12")
    [written] = run.generate(PROMPT, max_new_tokens=8)
    words, reference = AutoTokenizer.from_pretrained(published), AutoModelForCausalLM.from_pretrained(published)
    prompt = torch.tensor([words(END + PROMPT)["input_ids"]])
    whole = reference.generate(prompt, max_new_tokens=8, do_sample=False, pad_token_id=words.eos_token_id)
    assert list(written.tokens) == whole[0, prompt.shape[1] :].tolist()
    assert written.text == words.decode([token for token in written.tokens if token != words.eos_token_id])


@pytest.mark.slow
def test_a_run_is_probed_in_pieces_of_its_own_tokenizer(published: Path, tmp_path: Path) -> None:
    run = trained(published, tmp_path)
    attention = run.attention(PROMPT)
    weights = attention.maps[0].weights
    size = len(AutoTokenizer.from_pretrained(published)(PROMPT)["input_ids"])
    assert len(attention.maps) == 2 and weights.shape[-1] >= size
    torch.testing.assert_close(torch.as_tensor(weights).sum(-1), torch.ones(weights.shape[:-1]), atol=1e-5, rtol=0)
    assert main(["probe", str(run.folder), "--text", PROMPT]) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("choice", "same"),
    [("freeze=1", [True, False]), pytest.param("layer_decay=0.5", [False, False], marks=pytest.mark.slow)],
)
def test_what_is_frozen_keeps_the_published_weights(
    choice: str, same: list[bool], published: Path, tmp_path: Path
) -> None:
    after = trained(published, tmp_path, f"finetuning.{choice}", "optimizer.lr=0.01").model.state_dict()
    before = open_checkpoint(f"hf:{published}").weights()
    names = [(f"stack.blocks.{layer}.feedforward.up.bias", f"transformer.h.{layer}.mlp.c_fc.bias") for layer in (0, 1)]
    assert [torch.equal(after[ours], before[theirs]) for ours, theirs in names] == same


def test_all_below_a_tied_head_cannot_be_frozen(published: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="leaves nothing to train"):
        trained(published, tmp_path, "finetuning=head_only")


@pytest.mark.slow
def test_a_run_goes_back_to_the_form_it_came_in_tokenizer_included(published: Path, tmp_path: Path) -> None:
    run = trained(published, tmp_path, "optimizer.lr=0.01")
    export(run, "hub", tmp_path / "again")
    words, reference = (kind.from_pretrained(tmp_path / "again") for kind in (AutoTokenizer, AutoModelForCausalLM))
    assert words(PROMPT)["input_ids"] == AutoTokenizer.from_pretrained(published)(PROMPT)["input_ids"]
    tokens = torch.tensor([words(PROMPT)["input_ids"]])
    with torch.no_grad():
        torch.testing.assert_close(reference.eval()(tokens).logits, run.model(tokens), rtol=0, atol=5e-5)

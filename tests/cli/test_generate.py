"""h2h generate as a user meets it, and the Python call behind it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

import headtohead as h2h
from fresh_runs import ROWS, fresh_run
from headtohead.cli import main
from headtohead.data.generated.procedural_source import ProceduralSource
from headtohead.finished_runs.text_generator import GrowingText, encoded

CHAR = [*ROWS, "data.context_length=16", "data.tokenizer=char"]


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return fresh_run(tmp_path, *CHAR).folder


def message(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> list[dict]:
    assert main(["generate", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_text_is_written_without_a_row_of_the_data(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a stream would have to be fetched."""
    opened = h2h.load_run(run)

    def refused(*_: object) -> None:
        raise AssertionError("a row was read")

    monkeypatch.setattr(type(opened.data), "split", refused)
    assert opened.generate("the", max_new_tokens=2)


def test_prompts_of_any_lengths_are_written_as_each_alone(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short, long = message([str(run), "--prompt", "the", "--prompt", "the old b", "--max-new-tokens", "7"], capsys)
    [alone] = message([str(run), "--prompt", "the", "--max-new-tokens", "7"], capsys)
    assert short == alone and long["prompt"] == "the old b" and len(long["tokens"]) <= 7


def test_text_follows_its_prompt_and_speed_goes_to_standard_error(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", str(run), "--prompt", "the", "--max-new-tokens", "5"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("the") and "per second" in shown.err


def test_prompts_come_from_a_file_or_from_standard_input(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("prompts.txt").write_text("the\na cat\n")
    from_file = message([str(run), "--prompts", "prompts.txt", "--max-new-tokens", "3"], capsys)
    monkeypatch.setattr("sys.stdin", io.StringIO("the\na cat\n"))
    assert message([str(run), "--max-new-tokens", "3"], capsys) == from_file and len(from_file) == 2


def test_a_string_stops_a_text_before_it(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [free] = message([str(run), "--prompt", "the", "--max-new-tokens", "9"], capsys)
    stop = free["text"][2:4]
    [stopped] = message([str(run), "--prompt", "the", "--max-new-tokens", "9", "--stop", stop], capsys)
    assert stopped["text"] == free["text"][: free["text"].index(stop)] and stopped["ending"] == "stop"


def test_python_streams_what_it_returns(run: Path) -> None:
    pieces: list[str] = []
    loaded = h2h.load_run(run)
    [written] = loaded.generate("the", max_new_tokens=6, seed=3, top_k=5, show=lambda _, text: pieces.append(text))
    assert "".join(pieces) == written.text and len(pieces) > 1
    assert loaded.generate("the", max_new_tokens=6, seed=3, top_k=5) == [written]


@pytest.mark.slow
def test_an_encoder_decoder_reads_the_prompt_as_its_source(tmp_path: Path) -> None:
    translator = fresh_run(tmp_path, "model=encoder_decoder", "task=seq2seq", "data=number_words", *ROWS)
    greedy, [searched] = translator.generate(["12", "1205"], max_new_tokens=5), translator.generate("12", beams=3)
    assert [one.prompt for one in greedy] == ["12", "1205"] and searched.score is not None


def test_symbols_of_a_procedural_task_are_a_prompt(tmp_path: Path) -> None:
    copier = fresh_run(tmp_path, "data=copy", *ROWS)
    assert isinstance(copier.data, ProceduralSource)
    symbols = copier.data.symbols
    [written] = copier.generate(" ".join(symbols[:3]), max_new_tokens=4)
    assert set(written.text.split()) <= {*symbols, "<mask>", "<unk>"}
    with pytest.raises(ValueError, match="'never' is not a symbol of data=copy"):
        copier.generate("never")


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["model=encoder_only", "task=masked_lm"], "model=encoder_only of this run .* generate from a run of task="),
        (["task=classification", "data=sentence_grammar"], "task=classification of this run predicts labels"),
    ],
)
def test_a_run_that_writes_nothing_says_why_and_what_does(tmp_path: Path, overrides: list[str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        fresh_run(tmp_path, *overrides, *ROWS).generate("the")


def test_more_tokens_than_positions_are_refused(tmp_path: Path) -> None:
    learned = fresh_run(tmp_path, *CHAR, "model/position=learned")
    assert len(learned.generate("the")[0].tokens) == 16 - 4 + 1
    with pytest.raises(ValueError, match=r"4 tokens of prompt and 14 new ones are more than model\.max_length=16"):
        learned.generate("the", max_new_tokens=14)


@pytest.mark.parametrize(
    ("provided", "sentence"),
    [
        (["--prompts", "."], "--prompts . cannot be read (Is a directory): give a text file"),
        (["--prompts", "none.txt"], "--prompts none.txt cannot be read (No such file or directory)"),
        (["--prompt", "the", "--stop", ""], "a stop string is empty"),
        (
            ["--prompt", "the", "--stop-token", "9999", "--beams", "2"],
            "token 9999 to stop at is not a token of the run",
        ),
        (["--prompt", "the", "--stop-token", "-1"], "argument --stop-token: -1 is refused: it must be at least 0"),
    ],
)
def test_what_cannot_be_read_or_end_a_text_is_refused(
    run: Path, capsys: pytest.CaptureFixture[str], provided: list[str], sentence: str
) -> None:
    assert main(["generate", str(run), *provided]) == 2
    assert f"error: {sentence}" in capsys.readouterr().err


def test_anybodys_module_writes_tokens_that_there_are_for_prompts_of_any_lengths(tmp_path: Path) -> None:
    provided = ["model=external", "model.module._target_=plain_modules.NextToken", "model.module.vocab_size=999"]
    written = fresh_run(tmp_path, *provided, *CHAR, "data.packing=stream").generate(["a", "the old"], max_new_tokens=6)
    assert all(max(one.tokens) < 999 for one in written) and len(written) == 2


def test_what_may_begin_a_stop_or_end_a_character_is_held_back() -> None:
    pieces = {1: b"a", 2: b"\xc3", 3: b"\xa9", 4: b"E", 5: b"N", 6: b"D"}
    text = GrowingText(lambda ids: b"".join(map(pieces.__getitem__, ids)).decode(errors="replace"), ["END"])
    assert [text.add(token) for token in (1, 2, 3, 4, 1, 4, 5, 6)] == ["a", "", "é", "", "Ea", "", "", ""]
    assert text.text == "aéEa" and text.ending == "stop"


def test_in_one_row_the_source_is_followed_by_the_start_token(tmp_path: Path) -> None:
    """The text that `h2h generate` writes for a source is the one that is measured as an exact match."""
    length = 12
    run = fresh_run(tmp_path, "task=seq2seq_one_row", "data=number_words", f"task.max_new_tokens={length}", *ROWS)
    batch = run.task.view(run.data.split("test").batch(np.arange(4)), seed=0, epoch=0)
    samples = run.task.samples(run.model, batch, run.data.decode)
    read = encoded(samples[0]["source"], run.data, run.data.spec(), is_source=False)
    assert read == batch.tokens[0, : len(read)].tolist() and read[-1] == run.data.spec().bos_id
    written = run.generate([sample["source"] for sample in samples], max_new_tokens=length)
    assert [run.data.decode(one.tokens) for one in written] == [sample["written"] for sample in samples]


@pytest.fixture
def diffusion(tmp_path: Path) -> Path:
    return fresh_run(tmp_path, *CHAR, "model=encoder_only", "task=masked_diffusion").folder


@pytest.mark.slow
def test_a_run_of_masked_diffusion_writes_behind_its_prompt(
    diffusion: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = [str(diffusion), "--prompt", "the", "--max-new-tokens", "6", "--temperature", "1", "--seed", "3"]
    [first] = message(drawn, capsys)
    again, other = message([*drawn, "--num-samples", "2"], capsys)
    assert first == again and other["tokens"] != first["tokens"]
    assert first["text"] and (len(first["tokens"]) == 6 or first["ending"] == "end")
    run = h2h.load_run(diffusion)
    assert run.data.spec().mask_id not in first["tokens"]
    assert run.generate("the", max_new_tokens=6)[0].tokens == run.generate("the", max_new_tokens=6)[0].tokens


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--top-k", "3"], "top_k=3 is for texts that grow token by token"),
        (["--beams", "2"], "leave beams out"),
        (["--max-new-tokens", "16"], "write at most 13 new ones"),
    ],
)
def test_a_run_of_masked_diffusion_refuses_what_only_growing_texts_have(
    diffusion: Path, options: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", str(diffusion), "--prompt", "the", *options]) == 2
    assert reason in capsys.readouterr().err

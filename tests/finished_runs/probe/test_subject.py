"""A text, a pair, an image or a row is converted before the model reads it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fresh_runs import ROWS, fresh_run
from headtohead.data.row_formats.text_source import TextSource
from headtohead.finished_runs.finished_run import FinishedRun
from headtohead.finished_runs.probe.attention_probe import attention_of
from headtohead.finished_runs.probe.probe_input import ProbeInput, of_image, of_rows, of_text
from headtohead.finished_runs.probe.small_images import over_images, pixels_of

CHARS = "data.tokenizer=char"


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = tmp_path_factory.mktemp("subjects")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(made / "cache"))
        yield made


@pytest.fixture(scope="module")
def decoder(outputs: Path) -> FinishedRun:
    return fresh_run(outputs, CHARS, "data.context_length=24", *ROWS)


@pytest.fixture(scope="module")
def translator(outputs: Path) -> FinishedRun:
    return fresh_run(outputs, "model=encoder_decoder", "task=seq2seq", "data=number_words", *ROWS)


@pytest.fixture(scope="module")
def vision(outputs: Path) -> FinishedRun:
    return fresh_run(
        outputs, "model=vision_transformer", "task=image_classification", "data=digits", "data.num_train=60"
    )


def classifier(outputs: Path, data: str, task: str) -> FinishedRun:
    return fresh_run(outputs, "model=encoder_only", f"task={task}", f"data={data}", CHARS, *ROWS)


def tokens_of(subject: ProbeInput) -> list[int]:
    assert subject.batch.tokens is not None
    return subject.batch.tokens[0].tolist()


def decoded(run: FinishedRun, ids: list[int]) -> str:
    return run.data.decode(ids)


def test_text_to_be_continued_has_a_start_and_no_end(decoder: FinishedRun) -> None:
    tokens, spec = tokens_of(of_text(decoder, "the bird")), decoder.data.spec()
    assert tokens[0] == spec.bos_id and spec.eos_id not in tokens
    assert decoded(decoder, tokens) == "the bird"


def test_longer_text_is_cut_with_one_sentence(decoder: FinishedRun) -> None:
    subject = of_text(decoder, "the bird " * 9)
    assert len(tokens_of(subject)) == 24
    [remark] = subject.remarks
    assert "82 tokens" in remark and "cut to the 24 of model.max_length" in remark


def test_unknown_characters_are_named(decoder: FinishedRun) -> None:
    [remark] = of_text(decoder, "the %bird% ß").remarks
    assert remark.startswith("3 of 12 tokens of --text are unknown") and remark.endswith("% ß")


def test_decoder_reads_the_target_or_what_it_writes_itself(translator: FinishedRun) -> None:
    provided = of_text(translator, "12", target="six").batch
    assert provided.decoder_tokens is not None
    assert provided.decoder_tokens[0, 0] == translator.data.spec().bos_id
    assert decoded(translator, provided.decoder_tokens[0].tolist()) == "six"
    free = of_text(translator, "12")
    assert free.remarks[0].startswith("no --target: the decoder reads its own output")
    model, spec = translator.model, translator.data.spec()
    assert free.batch.tokens is not None and free.batch.decoder_tokens is not None
    with torch.no_grad():
        likeliest = model(free.batch.tokens, free.batch.decoder_tokens)[0].argmax(-1).tolist()
    written = free.batch.decoder_tokens[0].tolist()[1:]
    assert likeliest[: len(written)] == written and (len(written) == len(likeliest) - 1 or spec.eos_id in likeliest)


@pytest.mark.parametrize(
    ("data", "task"),
    [("sentence_grammar", "classification"), ("pair_grammar", "classification"), ("qa_grammar", "span_qa")],
)
def test_texts_become_rows_as_those_of_the_data(data: str, task: str, outputs: Path) -> None:
    """The texts of a row, taken out of it and given again, make the same row."""
    run = classifier(outputs, data, task)
    assert isinstance(run.data, TextSource)
    row = run.data.split("test").batch(np.array([3]))
    assert row.tokens is not None
    ids, end = row.tokens[0].tolist(), run.data.spec().eos_id
    texts = [decoded(run, part) for part in _parts(ids, end)]
    again = of_text(run, *texts).batch
    assert again.tokens is not None and again.tokens[0].tolist() == ids
    if row.token_types is None:
        assert again.token_types is None
    else:
        assert again.token_types is not None and torch.equal(again.token_types, row.token_types)


def _parts(ids: list[int], end: int) -> list[list[int]]:
    ends = [position for position, token in enumerate(ids) if token == end]
    return [ids[start + 1 : stop] for start, stop in zip([0, *ends], ends, strict=False)]


def test_masks_can_be_written(outputs: Path) -> None:
    run = fresh_run(outputs, "model=encoder_only", "task=masked_lm", CHARS, "data.context_length=24", *ROWS)
    tokens = tokens_of(of_text(run, "the <mask>ird"))
    assert tokens.count(run.data.spec().mask_id) == 1 and tokens[-1] == run.data.spec().eos_id


def test_image_is_resized_and_as_bright_as_the_data(vision: FinishedRun, tmp_path: Path) -> None:
    levels = np.kron(np.arange(0, 256, 4, dtype=np.uint8).reshape(8, 8), np.ones((5, 5), dtype=np.uint8))
    Image.fromarray(levels).save(tmp_path / "ramp.png")
    subject = of_image(vision, tmp_path / "ramp.png")
    assert subject.remarks == ("ramp.png (40 x 40) is scaled and cropped to 8 x 8",)
    assert subject.batch.images is not None and subject.batch.images.shape == (1, 1, 8, 8)
    assert subject.batch.images[0, 0, 0, 0] == -1 and subject.batch.images.max() == pytest.approx(252 / 127.5 - 1)
    assert np.array_equal(pixels_of(subject.batch.images[0])[..., 0], levels[::5, ::5])
    attention = attention_of(vision, subject)
    assert attention.images is not None
    drawn = over_images(attention.maps[0], attention.images)
    assert drawn.dtype == np.uint8 and drawn.shape[2] == 3 and len(np.unique(drawn)) > 20


def test_rows_are_those_of_evaluation(decoder: FinishedRun) -> None:
    subject = of_rows(decoder, "test", [2, 0])
    expected = decoder.task.view(decoder.data.split("test").batch(np.array([2, 0])), seed=0, epoch=0)
    assert subject.batch.tokens is not None and expected.tokens is not None
    assert torch.equal(subject.batch.tokens, expected.tokens)
    assert subject.titles[0].startswith("test row 2: ")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"text": " \n"}, "--text is empty"),
        ({"text": "a", "second": "b"}, "--second cannot be used here: the data of this run is single texts"),
        ({"text": "a", "target": "b"}, "--target cannot be used here: only an encoder-decoder writes one"),
    ],
)
def test_what_has_no_place_is_refused(arguments: dict[str, str], reason: str, decoder: FinishedRun) -> None:
    with pytest.raises(ValueError, match=reason):
        of_text(decoder, **arguments)


def test_text_for_data_that_no_text_spells_is_refused_with_a_way_out(outputs: Path, vision: FinishedRun) -> None:
    with pytest.raises(ValueError, match="images; give --image FILE"):
        of_text(vision, "two")
    recall = fresh_run(outputs, "data=associative_recall", "data.length=16", "data.num_pairs=2", *ROWS)
    with pytest.raises(ValueError, match=r"tokens that no text can represent; give rows .* instead \(--rows 0,1,2\)"):
        of_text(recall, "k1 v2")


def test_pair_without_its_other_text_is_refused(outputs: Path) -> None:
    with pytest.raises(ValueError, match="give the other one as --second"):
        of_text(classifier(outputs, "pair_grammar", "classification"), "alone")


def test_missing_image_row_and_split_are_refused(vision: FinishedRun, decoder: FinishedRun, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        of_image(vision, tmp_path / "none.png")
    (tmp_path / "text.png").write_text("no image")
    with pytest.raises(ValueError, match="cannot be read as an image"):
        of_image(vision, tmp_path / "text.png")
    Image.fromarray(np.zeros((8, 8), dtype=np.float32)).save(tmp_path / "deep.tif")
    with pytest.raises(ValueError, match=r"^--image \S+deep\.tif has pixels of 32 bits, .*: save it with 8 or 16$"):
        of_image(vision, tmp_path / "deep.tif")
    with pytest.raises(ValueError, match="are not images; give --text or --rows"):
        of_image(decoder, tmp_path / "text.png")
    with pytest.raises(ValueError, match="the test split has rows 0 to"):
        of_rows(decoder, "test", [10_000])


@pytest.mark.parametrize(
    ("model", "task", "after"), [("decoder_only", "seq2seq_one_row", "t"), ("encoder_only", "seq2seq_at_once", None)]
)
def test_a_model_of_one_side_reads_source_and_target_in_one_row(
    outputs: Path, model: str, task: str, after: str | None
) -> None:
    run = fresh_run(outputs, f"model={model}", f"task={task}", "data=number_words", *ROWS)
    assert isinstance(run.data, TextSource)
    subject = of_text(run, "12", target="t")
    spec, ids = run.data.spec(), tokens_of(subject)
    source = run.data.tokenizer.encode(["12"])[0].tolist()
    following = [spec.bos_id, *run.data.tokenizer.encode([after])[0].tolist()] if after else []
    assert ids == [*source, *(following or [spec.mask_id] * spec.max_target_length)]
    attention_of(run, subject)

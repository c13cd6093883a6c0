"""Prepare the probe's input: rows of a split, as the task shows them, or the user's own text, pair or image."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from headtohead.architectures.architecture import DecodingModel
from headtohead.architectures.head_names import NEXT_TOKEN_HEADS
from headtohead.config.run_config import RunConfig
from headtohead.data.augmentation.image_operations import PixelScale
from headtohead.data.batches.batch import Batch
from headtohead.data.batches.image_decoding import fitted_image
from headtohead.data.cache.arrow_columns import Ragged
from headtohead.data.data_source import DataError, DataSource, DataSpec, SplitName
from headtohead.data.row_formats.text_source import tokenizer_of
from headtohead.data.tokenizers import Tokenizer, shortened
from headtohead.files.safe_read import DamagedFile, open_regular
from headtohead.finished_runs.finished_run import FinishedRun
from headtohead.generation.decoding_loop import greedy
from headtohead.training.loop.seeds import EVALUATION_SEED

_MASK = re.compile(r"(<mask>)")
_TITLE = 70
"""Characters of a text that name it."""


@dataclass(frozen=True)
class ProbeInput:
    """A batch as the model reads it, a name for each of its samples, and what the reader should know."""

    batch: Batch
    titles: tuple[str, ...]
    remarks: tuple[str, ...] = ()


def of_rows(run: FinishedRun, split: SplitName, rows: Sequence[int]) -> ProbeInput:
    """Return rows as in evaluation: masks fall where they do there."""
    batch = run.data.split(split).batch(checked_rows(run.data, split, rows))
    viewed = run.task.view(batch, seed=EVALUATION_SEED, epoch=0)
    titles = []
    for index, row in enumerate(rows):
        text = ""
        if viewed.tokens is not None:
            real = viewed.tokens[index] if viewed.valid is None else viewed.tokens[index][viewed.valid[index]]
            text = f": {shorter(run.data.decode(real.tolist()))}"
        titles.append(f"{split} row {row}{text}")
    return ProbeInput(viewed, tuple(titles))


def checked_rows(data: DataSource, split: SplitName, rows: Sequence[int]) -> np.ndarray:
    size = len(data.split(split))
    for row in rows:
        if not 0 <= row < size:
            raise DataError(f"--rows {row}: the {split} split has rows 0 to {size - 1}")
    return np.array(rows, dtype=np.int64)


def of_text(run: FinishedRun, text: str, second: str | None = None, target: str | None = None) -> ProbeInput:
    """A text as the run's own tokenizer and the form of its data make a row of it."""
    data, spec = run.data, run.data.spec()
    if (tokenizer := tokenizer_of(data)) is None:
        what = "images" if spec.kind == "images" else "tokens that no text can represent"
        way = "give --image FILE, or rows of a split" if spec.kind == "images" else "give rows of a split instead"
        raise DataError(f"--text does not fit: the data of this run is {what}; {way} (--rows 0,1,2)")
    reader = _Reader(run, tokenizer, spec)
    if spec.kind == "pairs_of_text":
        _refuse("--second", second, "the data of this run has one text as source; --target is the other side")
        batch = run.task.view(reader.source_and_target(text, target), seed=EVALUATION_SEED, epoch=0)
    else:
        _refuse("--target", target, "only an encoder-decoder writes one")
        batch = reader.one_row(text, second)
    return ProbeInput(batch, (shorter(text),), tuple(reader.remarks))


class _Reader:
    """Texts into rows, with remarks about what did not fit."""

    def __init__(self, run: FinishedRun, tokenizer: Tokenizer, spec: DataSpec) -> None:
        self.run, self.data, self.tokenizer, self.spec = run, run.data, tokenizer, spec
        self.remarks: list[str] = []

    def one_row(self, text: str, second: str | None) -> Batch:
        """[bos] text [eos], and second [eos] where there is one; a text to be continued has no end."""
        takes_pairs = self._takes_pairs()
        if takes_pairs and second is None:
            raise DataError("the data of this run is pairs of texts: give the other one as --second (a question first)")
        if not takes_pairs:
            _refuse("--second", second, "the data of this run is single texts")
        parts = [self._tokens(text, "--text")] + ([self._tokens(second, "--second")] if second is not None else [])
        goes_on = self.run.task.head in NEXT_TOKEN_HEADS
        # A frame holds a start token and one end token for each part.
        parts = self._fitting(parts, "max_length", spare=1 if goes_on else 0)
        ends = [] if goes_on else [self.spec.eos_id]
        tokens, types = [self.spec.bos_id], [0]
        for number, part in enumerate(parts):
            tokens += [*part, *ends]
            types += [number] * (len(part) + len(ends))
        return Batch(
            rows=torch.zeros(1, dtype=torch.long),
            tokens=torch.tensor([tokens]),
            token_types=torch.tensor([types]) if takes_pairs else None,
        )

    def source_and_target(self, text: str, target: str | None) -> Batch:
        source = self._cut(self._tokens(text, "--text"), "max_length", framing=0)
        batch = Batch(rows=torch.zeros(1, dtype=torch.long), tokens=torch.tensor([source]))
        if target is not None:
            written = self._cut(self._tokens(target, "--target"), "max_target_length", framing=1)
        else:
            written = self._greedy(batch)
        framed = torch.tensor([[self.spec.bos_id, *written, self.spec.eos_id]])
        return replace(batch, decoder_tokens=framed[:, :-1], targets=framed[:, 1:])

    def _greedy(self, batch: Batch) -> list[int]:
        model = self.run.model
        if not isinstance(model, DecodingModel) or not model.reads_source or batch.tokens is None:
            raise DataError("give --target: this model does not generate one")
        spec = self.spec
        written = greedy(
            model, batch.tokens, max_length=self._longest("max_target_length"), bos_id=spec.bos_id, eos_id=spec.eos_id
        )[0].tolist()
        end = written.index(spec.eos_id) if spec.eos_id in written else len(written) - 1
        self.remarks.append(f"no --target: the decoder reads its own output, {self.data.decode(written)!r}")
        return written[:end]

    def _takes_pairs(self) -> bool:
        return self.data.split("train").batch(np.zeros(1, dtype=np.int64)).token_types is not None

    def _tokens(self, text: str, option: str) -> list[int]:
        if not text.strip():
            raise DataError(f"{option} is empty: give it some text")
        pieces = _MASK.split(text) if self.run.task.head.startswith("masked") else [text]
        tokens: list[int] = []
        for piece in pieces:
            tokens += [self.spec.mask_id] if piece == "<mask>" else self.tokenizer.encode([piece])[0].tolist()
        unk = self.tokenizer.special.unk
        if unknown := sum(token == unk for token in tokens):
            strange = sorted({sign for sign in text if self.tokenizer.encode([sign])[0].tolist() == [unk]})
            self.remarks.append(
                f"{unknown} of {len(tokens)} tokens of {option} are unknown to the run's tokenizer and read as <unk>: "
                + " ".join(strange)
            )
        return tokens

    def _fitting(self, parts: list[list[int]], field: str, *, spare: int) -> list[list[int]]:
        """Cut the parts as the run's own rows are cut: at their ends, the longer of two first."""
        longest = self._longest(field) + spare
        length = sum(map(len, parts)) + len(parts) + 1
        if length <= longest:
            return parts
        self._report_truncation(length - spare, field)
        ragged = [Ragged.of_lengths(np.array(part), np.array([len(part)])) for part in parts]
        return [part[0].tolist() for part in shortened(ragged, longest)]

    def _cut(self, tokens: list[int], field: str, *, framing: int) -> list[int]:
        room = self._longest(field) - framing
        if len(tokens) > room:
            self._report_truncation(len(tokens) + framing, field)
        return tokens[:room]

    def _report_truncation(self, length: int, field: str) -> None:
        self.remarks.append(
            f"the text has {length} tokens and is cut to the {self._longest(field)} of model.{field}, "
            f"the longest that this model was trained on"
        )

    def _longest(self, field: str) -> int:
        limit = RunConfig(self.run.config).model.get(field)
        return int(limit) if limit else self.spec.max_length


def of_image(run: FinishedRun, file: Path) -> ProbeInput:
    """An image file in the size and channels of the run's own, and in the numbers that these are read as."""
    from PIL import Image, UnidentifiedImageError

    spec = run.data.spec()
    if spec.image_shape is None:
        raise DataError("--image does not fit: the data of this run are not images; give --text or --rows")
    channels, height, width = spec.image_shape
    try:
        with open_regular(file) as content, Image.open(content) as opened:
            fitted = fitted_image(opened, (width, height), "grey" if channels == 1 else "rgb", exact_blocks=True)
            size = f"{opened.width} x {opened.height}"
    except FileNotFoundError:
        raise DataError(f"--image {file} does not exist: correct the path") from None
    except DamagedFile as damage:
        raise DataError(f"--image {file} {damage.what}: give the file of a picture") from None
    except DataError as refusal:
        raise DataError(f"--image {file} {refusal}") from None
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"--image {file} cannot be read as an image ({error})") from None
    pixels = torch.from_numpy(np.asarray(fitted, dtype=np.float32)).reshape(height, width, channels).permute(2, 0, 1)
    remarks = (
        () if size == f"{width} x {height}" else (f"{file.name} ({size}) is scaled and cropped to {width} x {height}",)
    )
    batch = Batch(rows=torch.zeros(1, dtype=torch.long), images=PixelScale.of(spec).images(pixels[None]))
    return ProbeInput(batch, (file.name,), remarks)


def shorter(text: str) -> str:
    """Enough of a text to know it by, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= _TITLE else f"{line[: _TITLE - 1]}…"


def _refuse(option: str, value: str | None, reason: str) -> None:
    if value is not None:
        raise DataError(f"{option} cannot be used here: {reason}")

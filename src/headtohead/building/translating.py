"""A finished run that writes a text for a text, as an augmentation uses it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from headtohead.architectures.contracts import Architecture
from headtohead.architectures.decoding import Decodes
from headtohead.building.errors import ConfigurationError
from headtohead.building.trust import recorded_config
from headtohead.building.ways import Way, way_of
from headtohead.data.contracts import DataSource
from headtohead.data.files import content_digest
from headtohead.generation.beams import search
from headtohead.generation.strategy import Strategy
from headtohead.tracking.store import RunFolder
from headtohead.training.checkpoints import BEST, put_best

Build = Callable[[Mapping[str, Any]], Any]


class RunTranslator:
    """Its data is opened for the tokenizer alone, its model when the first text is written."""

    def __init__(
        self, folder: str, field: str, beams: int, *, build_data: Build, make_model: Callable[..., Architecture]
    ) -> None:
        self.field, self.beams, self._build_data, self._make_model = f"{field}={folder}", beams, build_data, make_model
        path = Path(folder.removeprefix("run:")).expanduser()
        if not (path / "record.json").is_file():
            raise ConfigurationError(f"{self.field} holds no record.json: give the folder of a finished run")
        run = RunFolder.open(path)
        self.folder, self.config = run.path, recorded_config(run)
        self._weights = self.folder / "checkpoints" / BEST
        if not self._weights.is_file():
            raise ConfigurationError(f"{self.field} kept no weights: train it with trainer.keep_checkpoints=best")

    @property
    def way(self) -> Way | None:
        return way_of(self.config["data"])

    def check_goes_back(self, way: Way | None, of: str) -> None:
        """What goes the same way would read what it never learned to read, or write what is there already."""
        if way is not None and self.way is not None and self.way.is_known_to_meet(way):
            raise ConfigurationError(
                f"{self.field} translates from {self.way}, and {of} from {way}: give one that was trained from "
                f"{way.back}"
            )

    @property
    def digest(self) -> str:
        return content_digest(self._weights)

    @cached_property
    def data(self) -> DataSource:
        own = {"init_from": str(self.folder)} if self.config.get("init_from") else {}
        data: DataSource = self._build_data({**self.config, **own})
        return data

    @cached_property
    def model(self) -> Decodes:
        model = self._make_model(self.config)
        if not isinstance(model, Decodes) or not model.reads_source:
            raise ConfigurationError(
                f"{self.field} translates nothing: give a run of task=seq2seq and model=encoder_decoder"
            )
        put_best(self.folder, model)
        return model.eval()

    @torch.no_grad()
    def __call__(self, texts: Sequence[str]) -> list[str]:
        """The likeliest by a beam search; of a text longer than the model reads, its beginning."""
        spec = self.data.spec()
        assert spec.encode is not None and spec.decode is not None, "pairs of texts have a tokenizer"
        prompts = [spec.encode(text)[: spec.max_length] for text in texts]
        asked = [place for place, prompt in enumerate(prompts) if prompt]
        how = Strategy(max_new_tokens=spec.max_target_length, beams=self.beams)
        found = search(
            self.model, [prompts[place] for place in asked], how, bos_id=spec.bos_id, ends={spec.eos_id}
        )  # fmt: skip
        written = [""] * len(texts)
        for place, best in zip(asked, found, strict=True):
            written[place] = spec.decode([token for token in best[0].tokens if token != spec.eos_id]).strip()
        return written

"""A run from its folder, ready to be used: its model with the weights that validation selected, its task, its data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headtohead.architectures.contracts import Architecture
from headtohead.building.build import build_data, build_task, make_model
from headtohead.building.trust import recorded_config, trusting
from headtohead.data.contracts import DataSource
from headtohead.data.tokenizers import is_given
from headtohead.files.reading import DamagedFile
from headtohead.tasks.contracts import Task
from headtohead.tracking.record import RunRecord
from headtohead.tracking.store import CONFIG, PARTS, RunFolder, load_run
from headtohead.training.checkpoints import load_best, put_best, put_weights

if TYPE_CHECKING:
    from headtohead.examining.generation.prompts import Prompt
    from headtohead.examining.generation.texts import Written
    from headtohead.examining.generation.writer import Writer
    from headtohead.examining.probe.attention import Attention


@dataclass(frozen=True)
class FinishedRun:
    """What is asked for is made; a run whose data is not asked for needs none."""

    record: RunRecord
    folder: Path
    config: Mapping[str, Any]
    """Complete, as it was trained."""

    @cached_property
    def data(self) -> DataSource:
        """Read as it was trained, with the run's own tokenizer where that was another's or came from a file."""
        is_not_learned = self.config.get("init_from") or is_given(str(self.config["data"].get("tokenizer", "")))
        own = {"init_from": str(self.folder)} if is_not_learned else {}
        with self._made_of("data"):
            return build_data({**self.config, **own})

    @cached_property
    def task(self) -> Task:
        with self._made_of("task"):
            return build_task(self.config, self.data.spec())

    @cached_property
    def model(self) -> Architecture:
        """In evaluation mode, on the CPU, in 64 bits where it was trained so, else in 32."""
        return self.model_with(lambda config: config)

    @property
    def device(self) -> torch.device:
        return device_for(self.config)

    @cached_property
    def writer(self) -> Writer:
        """What writes texts, with a model of its own on `device`."""
        from headtohead.examining.generation.writer import Writer

        return Writer(self)

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        *,
        max_new_tokens: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        repetition_penalty: float = 1.0,
        beams: int = 1,
        length_penalty: float = 1.0,
        num_samples: int = 1,
        seed: int = 0,
        stop: Sequence[str] = (),
        stop_tokens: Sequence[int] = (),
        show: Callable[[int, str], None] | None = None,
    ) -> list[Written]:
        """What the model writes for a prompt, or for several at once: `generate("the old teacher")[0].text`.

        The likeliest token each time, unless a temperature, top_k or top_p ask for draws, or beams for a search. A
        prompt is a text, or token ids; `show(number, text)` is told what is added to a text as it is written.
        """
        from headtohead.generation.strategy import Strategy

        how = Strategy(
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            repetition_penalty=repetition_penalty,
            beams=beams,
            length_penalty=length_penalty,
            num_samples=num_samples,
            seed=seed,
        )
        is_one = isinstance(prompts, str) or (len(prompts) > 0 and isinstance(prompts[0], int))
        several: Sequence[Any] = [prompts] if is_one else prompts
        return self.writer.write(
            several, how, max_new_tokens=max_new_tokens, stop=stop, stop_tokens=stop_tokens, show=show
        )

    def embed(self, texts: str | Sequence[str], *, pooling: str | None = None, batch_size: int = 64) -> np.ndarray:
        """Vectors [N, D] of length 1, one for each text, whose products are cosines; they depend on no other text.

        `pooling` is mean, cls or last, over true tokens; by default what the run's own head does, else the mean, or the
        last token of a decoder. Texts longer than the run reads are cut.
        """
        from headtohead.examining.retrieval.embedder import Embedder

        return Embedder(self, pooling, batch_size).embed([texts] if isinstance(texts, str) else list(texts))

    def model_with(self, changed: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Architecture:
        """The model of a configuration that differs where its weights do not (a longer context, a rotary scaling)."""
        with self._made_of("model"):
            model = make_model(config := changed(self.config))
        if config == self.config:
            put_best(self.folder, model)
        else:  # whether the weights fit is for whoever changed it to say
            put_weights(load_best(self.folder)["model"], model)
        return model.eval()

    def attention(self, text: str, *, second: str | None = None, target: str | None = None) -> Attention:
        """What every head looks at in a text: `maps` with weights [1, H, L, M], `statistics`, tokens in `pairs`.

        `second` is the other text of a pair, `target` what an encoder-decoder's decoder reads (else its own output).
        """
        from headtohead.examining.probe.attention import attend
        from headtohead.examining.probe.subject import of_text

        return attend(self, of_text(self, text, second, target))

    @contextmanager
    def _made_of(self, part: str) -> Iterator[None]:
        """A configuration that somebody has changed by hand may fit no constructor, and each says so in its own way."""
        try:
            yield
        except (TypeError, AttributeError, KeyError, IndexError, OverflowError) as error:
            reason = f"its {part} cannot be made ({type(error).__name__}: {error})"
            raise DamagedFile(self.folder / CONFIG, reason, "put the file back as the run wrote it") from error


def device_for(config: Mapping[str, Any]) -> torch.device:
    """A GPU where there is one, unless the configuration keeps to the CPU."""
    on_gpu = config["trainer"].get("accelerator") != "cpu" and torch.cuda.is_available()
    return torch.device("cuda" if on_gpu else "cpu")


def _complete(config: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    if missing := [part for part in PARTS if part not in config]:
        what = f"holds no configuration of a run: it has no {missing[0]}"
        raise DamagedFile(folder / CONFIG, what, "put the file back as the run wrote it")
    return config


def open_run(path: str | Path, *, trust: Sequence[str] = ()) -> FinishedRun:
    """By the folder of the run, or any file in it; raises ValueError or FileNotFoundError with what to do.

    `trust` names packages or classes beyond the choices of this package that a run from elsewhere may name.
    """
    record = load_run(path)
    assert record.path is not None, "a record that was read knows its folder"
    with trusting(trust):
        config = recorded_config(RunFolder.open(record.path))
    return FinishedRun(record=record, folder=record.path, config=_complete(config, record.path))

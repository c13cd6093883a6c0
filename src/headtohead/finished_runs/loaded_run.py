"""A finished run as Python callers use it: texts written and embedded, and what its heads look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from headtohead.finished_runs.embedding.embedder import Embedder
from headtohead.finished_runs.finished_run import FinishedRun, open_run
from headtohead.finished_runs.generators import generator_of
from headtohead.finished_runs.probe.attention_probe import Attention, attention_of
from headtohead.finished_runs.probe.probe_input import of_text
from headtohead.finished_runs.text_generator import GeneratedText, Prompt, TextGenerator
from headtohead.generation.decoding_strategy import DecodingStrategy
from headtohead.training.loop.precision import Unmixed


@dataclass(frozen=True)
class LoadedRun(FinishedRun):
    """A finished run with what can be asked of its model in one call."""

    def __repr__(self) -> str:
        return f"{self.record.one_line}\n{self.folder}: .generate(), .embed(), .attention(), .model, .data, .record"

    @cached_property
    def writer(self) -> TextGenerator:
        """Return a text generator with a model of its own on `device`."""
        return generator_of(self)

    @cached_property
    def _writers(self) -> dict[Unmixed, TextGenerator]:
        return {}

    def _writer_in(self, precision: Unmixed | None) -> TextGenerator:
        if precision is None:
            return self.writer
        if precision not in self._writers:
            self._writers[precision] = generator_of(self, precision)
        return self._writers[precision]

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
        precision: Unmixed | None = None,
        show: Callable[[int, str], None] | None = None,
    ) -> list[GeneratedText]:
        """Generate texts for a prompt, or for several at once: `generate("the old teacher")[0].text`.

        The most likely token each time, unless a temperature, top_k or top_p ask for draws, or beams for a search. A
        prompt is a text, or token ids; `show(number, text)` is told what is added to a text as it is written. Weights
        are cast to `precision` once, however many calls ask for it.
        """
        strategy = DecodingStrategy(
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
        return self._writer_in(precision).write(
            several, strategy, max_new_tokens=max_new_tokens, stop=stop, stop_tokens=stop_tokens, show=show
        )

    def embed(self, texts: str | Sequence[str], *, pooling: str | None = None, batch_size: int = 64) -> np.ndarray:
        """Vectors [N, D] of length 1, one for each text, whose products are cosines; they depend on no other text.

        `pooling` is mean, cls or last, over true tokens; by default what the run's own head does, else the mean, or the
        last token of a decoder. Texts longer than the run reads are cut.
        """
        return Embedder(self, pooling, batch_size).embed([texts] if isinstance(texts, str) else list(texts))

    def attention(self, text: str, *, second: str | None = None, target: str | None = None) -> Attention:
        """Return what every head attends to in a text: `maps` with weights [1, H, L, M], `statistics`, tokens in
        `pairs`.

        `second` is the other text of a pair, `target` what an encoder-decoder's decoder reads (else its own output).
        """
        return attention_of(self, of_text(self, text, second, target))


def load_run(path: str | Path, *, trust: Sequence[str] = ()) -> LoadedRun:
    """Open a run as `open_run` does."""
    run = open_run(path, trust=trust)
    return LoadedRun(run.record, run.folder, run.config)

"""Texts that a finished run writes: prompts as its data encodes them, and where texts end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from headtohead.config.errors import ConfigurationError, nearest
from headtohead.data.data_source import DataError, DataSource, DataSpec
from headtohead.data.generated.problem_forms import FIRST_ID
from headtohead.data.generated.procedural_source import ProceduralSource
from headtohead.data.row_formats.text_source import tokenizer_of
from headtohead.generation.decoding_strategy import DecodingStrategy

if TYPE_CHECKING:
    from headtohead.finished_runs.finished_run import FinishedRun


Show = Callable[[int, str], None]
"""Told the number of a text and what was added to it."""


HasEnded = Callable[[int, int], bool]
"""Takes a text's next token, and returns whether it was the text's last."""


class TextGenerator(ABC):
    """A finished run that writes. Subclasses know how its model does: token by token, or in any order."""

    def __init__(self, run: FinishedRun) -> None:
        self.data, self.task = run.data, run.task
        of_data = run.data.spec()
        self.spec = run.task.rows_read(of_data) or of_data  # a row of a stream is not fetched for it

    def text_of(self, tokens: Sequence[int]) -> str:
        return self.task.text_of(tokens, self.data.decode)

    def _read(self, prompt: Prompt) -> list[int]:
        framed = self.task.prompt(prompt) if isinstance(prompt, str) else None
        return encoded(prompt, self.data, self.spec, is_source=self.reads_source) if framed is None else framed

    @property
    @abstractmethod
    def reads_source(self) -> bool:
        """Return whether the prompt is a separate source, and not the beginning of the text."""

    @abstractmethod
    def room(self, prompts: Sequence[Sequence[int]], strategy: DecodingStrategy, max_new_tokens: int | None) -> int:
        """Return how many tokens to write; raise ConfigurationError where there is no room for them."""

    @abstractmethod
    def feed(self, prompts: Sequence[Sequence[int]], strategy: DecodingStrategy, has_ended: HasEnded) -> None:
        """Write all texts, and hand over each token in the order of its text."""

    @abstractmethod
    def searched(
        self,
        prompts: Sequence[Sequence[int]],
        texts: Sequence[str],
        strategy: DecodingStrategy,
        stop_tokens: Sequence[int],
        show: Show | None,
    ) -> list[GeneratedText]:
        """Return the best texts of a beam search."""

    def write(
        self,
        prompts: Sequence[Prompt],
        strategy: DecodingStrategy,
        *,
        max_new_tokens: int | None = None,
        stop: Sequence[str] = (),
        stop_tokens: Sequence[int] = (),
        show: Show | None = None,
    ) -> list[GeneratedText]:
        """Return the samples of the first prompt, then those of the second, and so on; `show` sees every text grow.

        `max_new_tokens` is as many as fit, if fewer, where it is not given.
        """
        read = [self._read(prompt) for prompt in prompts]
        _check_not_empty(prompts, read)
        _check_stops(stop, stop_tokens, self.spec.vocab_size)
        strategy = replace(strategy, max_new_tokens=self.room(read, strategy, max_new_tokens))
        texts = [prompt if isinstance(prompt, str) else self.text_of(prompt) for prompt in prompts]
        if strategy.beams > 1:
            if stop:
                raise ConfigurationError("stop strings work on a single growing text: remove beams")
            return self.searched(read, texts, strategy, stop_tokens, show)
        return self._streamed(read, texts, strategy, tuple(stop), stop_tokens, show)

    def _streamed(
        self,
        prompts: Sequence[Sequence[int]],
        prompt_texts: Sequence[str],
        strategy: DecodingStrategy,
        stop: Sequence[str],
        stop_tokens: Sequence[int],
        show: Show | None,
    ) -> list[GeneratedText]:
        texts = [GrowingText(self.text_of, stop) for _ in prompt_texts for _ in range(strategy.num_samples)]

        def has_ended(row: int, token: int) -> bool:
            text = texts[row]
            if token == self.spec.eos_id or token in stop_tokens:
                text.tokens.append(token)
                text.ending = "end" if token == self.spec.eos_id else "stop"
                return True
            if show is None and not stop:
                text.tokens.append(token)
                return False
            added = text.add(token)
            if show is not None and added:
                show(row, added)
            return text.ending == "stop"

        self.feed(prompts, strategy, has_ended)
        written = []
        for row, text in enumerate(texts):
            if show is None and not stop:
                text.text = self.text_of(without_end(text.tokens, text.ending))
            elif show is not None and (rest := text.rest()):
                show(row, rest)
            written.append(
                GeneratedText(prompt_texts[row // strategy.num_samples], text.text, tuple(text.tokens), text.ending)
            )
        return written


def _check_not_empty(prompts: Sequence[Prompt], read: Sequence[Sequence[int]]) -> None:
    if not prompts:
        raise ConfigurationError("there is no prompt: give one or more")
    for prompt, tokens in zip(prompts, read, strict=True):
        if not tokens:
            raise ConfigurationError(
                f"the prompt {prompt!r} is empty, and this run has no start to write from: give text"
            )


def _check_stops(stop: Sequence[str], stop_tokens: Sequence[int], vocab_size: int) -> None:
    if "" in stop:
        raise ConfigurationError("a stop string is empty, and would end every text at once: give text")
    for token in stop_tokens:
        if not 0 <= token < vocab_size:
            raise ConfigurationError(
                f"token {token} to stop at is not a token of the run: its ids are 0 to {vocab_size - 1}"
            )


def without_end(tokens: Sequence[int], ending: str) -> Sequence[int]:
    return tokens if ending == "length" else tokens[:-1]


Prompt = str | Sequence[int]
"""A text, or the token ids themselves."""


def encoded(prompt: Prompt, data: DataSource, spec: DataSpec, *, is_source: bool) -> list[int]:
    """Encode the model's input: text to be continued begins as rows of text do; a source has no frame, and in one row
    with its target the start token follows it."""
    if not isinstance(prompt, str):
        return _checked([int(token) for token in prompt], spec)
    if isinstance(data, ProceduralSource):
        return [_id_of(word, data) for word in prompt.split()]
    if (tokenizer := tokenizer_of(data)) is None:
        raise DataError("this run's data contains no text: give the prompt as token ids, --tokens 5,7,9")
    tokens: list[int] = tokenizer.encode([prompt])[0].tolist()
    if spec.kind == "pairs_of_text":
        return tokens if is_source else [*tokens, spec.bos_id]
    return tokens if is_source else [spec.bos_id, *tokens]


def _checked(tokens: list[int], spec: DataSpec) -> list[int]:
    for token in tokens:
        if not 0 <= token < spec.vocab_size:
            raise DataError(f"token {token} is not a token of the run: its ids are 0 to {spec.vocab_size - 1}")
    return tokens


def _id_of(word: str, data: ProceduralSource) -> int:
    if word not in data.symbols:
        guess = nearest(word, data.symbols)
        hint = f"did you mean {guess}? " if guess else ""
        examples = " ".join(data.symbols[:20]) + (" ..." if len(data.symbols) > 20 else "")
        raise DataError(f"{word!r} is not a symbol of data={data.name}: {hint}they are {examples}, with spaces between")
    return FIRST_ID + data.symbols.index(word)


Ending = Literal["end", "stop", "length"]
_UNFINISHED = "\N{REPLACEMENT CHARACTER}"
_MOST_BYTES = 3
"""The most bytes of a character in UTF-8, without its last one."""


@dataclass(frozen=True)
class GeneratedText:
    """A generated text is what a model wrote for a prompt."""

    prompt: str
    """The text that the model continued."""
    text: str
    """The text that it wrote, without the prompt."""
    tokens: tuple[int, ...]
    """All that were written, the one that ended the text included."""
    ending: Ending
    """The reason for its end: its end token, a token or string to stop at, or its length."""
    score: float | None = None
    """The score of a text found by beams: its log-probability per length^penalty."""


@dataclass
class GrowingText:
    """The text of one row. A character whose bytes are not all there, and what may be the beginning of a string to stop
    at, are held back."""

    decode: Callable[[Sequence[int]], str]
    stop: Sequence[str] = ()
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    ending: Ending = "length"
    _shown: int = 0

    def add(self, token: int) -> str:
        """Add a token, and return the text that can be shown now."""
        self.tokens.append(token)
        self.text = self.decode(self.tokens)
        stops = [index for index in map(self.text.find, self.stop) if index >= 0]
        if stops:
            self.text, self.ending = self.text[: min(stops)], "stop"
            return self.rest()
        return self._up_to(len(self.text) - self._held())

    def rest(self) -> str:
        """Return the text that was held back until the end."""
        return self._up_to(len(self.text))

    def _up_to(self, end: int) -> str:
        start, self._shown = self._shown, max(self._shown, end)
        return self.text[start : self._shown]

    def _held(self) -> int:
        unfinished = len(self.text) - len(self.text.rstrip(_UNFINISHED))
        partial_stops = (
            length
            for string in self.stop
            for length in range(min(len(string) - 1, len(self.text)), 0, -1)
            if self.text.endswith(string[:length])
        )
        return max(unfinished if unfinished <= _MOST_BYTES else 0, *partial_stops, 0)

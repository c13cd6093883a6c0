"""The ways in which a model writes: the most likely token, a sampled one, or a beam search."""

from __future__ import annotations

from dataclasses import dataclass

from headtohead.errors import UsageError
from headtohead.ranges import Beams, Length, Positive, Real, Samples, Seed, Share, Temperature, Vocabulary, out_of_range


class DecodingStrategyError(UsageError):
    """Settings without meaning, or incompatible; the message is for the user, one sentence."""


@dataclass(frozen=True)
class DecodingStrategy:
    """The most likely token each time, unless a temperature, top_k or top_p ask for draws, or beams for a search."""

    max_new_tokens: Length = 128
    temperature: Temperature | None = None
    """The divisor of logits before a draw; 0 is the most likely token."""
    top_k: Vocabulary | None = None
    """Draw from so many of the most likely tokens."""
    top_p: Share | None = None
    """Draw from the fewest tokens that hold this share of the probability."""
    repetition_penalty: Positive = 1.0
    """Above 1, tokens of what is written and of the prompt that it continues become less likely; those of a source
    do not."""
    beams: Beams = 1
    """Texts that a search keeps side by side."""
    length_penalty: Real = 1.0
    """A search divides the log-probability of a text by its number of tokens to this power."""
    num_samples: Samples = 1
    """Texts for each prompt: draws, or the best of a search."""
    seed: Seed = 0

    def __post_init__(self) -> None:
        if (wrong := out_of_range(self)) is not None:
            raise DecodingStrategyError(wrong)
        self._check_together()

    def _check_together(self) -> None:
        if self.beams > 1 and self.is_sampled:
            raise DecodingStrategyError(
                f"beams={self.beams} search for the most likely text, and temperature, top_k and top_p draw one: "
                "leave either out"
            )
        if self.beams == 1 and self.num_samples > 1 and not self.is_sampled:
            raise DecodingStrategyError(
                f"num_samples={self.num_samples} texts of the most likely tokens would be the same text: "
                "give a temperature, top_k or top_p to draw them, or beams"
            )
        if self.beams == 1 and self.length_penalty != 1.0:
            raise DecodingStrategyError(
                f"length_penalty={self.length_penalty} is for the scores of a beam search: give beams, or leave it out"
            )
        if self.temperature == 0 and (self.top_k is not None or self.top_p is not None):
            raise DecodingStrategyError(
                "temperature=0 takes the most likely token each time, and top_k and top_p draw one: give a temperature "
                "above 0, or leave either out"
            )
        if self.seed != 0 and not self.is_sampled:
            raise DecodingStrategyError(
                f"seed={self.seed} is for draws, and nothing is drawn here: give a temperature, top_k or top_p, or "
                "leave it out"
            )
        if 1 < self.beams < self.num_samples:
            raise DecodingStrategyError(
                f"beams={self.beams} cannot find num_samples={self.num_samples} texts: give more beams"
            )

    @property
    def is_sampled(self) -> bool:
        """Return whether tokens are sampled."""
        if self.temperature is not None:
            return self.temperature > 0
        return self.top_k is not None or self.top_p is not None

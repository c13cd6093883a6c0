"""Problems drawn at random, all different, dealt out to the splits by what they are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np

from headtohead.data.contracts import SPLIT_NAMES, DataError, SplitName
from headtohead.data.dealing import only_test
from headtohead.data.generated.problems import ProblemForm, Problems, Span, keys_of
from headtohead.data.generated.procedural import ProceduralSource

_SHARES: dict[SplitName, tuple[float, float]] = {"test": (0.0, 0.1), "validation": (0.1, 0.2), "train": (0.2, 1.0)}
"""Which prompts may be in a split: those whose key, as a fraction, lies here. So short prompts, of which there are
few, are in every split, and no split hangs on the size of another."""
_NUMBERS_AT_ONCE = 2**22
"""Tokens that are drawn together, so that memory stays small."""
_FEWEST = 128
"""Rows of a split that a draw hopes for at least: enough to see whether there are new ones left."""
_NEW_AT_LEAST = 0.02


class DrawnSource(ProceduralSource):
    """Subclasses say how problems of given lengths are drawn; the test split may have a length of its own."""

    def __init__(
        self,
        *,
        sizes: Mapping[SplitName, int],
        spans: Mapping[SplitName, Span],
        form: ProblemForm,
        symbols: Sequence[str],
        class_names: Sequence[str] = (),
        batch_size: int,
        seed: int,
    ) -> None:
        super().__init__(form=form, symbols=symbols, class_names=class_names, batch_size=batch_size, seed=seed)
        self.sizes, self.spans = sizes, spans

    @abstractmethod
    def draw(self, size: int, span: Span, generator: np.random.Generator) -> Problems:
        """At most as many problems of these lengths, all lines as wide as the longest; some may be alike."""

    @abstractmethod
    def drawn_parameters(self) -> Mapping[str, Any]:
        """All that determines the problems beside their lengths and their number."""

    def longer(self, multiple: int) -> DrawnSource:
        """No prompt of the test split is one for training, whatever the lengths."""
        usual, own = self.spans["train"], self.spans["test"]
        if own != usual:
            raise DataError(
                f"its test rows have a length of their own already (data.test_length={own.longest}): set that to null"
            )
        longer = copy(self)
        longer.sizes, longer.spans = only_test(self.sizes), {**self.spans, "test": self.longer_span(multiple)}
        return longer

    def longer_span(self, multiple: int) -> Span:
        """Of test rows so many times as long: short and long ones alike."""
        return self.spans["train"].times(multiple)

    def problem_parameters(self) -> Mapping[str, Any]:
        spans = {name: [span.shortest, span.longest] for name, span in self.spans.items()}
        return {**self.drawn_parameters(), "sizes": dict(self.sizes), "spans": spans}

    def problems(self, name: SplitName) -> Problems:
        wanted, span = self.sizes[name], self.spans[name]
        low, high = _SHARES[name]
        generator = np.random.default_rng([self.seed, SPLIT_NAMES.index(name), 2])
        parts: list[Problems] = []
        seen = np.zeros(0, dtype=np.uint64)
        while len(seen) < wanted:
            size = max(int(1.1 * (wanted - len(seen))), _FEWEST) / (high - low)
            drawn = self.draw(int(min(size, max(_NUMBERS_AT_ONCE // span.longest, 1))), span, generator)
            keys = keys_of(drawn.prompts, self.seed)
            place = keys / 2.0**64
            own = np.flatnonzero((place >= low) & (place < high))
            first = own[np.sort(np.unique(keys[own], return_index=True)[1])]
            new = first[~np.isin(keys[first], seen)]
            if len(new) <= _NEW_AT_LEAST * len(own):
                raise self._exhausted(name, len(seen) + len(new))
            parts.append(drawn[new])
            seen = np.concatenate([seen, keys[new]])
        return Problems.together(parts)[slice(wanted)]

    def _exhausted(self, name: SplitName, found: int) -> DataError:
        return DataError(
            f"data={self.name} has too few different problems under these settings: about {found} for the {name} "
            f"split, and data.num_{name}={self.sizes[name]} are asked for: lower it, or allow longer problems or more "
            f"symbols."
        )

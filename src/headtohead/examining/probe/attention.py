"""What the heads of a finished run look at: maps as they are, and with the causal mask the other way round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from torch import Tensor

from headtohead.building.errors import ConfigurationError
from headtohead.data.pixels.scale import PixelScale
from headtohead.examining.finished import FinishedRun
from headtohead.examining.probe.subject import Subject
from headtohead.probing.attention import AttentionMaps, attention_maps
from headtohead.probing.labels import Labels, axis_labels
from headtohead.probing.receptive_field import Wanted, all_maps
from headtohead.probing.statistics import Statistics, head_statistics


@dataclass(frozen=True)
class MapPair:
    """A mixer's maps, and those of the same queries and keys under the other causality; a memory knows none."""

    trained: AttentionMaps
    changed: AttentionMaps | None
    queries: Labels
    keys: Labels

    def of_sample(self, sample: int) -> MapPair:
        """One sample alone, without its padding."""
        queries, keys = (
            slice(0, int(valid[sample].sum()) if valid is not None else None)
            for valid in (self.trained.query_valid, self.trained.key_valid)
        )

        def alone(maps: AttentionMaps) -> AttentionMaps:
            return replace(
                maps,
                weights=maps.weights[sample : sample + 1, :, queries, keys],
                query_valid=None,
                key_valid=None,
                segments=None if maps.segments is None else maps.segments[sample : sample + 1, queries],
            )

        return MapPair(
            alone(self.trained),
            None if self.changed is None else alone(self.changed),
            [self.queries[sample][queries]],
            [self.keys[sample][keys]],
        )


@dataclass(frozen=True)
class Attention:
    """The maps of a run's model for some samples, which `titles` name; `remarks` say what the reader should know."""

    titles: tuple[str, ...]
    remarks: tuple[str, ...]
    images: Tensor | None
    pairs: tuple[MapPair, ...]

    @property
    def maps(self) -> list[AttentionMaps]:
        """As the model was trained, in the order of its layers."""
        return [pair.trained for pair in self.pairs]

    @cached_property
    def statistics(self) -> dict[str, Statistics]:
        """Entropy, distance and more of every head, over all samples."""
        return head_statistics(self.maps)

    def files(self) -> Iterator[tuple[str, AttentionMaps, MapPair]]:
        """Every set of maps that is worth a file, by the file's name."""
        for pair in self.pairs:
            yield pair.trained.name, pair.trained, pair
            if pair.changed is not None:
                how = "with_mask" if pair.changed.causal else "without_mask"
                yield f"{pair.trained.name}.{how}", pair.changed, pair


def attend(run: FinishedRun, subject: Subject, *, fields: Wanted = "where_needed") -> Attention:
    """Raises ConfigurationError where the model has nothing to show."""
    inputs = subject.batch.inputs()
    trained = all_maps(run.model, inputs, fields=fields)
    if not trained:
        raise ConfigurationError(f"{run.record.id} has nothing to show: neither attention nor inputs to follow back")
    spec = run.data.spec()
    changed = {
        causal: {maps.name: maps for maps in attention_maps(run.model, inputs, causal=causal)}
        for causal in {not maps.causal for maps in trained if maps.kind == "self" and maps.measure == "attention"}
    }
    pairs = tuple(
        MapPair(
            maps,
            changed[not maps.causal][maps.name] if maps.kind == "self" and maps.measure == "attention" else None,
            *axis_labels(maps, inputs, spec, run.data.decode),
        )
        for maps in trained
    )
    images = subject.batch.images
    shown = None if images is None else PixelScale.of(spec).as_shown(images)
    return Attention(subject.titles, subject.remarks, shown, pairs)

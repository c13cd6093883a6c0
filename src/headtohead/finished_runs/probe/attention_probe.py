"""Compute what the heads of a finished run attend to: maps as they are, and with the causal mask inverted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from rich.table import Table
from torch import Tensor

from headtohead.config.errors import ConfigurationError
from headtohead.data.augmentation.images.colour_operations import PixelScale
from headtohead.finished_runs.finished_run import FinishedRun
from headtohead.finished_runs.probe.probe_input import ProbeInput
from headtohead.interpretability.head_statistics import Statistics, head_statistics
from headtohead.interpretability.picture_text import Labels, axis_labels
from headtohead.interpretability.receptive_field import RequestedMaps, all_maps
from headtohead.interpretability.recorded_attention import AttentionMaps, attention_maps


@dataclass(frozen=True)
class MapPair:
    """A mixer's maps, and those of the same queries and keys under the other causality; a memory knows none."""

    trained: AttentionMaps
    changed: AttentionMaps | None
    queries: Labels
    keys: Labels

    def of_sample(self, sample: int) -> MapPair:
        """Return one sample alone, without its padding."""
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
        """Return the maps as the model was trained, in the order of its layers."""
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


def attention_of(run: FinishedRun, subject: ProbeInput, *, fields: RequestedMaps = "where_needed") -> Attention:
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
    pixels = None if images is None else PixelScale.of(spec).as_shown(images)
    return Attention(subject.titles, subject.remarks, pixels, pairs)


_COLUMNS = {
    "entropy": "entropy",
    "entropy_share": "of ln(keys)",
    "distance": "distance",
    "patch_distance": "in patches",
    "first": "on first",
    "itself": "on itself",
    "previous": "on previous",
}


def show_attention(attention: Attention) -> Table:
    """Only statistics that some head has."""
    statistics = attention.statistics
    columns = [name for name in _COLUMNS if any(name in own for own in statistics.values())]
    table = Table(
        title="heads: entropy in nats, mean distance in tokens, shares of weight",
        title_justify="left",
        header_style="bold",
    )
    table.add_column("map", no_wrap=True)
    for name in ("head", *(_COLUMNS[column] for column in columns)):
        table.add_column(name, justify="right", no_wrap=True)
    for name, own in statistics.items():
        for head in range(len(own["entropy"])):
            table.add_row("" if head else name, str(head), *(_figure(own, column, head) for column in columns))
        table.add_section()
    return table


def attention_data(attention: Attention) -> dict[str, Any]:
    """Return the same as plain numbers, for --json."""
    statistics = {
        name: {figure: [None if math.isnan(value) else value for value in values] for figure, values in own.items()}
        for name, own in attention.statistics.items()
    }
    return {"samples": list(attention.titles), "remarks": list(attention.remarks), "statistics": statistics}


def _figure(own: Statistics, column: str, head: int) -> str:
    value = own[column][head] if column in own else math.nan
    return "-" if math.isnan(value) else f"{value:.2f}" if "distance" in column else f"{value:.3f}"

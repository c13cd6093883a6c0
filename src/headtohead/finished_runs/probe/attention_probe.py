"""Compute what the heads of a finished run attend to: maps as they are, and with the causal mask inverted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from rich.table import Table
from torch import Tensor, nn

from headtohead.config.errors import ConfigurationError
from headtohead.data.augmentation.image_operations import PixelScale
from headtohead.finished_runs.finished_run import FinishedRun
from headtohead.finished_runs.probe.probe_input import ProbeInput
from headtohead.interpretability.head_statistics import Statistics, head_statistics
from headtohead.interpretability.layer_words import layer_words
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
    other: AttentionMaps | None = None
    """The maps of the model that it is compared with, where that has a mixer of the same name and size."""

    @property
    def forms(self) -> dict[str, AttentionMaps]:
        """Return all maps by what they are: trained, changed, other, difference."""
        named = {"trained": self.trained, "changed": self.changed, "other": self.other}
        if self.other is not None:
            named["difference"] = replace(self.trained, weights=self.trained.weights - self.other.weights)
        return {name: maps for name, maps in named.items() if maps is not None}

    def of_sample(self, sample: int) -> MapPair:
        """Return one sample alone, without its padding; of an image of which parts were hidden, the whole grid."""
        queries, keys = (
            slice(0, int(valid[sample].sum()) if valid is not None and self.trained.grid is None else None)
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
            None if self.other is None else alone(self.other),
        )


@dataclass(frozen=True)
class Attention:
    """The maps of a run's model for some samples, which `titles` name; `remarks` say what the reader should know."""

    titles: tuple[str, ...]
    """The name of each sample."""
    remarks: tuple[str, ...]
    """The remarks to be read beside the maps."""
    images: Tensor | None
    """The images of the samples, where the model reads images."""
    pairs: tuple[MapPair, ...]
    """The maps of each mixer, in the order of the layers."""
    against: str | None = None
    """The name of the model that the run is compared with."""

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
            for form, maps in pair.forms.items():
                how = {"changed": "with_mask" if maps.causal else "without_mask", "trained": ""}.get(form, form)
                yield f"{pair.trained.name}.{how}".rstrip("."), maps, pair


def attention_of(
    run: FinishedRun,
    subject: ProbeInput,
    *,
    fields: RequestedMaps = "where_needed",
    against: tuple[str, nn.Module] | None = None,
) -> Attention:
    """Return the maps of a run, and those of a named model that it is compared with; raise ConfigurationError where the
    model has nothing to show, or the other none of the same layers."""
    inputs = subject.batch.inputs()
    trained = all_maps(run.model, inputs, fields=fields)
    if not trained:
        raise ConfigurationError(f"{run.record.id} has nothing to show: neither attention nor inputs to follow back")
    spec = run.data.spec()
    changed = {
        causal: {maps.name: maps for maps in attention_maps(run.model, inputs, causal=causal)}
        for causal in {not maps.causal for maps in trained if maps.kind == "self" and maps.measure == "attention"}
    }
    others = {} if against is None else _others(against, trained, inputs, fields)
    pairs = tuple(
        MapPair(
            maps,
            changed[not maps.causal][maps.name] if maps.kind == "self" and maps.measure == "attention" else None,
            *axis_labels(maps, inputs, spec, run.data.decode),
            others.get(maps.name),
        )
        for maps in trained
    )
    images = subject.batch.images
    pixels = None if images is None else PixelScale.of(spec).as_shown(images)
    return Attention(subject.titles, subject.remarks, pixels, pairs, None if against is None else against[0])


def _others(
    against: tuple[str, nn.Module], trained: Sequence[AttentionMaps], inputs: dict[str, Tensor], fields: RequestedMaps
) -> dict[str, AttentionMaps]:
    """Return the maps of the other model by name, of layers that both have alike."""
    name, model = against
    try:
        maps = {one.name: one for one in all_maps(model, inputs, fields=fields)}
    except (IndexError, RuntimeError, TypeError) as error:
        raise ConfigurationError(
            f"{name} cannot read the same input: give --against a run with this tokenizer and kind of data ({error})"
        ) from None
    alike = {
        one.name: maps[one.name]
        for one in trained
        if one.name in maps and maps[one.name].weights.shape == one.weights.shape
        if maps[one.name].measure == one.measure
    }
    if not alike:
        raise ConfigurationError(
            f"{name} has no map of the same layer, heads and measure: give --against a run of the same model, or before"
        )
    return alike


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
    table.add_column("layer", no_wrap=True)
    for name in ("head", *(_COLUMNS[column] for column in columns)):
        table.add_column(name, justify="right", no_wrap=True)
    for name, own in statistics.items():
        for head in range(len(own["entropy"])):
            table.add_row(
                "" if head else layer_words(name), str(head + 1), *(_figure(own, column, head) for column in columns)
            )
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

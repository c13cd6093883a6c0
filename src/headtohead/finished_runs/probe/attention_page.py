"""The attention of some samples as the content of a page, small enough to be opened."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from headtohead.finished_runs.finished_run import FinishedRun, facts_of
from headtohead.finished_runs.probe.attention_probe import Attention, MapPair
from headtohead.finished_runs.probe.small_images import as_source, enlarged, pixels_of
from headtohead.interpretability.head_statistics import head_statistics
from headtohead.interpretability.montage import scale_of
from headtohead.interpretability.recorded_attention import AttentionMaps, Measure

MOST_CELLS = 6_000_000
"""Weights that one page holds, two bytes each."""
_SHOWN: Mapping[Measure, str] = {"attention": "", "implicit attention": " implicit", "receptive field": " gradients"}


def attention_content(run: FinishedRun, attention: Attention, *, most_cells: int = MOST_CELLS) -> dict[str, Any]:
    """Return what attention.js draws; longer samples are cut if the page would be too large, and the page says so."""
    samples = range(len(attention.titles))
    attention, notes = _of_one_grid(attention)
    alone = [[pair.of_sample(sample) for sample in samples] for pair in attention.pairs]
    share = _share(alone, most_cells)
    if share < 1:
        longest = max(pair.trained.weights.shape[-1] for pairs in alone for pair in pairs)
        notes.append(
            f"This page holds the first {math.floor(share * longest)} of {longest} tokens; the .npz files hold all."
        )
    return {
        "title": f"What {run.record.name or run.record.id} attends to",
        "facts": facts_of(run.config, run.record.id),
        "notes": notes,
        "against": attention.against,
        "samples": [_sample(attention, alone, sample, share) for sample in samples],
        "kinds": [
            {**heading, "layers": [_layer(attention.pairs[i], alone[i], share) for i in numbers]}
            for heading, numbers in _kinds(attention)
        ],
    }


def half_floats(values: np.ndarray) -> str:
    """Base64 of 16-bit floats: 3 digits of every weight, however small."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f2").tobytes()).decode()


def kind_name(maps: AttentionMaps) -> str:
    """decoder.0.cross is cross-attention; stack.0.mixer is plain self-attention."""
    side = maps.name.split(".")[0]
    if side == "model":
        return f"whole model, from {maps.keys.replace('_', ' ')}"
    if maps.kind == "cross":
        return "cross-attention"
    return "self-attention" if side in ("stack", "layers") else f"{side} self-attention"


def layer_name(maps: AttentionMaps) -> str:
    """Return its number, from 1 on, and what is shown of it where that is not plain attention."""
    number = next((str(int(part) + 1) for part in maps.name.split(".") if part.isdecimal()), "all")
    return f"{number}{_SHOWN[maps.measure]}"


def _kinds(attention: Attention) -> list[tuple[dict[str, Any], list[int]]]:
    """Return the kinds of attention, and the indices of the layers of each."""
    numbers: dict[str, list[int]] = {}
    for number, pair in enumerate(attention.pairs):
        numbers.setdefault(kind_name(pair.trained), []).append(number)
    kinds = []
    for name, indices in numbers.items():
        first = attention.pairs[indices[0]]
        heading = {
            "name": name,
            "queries": first.trained.queries,
            "keys": first.trained.keys,
            "causal": first.trained.causal,
            "by_order": first.trained.kind == "self",
            "can_change": all(attention.pairs[number].changed is not None for number in indices),
        }
        kinds.append((heading, indices))
    return kinds


def _of_one_grid(attention: Attention) -> tuple[Attention, list[str]]:
    """Return the maps over the first grid of patches, since the page draws one picture of a sample, and its notes."""
    grids = (attention.pairs[0].trained.grid, None)
    pairs = tuple(pair for pair in attention.pairs if pair.trained.grid in grids)
    notes = list(attention.remarks)
    if others := len(attention.pairs) - len(pairs):
        notes.append(f"Of {others} layers, whose grids are coarser, maps are in the .png and .npz files alone.")
    return replace(attention, pairs=pairs), notes


def _share(alone: Sequence[Sequence[MapPair]], most_cells: int) -> float:
    """Return how much of the length of every sample a page can hold."""
    cells = sum(maps.weights.numel() for pairs in alone for pair in pairs for maps in pair.forms.values())
    return min(1.0, math.sqrt(most_cells / cells))


def _sample(attention: Attention, alone: Sequence[Sequence[MapPair]], sample: int, share: float) -> dict[str, Any]:
    sides: dict[str, list[str]] = {}
    segments = None
    for pairs in alone:
        pair = pairs[sample]
        for side, labels in ((pair.trained.queries, pair.queries[0]), (pair.trained.keys, pair.keys[0])):
            sides[side] = labels[: _shown_length(len(labels), share)]
        if pair.trained.segments is not None:
            segments = pair.trained.segments[0].tolist()
    picture = None
    grid = alone[0][sample].trained.grid
    if attention.images is not None and grid is not None:
        rows, columns = grid
        leading = alone[0][sample].trained.weights.shape[-1] - rows * columns
        source = as_source(enlarged(pixels_of(attention.images[sample])))
        picture = {"rows": rows, "columns": columns, "leading": leading, "source": source}
    return {"title": attention.titles[sample], "sides": sides, "segments": segments, "picture": picture}


def _layer(pair: MapPair, alone: Sequence[MapPair], share: float) -> dict[str, Any]:
    maps = []
    for own in alone:
        forms = own.forms
        scales = {name: scale_of(form) for name, form in forms.items()}
        shared = max(scales["trained"].high, scales["other"].high) if "other" in scales else None
        heads, length, num_keys = own.trained.weights.shape[1:]
        rows, columns = _shown_length(length, share), _shown_length(num_keys, share)
        maps.append(
            {
                "rows": rows,
                "columns": columns,
                "weights": {
                    name: half_floats(form.weights[0, :, :rows, :columns].numpy()) for name, form in forms.items()
                },
                "scales": {
                    name: [scale.low, shared if shared and name in ("trained", "other") else scale.high, scale.clipped]
                    for name, scale in scales.items()
                },
                "statistics": _all_statistics(forms),
            }
        )
    return {"name": pair.trained.name, "label": layer_name(pair.trained), "heads": heads, "maps": maps}


def _all_statistics(forms: Mapping[str, AttentionMaps]) -> dict[str, dict[str, list[float | None]]]:
    """Return the statistics of all maps; those of a difference are the differences of theirs."""
    named = {name: _statistics(form) for name, form in forms.items() if name != "difference"}
    if "difference" in forms:
        named["difference"] = {
            figure: [
                None if own is None or before is None else own - before
                for own, before in zip(named["trained"][figure], named["other"][figure], strict=True)
            ]
            for figure in named["trained"]
        }
    return named


def _statistics(maps: AttentionMaps) -> dict[str, list[float | None]]:
    """Return the statistics; distances between patches are those in the image."""
    [statistics] = head_statistics([maps]).values()
    figures = {"entropy": statistics["entropy"], "distance": statistics.get("patch_distance", statistics["distance"])}
    return {name: [None if math.isnan(value) else value for value in values] for name, values in figures.items()}


def _shown_length(length: int, share: float) -> int:
    return length if share == 1 else max(1, math.floor(share * length))

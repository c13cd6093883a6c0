"""What stands along the axes of a map: tokens as a person reads them, or the places of patches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from headtohead.components.contracts import Grid
from headtohead.data.contracts import DataSpec
from headtohead.probing.attention import AttentionMaps, Source

Labels = list[list[str]]
"""For each sample, one label per place."""
_VISIBLE = str.maketrans({" ": "␣", "\n": "↵", "\t": "→", "\r": "↵"})


def axis_labels(
    maps: AttentionMaps, inputs: Mapping[str, Tensor], spec: DataSpec, decode: Callable[[Sequence[int]], str]
) -> tuple[Labels, Labels]:
    """Labels of the queries and of the keys."""
    rows, _, length, num_keys = maps.weights.shape

    def named(source: Source, places: int) -> Labels:
        if source == "features":
            return [[str(place) for place in range(places)]] * rows
        if maps.grid is not None:
            return [patch_labels(maps.grid, places)] * rows
        if source == "images":
            _, _, height, width = inputs["images"].shape
            return [patch_labels((height, width), places)] * rows
        return [token_labels(row.tolist(), spec, decode) for row in inputs[source]]

    return named(maps.queries, length), named(maps.keys, num_keys)


def token_labels(ids: Sequence[int], spec: DataSpec, decode: Callable[[Sequence[int]], str]) -> list[str]:
    """One label per token, never empty; what stands for no text has its name, white space a sign."""
    special = {spec.pad_id: "<pad>", spec.bos_id: "<bos>", spec.eos_id: "<eos>", spec.mask_id: "<mask>"}
    return [decode([token]).translate(_VISIBLE) or special.get(token, f"#{token}") for token in ids]


def patch_labels(grid: Grid, places: int) -> list[str]:
    """row,column of each patch; what stands before the patches is the class token."""
    rows, columns = grid
    patches = [f"{row},{column}" for row in range(rows) for column in range(columns)]
    return ["<cls>"] * (places - len(patches)) + patches

"""Attention and implicit attention of the arms side by side, layer by layer, from the maps that runs left behind."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from headtohead.comparison.comparison_results import ArmResult, ComparisonResults, RunResult
from headtohead.comparison.report.map_pictures import HeatMap, MapScale, picture_of, read_maps, shared_scale
from headtohead.comparison.report.section_parts import (
    ArmName,
    CollapsedParts,
    Picture,
    PictureGrid,
    ReportText,
    Section,
    SectionPart,
    Stacked,
)
from headtohead.files.safe_read import DamagedFile
from headtohead.interpretability.layer_words import head_words, layer_words

_HEADS = 4
"""The most heads that are shown of each layer."""
_LAYERS = 12
_BY_GRADIENTS = ".receptive_field"
"""Ends the name of a map of what has no attention: the reach of outputs to inputs."""
_NAMED = 20
"""Tokens that are named along the sides of a map."""
_KEY = "A weight above the upper end is as bright as it."
_Row = tuple[Stacked, list[Sequence[Picture] | str]]
_BUDGET = 3_000_000
"""Bytes of all pictures together."""


def section(results: ComparisonResults) -> Section | None:
    """Show the maps of one seed, the first that has maps in most arms."""
    seed = _seed(results)
    if seed is None:
        reasons = _why_none(results)
        return Section("Attention maps", "maps", [ReportText(reasons, "note")]) if reasons else None
    ordered = sorted(results.arms, key=lambda arm: arm.name != results.baseline)
    displayed = {arm.name: folder for arm in ordered if (folder := _folder(_run(arm, seed))) is not None}
    layers = _layers(displayed)
    rows, starts, left_out = _rows(displayed, layers[:_LAYERS])
    caption = (
        f"Attention of each layer, seed {seed}. Rows are queries from top to bottom, columns are keys. Brighter means "
        "a larger weight; all maps of a row share one scale, given at its left, and masked pairs have no colour. "
        f"{_KEY} Implicit attention "
        "is what a mixer without softmax would have had to attend to for the same output; for layers without "
        "attention, the receptive field shows how much each output changes with each input. First validation sample, "
        f"up to {_HEADS} heads of a layer, at the last probed step."
    )
    parts: list[SectionPart] = [PictureGrid([ArmName(name) for name in displayed], rows, caption)]
    if starts:
        of_tokens = (
            f"The first {_NAMED} tokens by name. The same maps in the same colours, as far as labels can be read; rows "
            "are queries, columns are keys."
        )
        named = PictureGrid([ArmName(name) for name in displayed], starts, of_tokens)
        parts.append(CollapsedParts(f"With tokens: the first {_NAMED} of each map", [named], printed=False))
    parts += [ReportText(sentence, "note") for sentence in (*left_out, *_missing(results, displayed, layers))]
    return Section("Attention maps", "maps", parts)


def _seed(results: ComparisonResults) -> int | None:
    having = [run.seed for run in results.runs if _folder(run) is not None]
    return min(having, key=lambda seed: (-having.count(seed), seed)) if having else None


def _run(arm: ArmResult, seed: int) -> RunResult | None:
    return next((run for run in arm.runs if run.seed == seed), None)


def _folder(run: RunResult | None) -> Path | None:
    """Return the folder with the maps of the last step."""
    if run is None or run.status != "finished" or run.record is None or run.record.path is None:
        return None
    steps = sorted((run.record.path / "attention").glob("step_*"))
    return steps[-1] if steps and any(steps[-1].glob("*.npz")) else None


def _layers(displayed: Mapping[str, Path]) -> list[str]:
    """Names of the layers that any arm has a map of, stack.2 before stack.10."""
    names = {file.stem.removesuffix(_BY_GRADIENTS) for folder in displayed.values() for file in folder.glob("*.npz")}
    return sorted(
        names, key=lambda name: [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"\.", name)]
    )


def _rows(displayed: Mapping[str, Path], layers: Sequence[str]) -> tuple[list[_Row], list[_Row], list[str]]:
    """Return the rows of whole maps, those of their first tokens by name, and what is left out."""
    whole: list[_Row] = []
    starts: list[_Row] = []
    spent = 0
    for index, layer in enumerate(layers):
        read = [_read(folder, layer) for folder in displayed.values()]
        scales = _scales(read)
        cells: list[Sequence[Picture] | str] = [one if isinstance(one, str) else _pictures(one, scales) for one in read]
        spent += sum(len(picture.png) for cell in cells if not isinstance(cell, str) for picture in cell)
        if spent > _BUDGET:
            lost = ", ".join(map(layer_words, layers[index:]))
            return whole, starts, [f"The maps of {lost} are not shown: they would make this file too large."]
        heading = Stacked(layer_words(layer), "; ".join(_scale_words(scales)))
        whole.append((heading, cells))
        if any(not isinstance(one, str) and one[0].queries for one in read):
            starts.append((heading, [one if isinstance(one, str) else _starts(one, scales) for one in read]))
    return whole, starts, []


def _scales(read: Sequence[Sequence[HeatMap] | str]) -> dict[str, MapScale]:
    """Return one scale for each measure: what is compared has the same colours."""
    by_measure: dict[str, list[HeatMap]] = {}
    for maps in read:
        for one in () if isinstance(maps, str) else maps:
            by_measure.setdefault(one.measure, []).append(one)
    return {measure: shared_scale(maps) for measure, maps in by_measure.items()}


def _scale_words(scales: Mapping[str, MapScale]) -> list[str]:
    return [f"{scale.words}{f' ({measure})' if len(scales) > 1 else ''}" for measure, scale in scales.items()]


def _read(folder: Path, layer: str) -> Sequence[HeatMap] | str:
    """Return a layer's maps; a file that was cut off is no reason to have no report."""
    files = [folder / f"{layer}.npz", folder / f"{layer}{_BY_GRADIENTS}.npz"]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        return "no map of this layer"
    try:
        return read_maps(file, _HEADS)
    except (OSError, DamagedFile):
        return f"{file.name} cannot be read"


def _pictures(maps: Sequence[HeatMap], scales: Mapping[str, MapScale]) -> list[Picture]:
    return [_picture(one, scales[one.measure]) for one in maps]


def _starts(maps: Sequence[HeatMap], scales: Mapping[str, MapScale]) -> list[Picture]:
    """Return the first tokens of each map, by name, in the colours of the whole maps."""
    starts = [(one.start(_NAMED), scales[one.measure]) for one in maps]
    return [replace(_picture(one, scale), rows=one.queries, columns=one.keys) for one, scale in starts]


def _picture(one: HeatMap, scale: MapScale) -> Picture:
    return Picture(picture_of(one, scale), _which(one), _which(one), scale=(scale.low, scale.high, scale.clipped))


def _which(one: HeatMap) -> str:
    """Name the layer and head of a map; receptive fields have no heads."""
    if one.measure == "receptive field":
        return one.measure
    head = head_words(one.head)
    return head if one.measure == "attention" else f"{one.measure}, {head}"


def _why_none(findings: ComparisonResults) -> str | None:
    """Return None for runs of other programs, of which there is nothing to know."""
    reasons: dict[str, list[str]] = {}
    for arm in findings.arms:
        if (why := _why_not(arm)) is not None:
            reasons.setdefault(why, []).append(arm.name)
    sentences = [why if len(reasons) == 1 else f"{', '.join(names)}: {why}" for why, names in reasons.items()]
    return f"No arm has maps to show: {'; '.join(sentences)}." if sentences else None


def _why_not(arm: ArmResult) -> str | None:
    """Say why an arm has no maps; None if it has no finished run of ours."""
    record = next(iter(arm.records), None)
    if record is None or record.path is None:
        return None
    probe = record.config.get("probe")
    if not isinstance(probe, Mapping):
        return "its runs were not probed"
    if not probe.get("at_end") and probe.get("every") is None:
        return "its runs were not probed (probe=none; use probe=default)"
    if not probe.get("raw", True):
        return "its runs saved only pictures (probe.raw=false; probe.raw=true saves the maps shown here)"
    return "the folders of its runs have none"


def _missing(results: ComparisonResults, displayed: Mapping[str, Path], layers: Sequence[str]) -> list[str]:
    without_name = {arm.name: _why_not(arm) for arm in results.arms if arm.name not in displayed}
    without = [name if why is None else f"{name}, since {why}" for name, why in without_name.items()]
    sentences = [f"No maps of this seed: {'; '.join(without)}."] if without else []
    return sentences + ([f"The first {_LAYERS} of {len(layers)} layers are shown."] if len(layers) > _LAYERS else [])

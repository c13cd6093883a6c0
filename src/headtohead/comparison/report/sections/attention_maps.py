"""Attention and implicit attention of the arms side by side, layer by layer, from the maps that runs left behind."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from headtohead.comparison.comparison_results import ArmResult, ComparisonResults, RunResult
from headtohead.comparison.report.section_parts import ArmName, Picture, PictureGrid, ReportText, Section, SectionPart
from headtohead.files.safe_read import DamagedFile, open_archive
from headtohead.interpretability.colour_table import values_to_colours

_HEADS = 4
"""The most heads that are shown of each layer."""
_LAYERS = 12
_BY_GRADIENTS = ".receptive_field"
"""Ends the name of a map of what has no attention: the reach of outputs to inputs."""
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
    rows, left_out = _rows(displayed, layers[:_LAYERS])
    caption = (
        f"Attention of each layer, seed {seed}. Rows are queries from top to bottom, columns are keys. Brighter means "
        "a larger weight; each map has its own scale, given below it; masked pairs have no colour. Implicit attention "
        "is what a mixer without softmax would have had to attend to for the same output; for layers without "
        "attention, the receptive field shows how much each output changes with each input. First validation sample, "
        f"up to {_HEADS} heads of a layer, at the last probed step."
    )
    parts: list[SectionPart] = [PictureGrid([ArmName(name) for name in displayed], rows, caption)]
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
        names, key=lambda name: [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"\.", name)]
    )


def _rows(
    displayed: Mapping[str, Path], layers: Sequence[str]
) -> tuple[list[tuple[str, list[Sequence[Picture] | str]]], list[str]]:
    rows: list[tuple[str, list[Sequence[Picture] | str]]] = []
    spent = 0
    for index, layer in enumerate(layers):
        cells: list[Sequence[Picture] | str] = []
        for folder in displayed.values():
            files = [folder / f"{layer}.npz", folder / f"{layer}{_BY_GRADIENTS}.npz"]
            file = next((file for file in files if file.is_file()), None)
            cells.append("no map of this layer" if file is None else _read(file))
        spent += sum(len(picture.png) for cell in cells if not isinstance(cell, str) for picture in cell)
        if spent > _BUDGET:
            return rows, [
                f"The maps of {', '.join(layers[index:])} are not shown: they would make this file too large."
            ]
        rows.append((layer.replace(".", " "), cells))
    return rows, []


def _read(file: Path) -> Sequence[Picture] | str:
    """A file that was cut off is no reason to have no report."""
    try:
        return _pictures(read_maps(file, _HEADS))
    except (OSError, DamagedFile):
        return f"{file.name} cannot be read"


def _pictures(maps: Sequence[HeatMap]) -> list[Picture]:
    return [
        Picture(
            picture_of(one),
            f"{which}, from {one.low:.2g} to {one.high:.2g}",
            f"{which}: {one.low:.2g} to {one.high:.2g}",
        )
        for one in maps
        for which in [_which(one)]
    ]


def _which(one: HeatMap) -> str:
    """Name the layer and head of a map; receptive fields have no heads."""
    if one.measure == "receptive field":
        return one.measure
    return f"head {one.head}" if one.measure == "attention" else f"{one.measure}, head {one.head}"


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


_LONGEST = 128
"""Tokens of a side; what comes after them is not drawn."""
_NOTHING = 0
"""The colour that lets the page through."""


@dataclass(frozen=True)
class HeatMap:
    """One head of one layer on one sample."""

    head: int
    measure: str
    weights: np.ndarray
    """[queries, keys]; NaN where a query may not look."""

    @property
    def low(self) -> float:
        """Zero, unless there are weights below it."""
        return min(0.0, float(np.nanmin(self.weights)))

    @property
    def high(self) -> float:
        return float(np.nanmax(self.weights))


def read_maps(file: Path, most: int) -> Sequence[HeatMap]:
    """Return the first heads on the first sample."""
    with open_archive(file) as archive:
        weights = archive["weights"][0, :most, :_LONGEST, :_LONGEST].astype(np.float64)
        measure = str(archive["measure"]) if "measure" in archive else "attention"
        if bool(archive["causal"]) and str(archive["kind"]) == "self":
            later = np.triu(np.ones(weights.shape[1:], dtype=bool), 1)
            weights = np.where(later, np.nan, weights)
        valid = [archive[name][0, :_LONGEST] if name in archive else None for name in ("query_valid", "key_valid")]
    queries, keys = (slice(None) if one is None else np.flatnonzero(one) for one in valid)
    return [HeatMap(head, measure, one[queries][:, keys]) for head, one in enumerate(weights)]


def picture_of(one: HeatMap) -> bytes:
    """PNG with a palette."""
    forbidden = np.isnan(one.weights)
    reach = one.high - one.low
    share = np.where(forbidden, 0.0, one.weights - one.low) / (reach if reach > 0 else 1.0)
    dots = np.where(forbidden, _NOTHING, 1 + np.rint(share * 254)).astype(np.uint8)
    image = Image.fromarray(dots, mode="P")
    palette = np.vstack([np.zeros((1, 3), np.uint8), values_to_colours(np.linspace(0, 1, 255))])
    image.putpalette(palette.astype(np.uint8).tobytes())
    content = io.BytesIO()
    image.save(content, "PNG", transparency=_NOTHING, optimize=True)
    return content.getvalue()

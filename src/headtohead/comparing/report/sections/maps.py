"""Attention and implicit attention of the arms side by side, layer by layer, from the maps that runs left behind."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from zipfile import BadZipFile

from headtohead.comparing.findings import Findings, Found, FoundArm
from headtohead.comparing.report.heat import HeatMap, picture_of, read_maps
from headtohead.comparing.report.parts import ArmName, Part, Picture, PictureGrid, Section, Text

_HEADS = 4
"""Of each layer."""
_LAYERS = 12
_BY_GRADIENTS = ".receptive_field"
"""Ends the name of a map of what has no attention: the reach of outputs to inputs."""
_BUDGET = 3_000_000
"""Bytes of all pictures together."""


def section(findings: Findings) -> Section | None:
    """Of one seed, the first that has maps in most arms."""
    seed = _seed(findings)
    if seed is None:
        told = _why_none(findings)
        return Section("Attention maps", "maps", [Text(told, "note")]) if told else None
    ordered = sorted(findings.arms, key=lambda arm: arm.name != findings.baseline)
    shown = {arm.name: folder for arm in ordered if (folder := _folder(_run(arm, seed))) is not None}
    layers = _layers(shown)
    rows, left_out = _rows(shown, layers[:_LAYERS])
    caption = (
        f"Where each layer looks, seed {seed}. Rows of a map are queries from top to bottom, columns are keys; bright "
        "is much, each map on a scale of its own, which stands below it; no colour: not allowed to be seen. Implicit "
        "attention is what a mixer without softmax would have had to attend to for the same output; a receptive field, "
        "of what has no attention at all, is how much outputs change with inputs. The first sample "
        f"of validation, up to {_HEADS} heads of a layer, at the last step that was looked at."
    )
    parts: list[Part] = [PictureGrid([ArmName(name) for name in shown], rows, caption)]
    parts += [Text(sentence, "note") for sentence in (*left_out, *_missing(findings, shown, layers))]
    return Section("Attention maps", "maps", parts)


def _seed(findings: Findings) -> int | None:
    having = [run.seed for run in findings.runs if _folder(run) is not None]
    return min(having, key=lambda seed: (-having.count(seed), seed)) if having else None


def _run(arm: FoundArm, seed: int) -> Found | None:
    return next((run for run in arm.runs if run.seed == seed), None)


def _folder(run: Found | None) -> Path | None:
    """Of the maps of the last step."""
    if run is None or run.status != "finished" or run.record is None or run.record.path is None:
        return None
    steps = sorted((run.record.path / "attention").glob("step_*"))
    return steps[-1] if steps and any(steps[-1].glob("*.npz")) else None


def _layers(shown: Mapping[str, Path]) -> list[str]:
    """Names of the layers that any arm has a map of, stack.2 before stack.10."""
    names = {file.stem.removesuffix(_BY_GRADIENTS) for folder in shown.values() for file in folder.glob("*.npz")}
    return sorted(
        names, key=lambda name: [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"\.", name)]
    )


def _rows(
    shown: Mapping[str, Path], layers: Sequence[str]
) -> tuple[list[tuple[str, list[Sequence[Picture] | str]]], list[str]]:
    rows: list[tuple[str, list[Sequence[Picture] | str]]] = []
    spent = 0
    for place, layer in enumerate(layers):
        cells: list[Sequence[Picture] | str] = []
        for folder in shown.values():
            files = [folder / f"{layer}.npz", folder / f"{layer}{_BY_GRADIENTS}.npz"]
            file = next((file for file in files if file.is_file()), None)
            cells.append("no map of this layer" if file is None else _read(file))
        spent += sum(len(picture.png) for cell in cells if not isinstance(cell, str) for picture in cell)
        if spent > _BUDGET:
            return rows, [f"The maps of {', '.join(layers[place:])} are left out: they would make this file too large."]
        rows.append((layer.replace(".", " "), cells))
    return rows, []


def _read(file: Path) -> Sequence[Picture] | str:
    """A file that was cut off is no reason to have no report."""
    try:
        return _pictures(read_maps(file, _HEADS))
    except (OSError, EOFError, ValueError, KeyError, BadZipFile):
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
    """What has no attention has no heads either."""
    if one.measure == "receptive field":
        return one.measure
    return f"head {one.head}" if one.measure == "attention" else f"{one.measure}, head {one.head}"


def _why_none(findings: Findings) -> str | None:
    """None for runs of other programs, of which there is nothing to know."""
    found: dict[str, list[str]] = {}
    for arm in findings.arms:
        if (why := _why_not(arm)) is not None:
            found.setdefault(why, []).append(arm.name)
    told = [why if len(found) == 1 else f"{', '.join(names)}: {why}" for why, names in found.items()]
    return f"No arm has maps to show: {'; '.join(told)}." if told else None


def _why_not(arm: FoundArm) -> str | None:
    """Of an arm without maps; None where it has no run of ours that finished."""
    record = next(iter(arm.records), None)
    if record is None or record.path is None:
        return None
    probe = record.config.get("probe")
    if not isinstance(probe, Mapping):
        return "nobody looked into its runs"
    if not probe.get("at_end") and probe.get("every") is None:
        return "nobody looked into its runs (probe=none; probe=default does)"
    if not probe.get("raw", True):
        return "its runs kept pictures alone (probe.raw=false; probe.raw=true keeps the maps that are drawn here)"
    return "the folders of its runs hold none"


def _missing(findings: Findings, shown: Mapping[str, Path], layers: Sequence[str]) -> list[str]:
    lacking = {arm.name: _why_not(arm) for arm in findings.arms if arm.name not in shown}
    without = [name if why is None else f"{name}, since {why}" for name, why in lacking.items()]
    told = [f"No maps of this seed: {'; '.join(without)}."] if without else []
    return told + ([f"Of {len(layers)} layers the first {_LAYERS} are shown."] if len(layers) > _LAYERS else [])

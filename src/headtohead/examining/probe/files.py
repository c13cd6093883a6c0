"""Where the results of a probe go, and the files of attention: pictures, numbers, a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from headtohead.examining.finished import FinishedRun
from headtohead.examining.probe import placing_page, seeing_page
from headtohead.examining.probe.attention import Attention
from headtohead.examining.probe.attention_page import content_of
from headtohead.examining.probe.figures import data_figure, image_grid
from headtohead.examining.probe.page import PageName, page
from headtohead.examining.probe.pictures import over_images, save
from headtohead.examining.probe.placing import Placing
from headtohead.examining.probe.seeing import DataSeen
from headtohead.files.writing import replace_text
from headtohead.probing.archive import write_maps, write_statistics
from headtohead.probing.montage import montage
from headtohead.tracking.store import slug

_NAME = 40
"""Characters of a text that name its folder."""


def folder_for(texts: Sequence[str], below: Path) -> Path:
    """A folder named after the texts that are probed; those that only begin alike have folders of their own."""
    tail = blake2b("\0".join(texts).encode("utf-8", "surrogateescape"), digest_size=3).hexdigest()
    return below / f"{slug(' '.join(texts))[:_NAME].strip('-')}-{tail}"


def write_attention(
    run: FinishedRun, attention: Attention, folder: Path, *, done: Callable[[], None] = lambda: None
) -> list[Path]:
    """PNG and .npz per layer, with the causal mask as trained and the other way round, a table of the heads, and the
    page, which comes last; `done` is called after each set of maps."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, maps, pair in attention.files():
        written.append(save(montage(maps, queries=pair.queries, keys=pair.keys), folder / f"{name}.png"))
        written.append(folder / f"{name}.npz")
        write_maps(written[-1], maps, queries=pair.queries, keys=pair.keys, half=False)
        if attention.images is not None and maps.grid is not None and maps is pair.trained:
            written.append(save(over_images(maps, attention.images), folder / f"{name}.over_image.png"))
        done()
    write_statistics(folder / "statistics.csv", attention.statistics)
    return [*written, folder / "statistics.csv", write_page(folder, "attention", content_of(run, attention))]


def write_data(seen: DataSeen, config: Mapping[str, Any], folder: Path, *, name: str | None = None) -> list[Path]:
    """Figures of the splits, a grid of images where there are any, and the page, which comes last."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    if seeing_page.varied(seen) or any(split.classes is not None for split in seen.splits):
        written.append(data_figure(seen, folder / "splits.png"))
    if any(sample.image is not None for sample in seen.samples):
        written.append(image_grid(seen, folder / "images.png"))
    return [*written, write_page(folder, "data", seeing_page.content_of(seen, config, name=name))]


def write_positions(
    found: Sequence[Placing], config: Mapping[str, Any], folder: Path, *, name: str | None = None
) -> list[Path]:
    """A figure per encoding, and the page, which comes last."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = [placing_page.save_figure(placing, folder) for placing in found]
    return [*figures, write_page(folder, "positions", placing_page.content_of(found, config, name=name))]


def write_page(folder: Path, name: PageName, content: Mapping[str, Any]) -> Path:
    path = folder / f"{name}.html"
    replace_text(path, page(name, str(content["title"]), content))
    return path

"""Write the results of a probe, and the files of attention: pictures, numbers, a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Literal

from headtohead.comparison.report.page import as_script, filled
from headtohead.files.atomic_write import replace_text
from headtohead.finished_runs.finished_run import FinishedRun
from headtohead.finished_runs.probe import data_page, positions_page
from headtohead.finished_runs.probe.attention_page import attention_content
from headtohead.finished_runs.probe.attention_probe import Attention
from headtohead.finished_runs.probe.data_figures import data_figure, image_grid
from headtohead.finished_runs.probe.data_seen import ProbedData
from headtohead.finished_runs.probe.position_encodings import PositionEncoding
from headtohead.finished_runs.probe.small_images import over_images, save
from headtohead.interpretability.colour_table import anchors
from headtohead.interpretability.map_archive import write_maps, write_statistics
from headtohead.interpretability.montage import montage
from headtohead.records.run_folder import slug

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
    return [*written, folder / "statistics.csv", write_page(folder, "attention", attention_content(run, attention))]


def write_data(seen: ProbedData, config: Mapping[str, object], folder: Path, *, name: str | None = None) -> list[Path]:
    """Figures of the splits, a grid of images where there are any, and the page, which comes last."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    if data_page.varied(seen) or any(split.classes is not None for split in seen.splits):
        written.append(data_figure(seen, folder / "splits.png"))
    if any(sample.image is not None for sample in seen.samples):
        written.append(image_grid(seen, folder / "images.png"))
    return [*written, write_page(folder, "data", data_page.data_content(seen, config, name=name))]


def write_positions(
    encodings: Sequence[PositionEncoding], config: Mapping[str, object], folder: Path, *, name: str | None = None
) -> list[Path]:
    """Return a figure per encoding, and the page, which comes last."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = [positions_page.save_figure(encoding, folder) for encoding in encodings]
    return [*figures, write_page(folder, "positions", positions_page.positions_content(encodings, config, name=name))]


def write_page(folder: Path, name: PageName, content: Mapping[str, object]) -> Path:
    path = folder / f"{name}.html"
    replace_text(path, page(name, str(content["title"]), content))
    return path


PageName = Literal["attention", "data", "positions"]


def page(name: PageName, title: str, content: Mapping[str, object]) -> str:
    """Return the page called `name`, showing `content`; every text in it may hold any characters."""
    parts = {
        "title": escape(title),
        "style": "\n".join((_shared("theme.css"), *(_part(file) for file in ("base.css", f"{name}.css")))),
        "content": as_script({**content, "colours": anchors()}),
        "script": "\n".join(
            (_shared("page_kit.js"), *(_part(file) for file in ("base.js", "heat_map.js", f"{name}.js")))
        ),
    }
    return filled(_part("page.html"), parts)


def _shared(name: str) -> str:
    """Return a file that the report and the dashboard begin with too."""
    return (files("headtohead.comparison") / name).read_text(encoding="utf-8")


def _part(name: str) -> str:
    return (files("headtohead.finished_runs.probe") / "pages" / name).read_text(encoding="utf-8")

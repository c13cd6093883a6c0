"""Where the results of a probe go, and the files of attention: pictures, numbers, a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from headtohead.examining.finished import FinishedRun
from headtohead.examining.probe.attention import Attention
from headtohead.examining.probe.attention_page import content_of
from headtohead.examining.probe.page import PageName, page
from headtohead.examining.probe.pictures import over_images, save
from headtohead.probing.archive import write_maps, write_statistics
from headtohead.probing.montage import montage
from headtohead.tracking.files import replace_text
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
        if attention.images is not None and maps.grid is not None:
            written.append(save(over_images(maps, attention.images), folder / f"{name}.over_image.png"))
        done()
    write_statistics(folder / "statistics.csv", attention.statistics)
    return [*written, folder / "statistics.csv", write_page(folder, "attention", content_of(run, attention))]


def write_page(folder: Path, name: PageName, content: Mapping[str, Any]) -> Path:
    path = folder / f"{name}.html"
    replace_text(path, page(name, str(content["title"]), content))
    return path

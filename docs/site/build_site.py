"""Build the documentation site: `make docs`, into build/docs/html.

The pages are those of `docs/` and of the repository's top, laid out for Sphinx; the reference and the gallery are
written from the code and the files of `conf/` in the same go, and are stored nowhere else.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from sphinx.cmd.build import main as sphinx

import gallery
import reference_commands
import reference_experiments
import reference_groups
import reference_python
from prose_links import with_addresses_linked, with_mentions_linked

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NAVIGATION: dict[str, tuple[str, ...]] = {
    "Tutorials": (
        "install", "tutorials/first_study", "tutorials/own_data", "tutorials/own_mixer", "tutorials/pretrain_finetune",
        "tutorials/sweep", "tutorials/cluster", "tutorials/reading_a_report",
    ),
    "How to": (
        "guide", "ten_questions", "recipes", "python", "many_machines", "planning", "wandb", "dashboards", "embeddings",
    ),
    "Concepts": ("verdicts", "ledger", "comparability", "security", "reliability", "same_numbers"),
    "Gallery": ("gallery", "results", "studies", "peers", "coming_from"),
    "Reference": (
        "reference/groups", "choices", "published_sets", "reference/experiments", "study", "reference/study_fields",
        "sweeps", "reference/commands", "reference/api", "record", "reference/metrics", "reference/statistics",
    ),
    "Measured": ("mixers", "parity", "speed", "throughput", "devices"),
    "Project": ("project/CHANGELOG", "project/CONTRIBUTING", "project/ARCHITECTURE", "project/SECURITY",
                "project/CODE_OF_CONDUCT"),
}  # fmt: skip
"""The sections of the site; Sphinx refuses a page that stands in none."""
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_README = ROOT / "README.md"
"""The site's first page stands in its place."""
_TOP = ("CHANGELOG", "CONTRIBUTING", "ARCHITECTURE", "SECURITY", "CODE_OF_CONDUCT")


def build(target: Path) -> int:
    """Write the sources to `target/source` and the site to `target/html`; return Sphinx's exit code."""
    source = target / "source"
    shutil.rmtree(source, ignore_errors=True)
    for path, site_path in site_paths().items():
        _write(
            source / site_path, path.read_text(encoding="utf-8") if path.suffix == ".md" else path.read_bytes(), path
        )
    index = source / "index.md"
    index.write_text(index.read_text(encoding="utf-8") + "\n".join(_toctrees()), encoding="utf-8")
    for name, text in generated().items():
        _write(source / f"{name}.md", with_mentions_linked(text, depth=name.count("/")))
    jobs = ["-j", str(min(2, os.cpu_count() or 1))]
    return sphinx(["-W", "--keep-going", "-q", *jobs, "-c", str(HERE), "-d", str(target / "doctrees"), str(source),
                   str(target / "html")])  # fmt: skip


def generated() -> dict[str, str]:
    """Return the pages that are made of code and configuration, by their names on the site."""
    reference = {
        **reference_groups.pages(),
        **reference_commands.pages(),
        **reference_python.pages(),
        "experiments": reference_experiments.page(),
    }
    return {"gallery": gallery.page(), **{f"reference/{name}": text for name, text in reference.items()}}


def site_paths() -> dict[Path, Path]:
    """Return every file of the repository that the site shows, with its path there: pages, and what they link to."""
    docs = ROOT / "docs"
    pages = {path: path.relative_to(docs) for path in sorted(docs.rglob("*.md"))}
    pages |= {ROOT / f"{name}.md": Path("project") / f"{name}.md" for name in _TOP}
    files = {}
    for page in pages:
        for target in linked_files(page):
            if target not in pages and target != _README and target.is_file():
                below = target.relative_to(docs) if target.is_relative_to(docs) else target.relative_to(ROOT)
                files[target] = below if target.is_relative_to(docs) else Path("files") / below
    return pages | files


def linked_files(page: Path) -> Iterator[Path]:
    """Yield the files of the repository that a page links to."""
    for link in _LINK.findall(page.read_text(encoding="utf-8")):
        path = link.partition("#")[0]
        if path and not re.match(r"[a-z]+:", path):
            yield (page.parent / path).resolve()


def _write(target: Path, content: str | bytes, origin: Path | None = None) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        target.write_bytes(content)
        return
    text = content if origin is None else _relinked(content, origin)
    target.write_text(with_addresses_linked(text), encoding="utf-8")


def _relinked(text: str, page: Path) -> str:
    """Return a page whose links between files lead to where these stand on the site."""
    paths = site_paths_once()
    here = paths[page].parent

    def replaced(match: re.Match[str]) -> str:
        path, mark, anchor = match[1].partition("#")
        target = (page.parent / path).resolve() if path and not re.match(r"[a-z]+:", path) else None
        if target == _README:
            target = ROOT / "docs" / "index.md"
        if target not in paths:
            return match[0]
        return f"]({os.path.relpath(paths[target], here)}{mark}{anchor})"

    return _LINK.sub(replaced, text)


_PATHS: dict[Path, Path] = {}


def site_paths_once() -> dict[Path, Path]:
    """Return the paths of the site, made once."""
    if not _PATHS:
        _PATHS.update(site_paths())
    return _PATHS


def _toctrees() -> Iterator[str]:
    for caption, names in NAVIGATION.items():
        yield from ("", "```{toctree}", ":hidden:", f":caption: {caption}", "", *names, "```", "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("into", nargs="?", type=Path, default=ROOT / "build" / "docs", help="the folder of the site")
    into = parser.parse_args().into
    code = build(into.resolve())
    sys.stdout.write(f"{into / 'html' / 'index.html'}\n" if not code else "the site has errors\n")
    raise SystemExit(code)

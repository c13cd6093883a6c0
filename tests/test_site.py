"""The documentation site is built without a warning, loads nothing from elsewhere, and shows all that ships."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from browser import CHROMIUM, Browser
from headtohead.api import PUBLIC
from headtohead.cli import COMMANDS
from headtohead.config.compose.choices import STUDY, choice_names, groups
from headtohead.config.schema.key_checks import fields_of
from headtohead.metrics import metrics

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "docs" / "site" / "build_site.py"
_LOADED = re.compile(
    r"""<(?:script|img|iframe|link rel="(?:stylesheet|preload|icon)")[^>]*?(?:src|href)="(https?:)?//"""
)
_STYLED = re.compile(r"(?:@import|url\()\s*[\"']?(?:https?:)?//")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site once for this file; Sphinx makes an error of every warning."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run([sys.executable, str(PROGRAM), str(folder)], capture_output=True, text=True, check=False)
    assert not built.returncode, built.stdout + built.stderr
    return folder / "html"


@pytest.mark.process
def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    pages, styles = list(site.rglob("*.html")), list(site.rglob("*.css"))
    assert len(pages) > 60 and styles
    assert not [page.name for page in pages if _LOADED.search(page.read_text(encoding="utf-8"))]
    assert not [style.name for style in styles if _STYLED.search(style.read_text(encoding="utf-8"))]


@pytest.mark.process
def test_the_site_shows_every_study_command_function_metric_and_field(site: Path) -> None:
    def text(name: str) -> str:
        return re.sub(r"<[^>]+>", "", (site / f"{name}.html").read_text(encoding="utf-8"))

    shown = {name: text(name) for name in ("gallery", "reference/commands", "reference/api", "reference/metrics")}
    assert not [name for name in choice_names(STUDY) if f"h2h study {name} " not in shown["gallery"]]
    assert not [name for name in COMMANDS if f"usage: h2h {name}" not in shown["reference/commands"]]
    assert not [name for name in PUBLIC if f"h2h.{name}" not in shown["reference/api"]]
    assert not [name for name in metrics() if name not in shown["reference/metrics"]]
    page, known = text("reference/trainer"), fields_of("trainer", {"_target_": _TRAINER})
    assert known is not None and not [name for name in known.kinds if name not in page]
    assert not [name for name in groups() if not _page(site, name).is_file()]
    assert not [name for name in groups() if _EMPTY_LAST_CELL.search(_page(site, name).read_text(encoding="utf-8"))]


@pytest.mark.process
def test_every_function_class_field_and_method_of_the_reference_has_a_sentence(site: Path) -> None:
    for name in ("api", "metrics", "statistics"):
        page = (site.parent / "source" / "reference" / f"{name}.md").read_text(encoding="utf-8")
        assert not sections_without_a_sentence(page), name
        rows = [line for line in page.splitlines() if line.startswith("| ")]
        assert not [row for row in rows if _EMPTY_END.search(row)], name


@pytest.mark.process
def test_a_page_that_is_named_in_prose_is_a_link(site: Path) -> None:
    source = site.parent / "source"
    for page in (source / "gallery.md", *(source / "reference").glob("*.md")):
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.findall(r"\bdocs/[\w/]+\.md", prose), page


def sections_without_a_sentence(page: str) -> list[str]:
    """Return the headings that nothing but code and tables follows."""
    sections = re.split(r"^#+ ", re.sub(r"```.*?```", "", page, flags=re.DOTALL), flags=re.MULTILINE)[1:]
    return [heading for heading, *body in map(str.splitlines, sections) if not any(map(_SENTENCE.match, body))]


_SENTENCE = re.compile(r"[^|#\s].*")
_EMPTY_END = re.compile(r"\|\s*\|\s*$")


def test_a_heading_without_a_sentence_is_found() -> None:
    page = "# a\n\nA sentence.\n## b\n```text\nb()\n```\n| x |\n## c\nAnother."
    assert sections_without_a_sentence(page) == ["b"]
    assert _EMPTY_END.search("| `a` |  |") and not _EMPTY_END.search("| `a` | b |")


@pytest.mark.process
def test_every_figure_of_the_gallery_has_an_axis_and_says_its_verdicts(site: Path) -> None:
    figures = re.findall(r'<svg class="verdicts".*?</svg>', (site / "gallery.html").read_text(encoding="utf-8"), re.S)
    assert len(figures) > 10
    for figure in figures:
        assert 2 <= figure.count('class="tick"') <= 5, figure
        assert figure.count(">baseline</text>") == 1, figure


@pytest.mark.process
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_no_page_is_wider_than_its_window(site: Path, tmp_path: Path) -> None:
    with Browser(tmp_path) as browser:
        for page in ("index", "guide", "gallery", "reference/commands"):
            browser.open(site / f"{page}.html")
            for width in (390, 820, 1280, 1366, 1440, 1600, 1920):
                browser.look(width=width, height=900)
                assert browser.run("document.documentElement.scrollWidth") <= width, (page, width)


_EMPTY_LAST_CELL = re.compile(r"<td[^>]*>(?:<p>)?\s*(?:</p>)?</td>\s*</tr>")
"""A field without a meaning, or a choice that is made of nothing."""
_TRAINER = "headtohead.training.run_components.TrainerSettings"


def _page(site: Path, group: str) -> Path:
    name = "experiments" if group == "experiment" else group.replace("/", "_")
    return site / "reference" / f"{name}.html"


@pytest.mark.parametrize(
    "line",
    [
        '<script async src="https://cdn.example/x.js">',
        '<link rel="stylesheet" type="text/css" href="//fonts.example/a.css">',
        '<img alt="x" src="http://example/a.png">',
    ],
)
def test_what_comes_from_elsewhere_is_recognised(line: str) -> None:
    assert _LOADED.search(line) and not _LOADED.search(
        line.replace("https:", "").replace("http:", "").replace("//", "a/")
    )
    assert _STYLED.search("src: url('https://fonts.example/a.woff')") and not _STYLED.search("url(a.png)")

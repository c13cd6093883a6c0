"""The documentation site is built without a warning, loads nothing from elsewhere, and shows all that ships."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import combinations
from pathlib import Path

import pytest
from pygments.styles import get_style_by_name
from pygments.token import Error, Text

from browser import CHROMIUM, Browser
from headtohead.api import PUBLIC
from headtohead.cli import COMMANDS
from headtohead.config.compose.choices import STUDY, choice_names, groups
from headtohead.config.schema.key_checks import fields_of
from headtohead.metrics import metrics
from prose_of_pages import hyphened, prose_of

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
def test_negative_numbers_of_the_site_have_a_minus_and_code_stays_as_it_is_typed(site: Path) -> None:
    pages = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    lacking = {page.name: lines for page, text in pages.items() if (lines := hyphened(prose_of(text)))}
    assert not lacking
    assert any("−" in "".join(prose_of(text)) for text in pages.values())
    code = "".join("".join(re.findall(r"(?s)<(?:pre|code)\b.*?</(?:pre|code)>", text)) for text in pages.values())
    assert "−" not in code


@pytest.mark.process
def test_a_page_that_is_named_in_prose_is_a_link(site: Path) -> None:
    source = site.parent / "source"
    for page in (source / "gallery.md", *(source / "reference").glob("*.md")):
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.findall(r"\bdocs/[\w/]+\.md", prose), page


@pytest.mark.process
def test_every_address_is_a_link_and_every_column_of_choices_has_a_name(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        article = text.partition("<article")[2].partition("</article>")[0]
        prose = re.sub(r"<(a|code|pre|svg)\b.*?</\1>", "", article, flags=re.DOTALL)
        assert "https://" not in re.sub(r"<[^>]+>", "", prose), page
        heads = re.findall(r"<th class=\"head\"><p>(.*?)</p></th>", article)
        assert "choice" not in heads or "" not in heads, page
        code = re.findall(r"<pre>.*?</pre>", article, flags=re.DOTALL)
        assert not [block for block in code if re.search(r"\]\(https:", re.sub(r"<[^>]+>", "", block))], page


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
    figures = re.findall(
        r'<svg class="verdicts \w+".*?</svg>', (site / "gallery.html").read_text(encoding="utf-8"), re.S
    )
    assert len(figures) > 10
    for figure in figures:
        assert 2 <= figure.count('class="tick"') <= 5, figure
        assert figure.count(">baseline</text>") == 1, figure
        assert not overlapping_texts(figure), figure


def overlapping_texts(figure: str) -> list[tuple[str, str]]:
    """Return the pairs of texts of a drawing that cover each other, by about how wide letters are."""
    boxes = []
    for attributes, text in re.findall(r"<text([^>]*)>([^<]*)</text>", figure):
        wide = len(text) * (6.0 if "small" in attributes else 7.0)
        x, y = (float(re.findall(rf' {axis}="([^"]+)"', attributes)[0]) for axis in "xy")
        x -= wide / 2 if 'anchor="middle"' in attributes else wide if 'anchor="end"' in attributes else 0
        boxes.append((text, x, x + wide, y))
    return [
        (one[0], other[0])
        for one, other in combinations(boxes, 2)
        if abs(one[3] - other[3]) < 10 and one[1] < other[2] and other[1] < one[2]
    ]


def test_texts_that_cover_each_other_are_found() -> None:
    chance, caption = (
        '<text class="small" x="5" y="9">chance</text>',
        '<text x="90" y="12" text-anchor="end">loss, low</text>',
    )
    assert overlapping_texts(chance + caption) == [("chance", "loss, low")]
    assert not overlapping_texts(chance + caption.replace('y="12"', 'y="30"'))


@pytest.mark.process
def test_the_gallery_draws_who_can_do_what_with_every_number(site: Path) -> None:
    (drawn,) = re.findall(
        r'<figure class="abilities">.*?</figure>', (site / "gallery.html").read_text(encoding="utf-8"), re.S
    )
    names = re.findall(r'<th scope="row">(\w+)</th>', drawn)
    assert len(names) > 30 and set(names) <= set(choice_names("model/mixer"))
    assert len(re.findall(r"<td[^>]*>\d\.\d\d</td>", drawn)) == 7 * len(names)
    assert drawn.count("--score: ") == 6 * len(names)


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_of_the_site_stands_out_from_what_is_behind_it(theme: str) -> None:
    """4.5 is what WCAG 2.2 asks of texts (AA); the shade of a score is its colour over the page, up to 60 %."""
    furo = Path(import_module("furo").__file__ or "").parent / "theme" / "furo" / "static" / "styles" / "furo.css"
    page = _colours(furo.read_text(encoding="utf-8"), theme, r"--color-(foreground-primary|background-primary):")
    own = _colours((ROOT / "docs" / "site" / "_static" / "site.css").read_text(encoding="utf-8"), theme, r"--(\w+): ")
    behind, text = page["background-primary"], page["foreground-primary"]
    for verdict in ("good", "bad", "same", "open", "baseline"):
        assert _contrast(own[verdict], behind) >= 4.5, verdict
    for score in (0, 0.25, 0.5, 0.75, 1):
        shade = [
            0.6 * score * heat + (1 - 0.6 * score) * paper for heat, paper in zip(own["heat"], behind, strict=True)
        ]
        assert _contrast(text, shade) >= 4.5, score
    configured = (ROOT / "docs" / "site" / "conf.py").read_text(encoding="utf-8")
    named = re.search(rf'^pygments_{"" if theme == "light" else "dark_"}style = "([\w-]+)"', configured, re.MULTILINE)
    assert named is not None
    style = get_style_by_name(named[1])
    paper = _rgb(style.background_color.lstrip("#"))
    for token, look in style:
        if look["color"] and token not in (Text.Whitespace, Error):
            assert _contrast(_rgb(look["color"]), _rgb(look["bgcolor"]) if look["bgcolor"] else paper) >= 4.5, token


def _colours(sheet: str, theme: str, name: str) -> dict[str, list[int]]:
    """Return colours by name, as the first rule that has them says (light), or the second one (dark)."""
    chosen: dict[str, list[str]] = {}
    for key, code in re.findall(name + r"\s*#(\w{3,6})\b", sheet):
        chosen.setdefault(key, []).append(code)
    return {key: _rgb(codes[theme == "dark"]) for key, codes in chosen.items()}


def _rgb(code: str) -> list[int]:
    letters = code if len(code) == 6 else "".join(2 * letter for letter in code)
    return [int(letters[at : at + 2], 16) for at in (0, 2, 4)]


def _contrast(one: Sequence[float], other: Sequence[float]) -> float:
    shares = ([value / 255 for value in colour] for colour in (one, other))
    light = (
        [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in colour]
        for colour in shares
    )
    low, high = sorted(0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in light)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.process
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_no_page_is_wider_than_its_window(site: Path, tmp_path: Path) -> None:
    with Browser(tmp_path) as browser:
        for page in ("index", "guide", "gallery", "reference/commands"):
            browser.open(site / f"{page}.html")
            for width in (390, 820, 1280, 1366, 1440, 1600, 1920):
                browser.look(width=width, height=900)
                assert browser.run("document.documentElement.scrollWidth") <= width, (page, width)


@pytest.mark.process
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_on_a_phone_what_is_said_of_a_command_has_lines_of_its_own(site: Path, tmp_path: Path) -> None:
    """Every comment of the site's commands is marked, and the marks leave the text as it is typed."""
    for page in site.rglob("*.html"):
        for block in re.findall(r'(?s)class="highlight-bash .*?<pre>(.*?)</pre>', page.read_text(encoding="utf-8")):
            lines = re.sub(r"<[^>]*>", "", block).splitlines()
            commented = sum(bool(re.fullmatch(r"\s*[^\s#].*? +# .*", line)) for line in lines)
            assert block.count('class="line commented"') == commented, (page, block)
    apart = """[...document.querySelectorAll(".line.%s")].filter((line) => line.querySelector(".typed").textContent)
        .map((line) => [".typed", ".remark"].map((part) => line.querySelector(part).getBoundingClientRect()))
        .map(([typed, remark]) => remark.bottom <= typed.top + 1 || remark.top + 1 >= typed.bottom)"""
    with Browser(tmp_path) as browser:
        for page, kind in (("guide", "commented"), ("reference/commands", "explained")):
            for width, is_apart in ((390, True), (1280, False)):
                browser.look(width=width, height=900)
                browser.open(site / f"{page}.html")
                where = browser.run(apart % kind)
                assert len(where) > 20 and all(where) is is_apart, (page, width)


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

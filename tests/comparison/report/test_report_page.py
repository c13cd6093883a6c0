"""The report as a browser shows it: figures drawn, nothing asked of any other place, no text that becomes script."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from browser import CHROMIUM, Browser
from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.report import write_report
from sample_comparison import made_up
from served_runs import shown
from waiting import until

NASTY = "</script><script>document.title='caught'</script> <img src=x onerror=alert(1)> \"'&amp;\u2028 ü {{body}}"
DRAWN = "document.documentElement.dataset.drawn"
BEYOND_ITS_TILE = """[...document.querySelectorAll(".tiles img")]
    .filter((image) => image.clientWidth > image.parentElement.clientWidth)"""
NUM_PLOTS = "document.querySelectorAll('.js-plotly-plot .main-svg:first-child').length"
pytestmark = [pytest.mark.process, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")]


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> ComparisonResults:
    return made_up(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def file(findings: ComparisonResults, tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("page") / "report.html"
    write_report(findings, written)
    return written


def opened(browser: Browser, file: Path, *, width: int = 1400, dark: bool = False) -> None:
    browser.look(width=width, height=900, dark=dark)
    browser.open(file)
    until(lambda: browser.run(DRAWN) == "true", otherwise=lambda: f"the figures are not drawn: {browser.trouble}")


def requested_elsewhere(browser: Browser) -> list[str]:
    return [address for address in browser.requests[1:] if not address.startswith(("data:", "blob:"))]


def test_every_figure_is_drawn_without_a_word_on_the_console_or_a_request(browser: Browser, file: Path) -> None:
    opened(browser, file)
    text = file.read_text(encoding="utf-8")
    figures = browser.run("document.querySelectorAll('[data-figure]').length")
    assert browser.run(NUM_PLOTS) == figures >= 4
    assert browser.trouble == []
    assert requested_elsewhere(browser) == []
    assert text.count("plotly.js v") == 1
    assert len(text) < 7_000_000


def test_the_question_and_its_verdicts_come_before_everything_else(
    browser: Browser, findings: ComparisonResults, file: Path
) -> None:
    opened(browser, file)
    first = browser.run("document.querySelector('main').innerText")
    assert first.startswith(findings.question or "")
    assert first.index("equivalent") < first.index("Table 1")
    assert browser.run("document.querySelector('main section').id") == "verdict"


def test_figures_follow_light_and_dark_and_the_page_has_a_switch(browser: Browser, file: Path) -> None:
    opened(browser, file, dark=True)
    paper = "getComputedStyle(document.body).backgroundColor"
    line = "document.querySelector('.js-plotly-plot .scatterlayer .js-line').style.stroke"
    dark = browser.run(paper), browser.run(line)
    browser.click("#theme")
    browser.run("new Promise((done) => setTimeout(done, 300))")
    light = browser.run(paper), browser.run(line)
    assert browser.run("document.documentElement.dataset.theme") == "light"
    assert light[0] == "rgb(255, 255, 255)" != dark[0]
    assert light[1] != dark[1]


def test_a_phone_scrolls_tables_in_their_boxes_and_never_the_page(browser: Browser, file: Path) -> None:
    opened(browser, file, width=390)
    assert browser.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert browser.run(
        "[...document.querySelectorAll('.plot')].every((plot) => plot.getBoundingClientRect().right <= innerWidth)"
    )


def test_buttons_choose_what_a_figure_is_drawn_against(browser: Browser, file: Path) -> None:
    opened(browser, file)
    title = "document.querySelector('#curves .xtitle').textContent"
    assert browser.run(title) == "tokens"
    browser.click("#curves [data-option=FLOPs]")
    assert browser.run(title) == "training FLOPs"
    browser.click("#curves [data-option='train loss']")
    assert browser.run("document.querySelector('#curves .ytitle').textContent") == "train loss"
    browser.click("#curves [data-option=tokens]")
    browser.click("#curves [data-option=log]")
    shown(browser, "[...document.querySelectorAll('#curves .xtick')].some((one) => one.textContent.endsWith('00k'))")
    ticks = browser.run("[...document.querySelectorAll('#curves .xtick')].map((one) => one.textContent)")
    assert not [text for text in ticks if len(text) == 1], "a tick of a log axis is a whole number, not its first digit"


def test_paper_gets_light_figures_unfolded_texts_and_no_buttons(browser: Browser, file: Path) -> None:
    opened(browser, file, dark=True)
    wide = "document.querySelector('#curves .main-svg').clientWidth"
    on_screen = browser.run(wide)
    browser.run("dispatchEvent(new Event('afterprint'))")
    for _ in range(2):
        browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run("document.documentElement.dataset.theme") == "light"
    assert browser.run("[...document.querySelectorAll('main details[data-printed]')].every((one) => one.open)")
    assert browser.run(wide) == 680
    browser.print_look(width=690)
    assert browser.run("document.documentElement.scrollWidth") <= 690, "what is wider makes paper's letters small"
    assert browser.run(f"{BEYOND_ITS_TILE}.length") == 0
    assert browser.run("getComputedStyle(document.querySelector('#arms td.numeric')).whiteSpace") == "nowrap"
    browser.look(width=1400, height=900, dark=True)
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run("document.documentElement.dataset.theme") == "dark"
    assert browser.run("[...document.querySelectorAll('main details')].every((one) => !one.open)")
    browser.wait_until_idle()
    assert browser.run(wide) == on_screen > 680
    assert browser.trouble == []


def test_an_arm_that_was_hidden_stays_so_in_another_theme(browser: Browser, file: Path) -> None:
    opened(browser, file)
    hidden = "document.querySelector('#curves .plot')._fullData.filter((one) => one.visible === 'legendonly').length"
    assert browser.run(hidden) == 0
    browser.click("#curves .legendtoggle")
    browser.run("new Promise((done) => setTimeout(done, 700))")  # a click may yet become a double one
    of_one_arm = browser.run(hidden)
    browser.click("#theme")
    browser.run("new Promise((done) => setTimeout(done, 300))")
    assert browser.run(hidden) == of_one_arm > 0


def test_texts_of_configurations_are_shown_as_they_are_and_do_nothing(browser: Browser, tmp_path: Path) -> None:
    result = made_up(tmp_path / "runs", {"a": 2.0, NASTY: 2.5}, num_seeds=3)
    texts = {"question": NASTY, "hypothesis": NASTY, "tuning_words": NASTY, "command": NASTY, "title": NASTY}
    file = tmp_path / "report.html"
    write_report(replace(result, remarks=(NASTY,), **texts), file)
    opened(browser, file)
    assert browser.run("document.title") != "caught"
    assert browser.run("document.querySelector('h1').textContent") == NASTY
    assert browser.run("document.querySelectorAll('img[src=x]').length") == 0
    assert browser.run("document.querySelector('#curves .legend').textContent").startswith("a</script><script")
    assert browser.trouble == []
    assert requested_elsewhere(browser) == []


def test_an_appendix_is_two_pages(browser: Browser, file: Path) -> None:
    opened(browser, file)
    browser.run("window.print = () => 0; document.getElementById('appendix').click()")
    assert browser.num_printed_pages() == 2
    opened(browser, file)
    assert browser.num_printed_pages() > 2, "without the button all of it is printed"


HEIGHTS = """[...document.querySelectorAll(".js-plotly-plot")].filter((plot) => plot.clientWidth)
    .map((plot) => plot._fullLayout.height)"""


def test_figures_of_an_appendix_are_as_high_as_its_pages_leave_them(browser: Browser, tmp_path: Path) -> None:
    heights = {}
    for count in (2, 4, 8):
        arms = {f"arm_{number}": 2.0 + number / 10 for number in range(count)}
        written = tmp_path / f"{count}.html"
        write_report(made_up(tmp_path / str(count), arms, num_seeds=3, steps=40, maps=False), written)
        opened(browser, written)
        browser.run("window.print = () => 0; document.getElementById('appendix').click()")
        browser.run("window.dispatchEvent(new Event('beforeprint'))")
        browser.wait_until_idle()
        heights[count] = max(browser.run(HEIGHTS))
        assert browser.num_printed_pages() == 2
    assert heights[2] >= heights[4] >= heights[8] >= 215 < heights[2], heights


CAUGHT = """
window.saved = [];
const blobs = new Map();
URL.createObjectURL = (blob) => { const name = `blob:${blobs.size}`; blobs.set(name, blob); return name; };
HTMLAnchorElement.prototype.click = function () {
  blobs.get(this.href).text().then((text) => saved.push([this.download, text]));
};
0
"""
"""Files that a page saves are caught instead."""


def test_every_figure_leaves_as_svg_and_its_data_as_csv(browser: Browser, file: Path) -> None:
    opened(browser, file)
    browser.run(CAUGHT)
    browser.run("document.querySelectorAll('.files button').forEach((button) => button.click())")
    number = browser.run("document.querySelectorAll('.files button').length")
    until(lambda: browser.run("saved.length") == number, otherwise="a file is missing")
    for name, text in browser.run("saved"):
        table = "layer,arm,map,query,key," if name.startswith("maps") else "trace,x,y,"
        assert text.startswith("<svg" if name.endswith(".svg") else table), name
        assert text.count("\n") > 1 or name.endswith(".svg")


def test_the_numbers_of_a_map_leave_as_they_were_drawn(
    browser: Browser, file: Path, findings: ComparisonResults
) -> None:
    """Numbers are exact to a shade of the scale, where some neighbours look alike; forbidden pairs are left out."""
    opened(browser, file)
    browser.run(CAUGHT)
    browser.run("document.querySelectorAll('figure.maps')[0].querySelector('[data-file=csv]').click()")
    until(lambda: browser.run("saved.length") == 1, otherwise="the table does not come")
    rows = list(csv.DictReader(io.StringIO(browser.run("saved[0][1]"))))
    arm = next(arm for arm in findings.arms if arm.name == rows[0]["arm"])
    seed = browser.run("Number(document.querySelector('figure.maps figcaption').textContent.match(/seed (\\d+)/)[1])")
    run = next(run for run in arm.runs if run.seed == seed)
    assert run.record is not None and run.record.path is not None
    archive = sorted((run.record.path / "attention").glob("step_*"))[-1] / "stack.0.mixer.npz"
    with np.load(archive) as content:
        weights = content["weights"][0]
    own = [row for row in rows if row["arm"] == arm.name and row["layer"] == "layer 1"]
    heads = sorted({row["map"] for row in own})
    assert heads[0] == "head 1" and len(own) == len(heads) * sum(range(1, weights.shape[-1] + 1))
    largest = max(float(row["weight"]) for row in rows if row["layer"] == "layer 1")
    for row in own:
        exact = float(weights[int(row["map"].split()[1]) - 1, int(row["query"]) - 1, int(row["key"]) - 1])
        assert (row["or_more"] == "or more") == (float(row["weight"]) == largest)
        assert abs(min(exact, largest) - float(row["weight"])) <= 1.6 * largest / 254


def test_the_table_of_arms_fits_a_window_of_1280(browser: Browser, file: Path) -> None:
    opened(browser, file, width=1280)
    box = "document.querySelector('#arms .scroll')"
    assert browser.run(f"{box}.scrollWidth <= {box}.clientWidth")

"""The dashboard's charts as a browser shows them: what they compute, draw and read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from browser import CHROMIUM, Browser
from headtohead.comparison.statistics.means import interval_of
from headtohead.durations import duration
from headtohead.records.record import Progress, RunRecord
from headtohead.records.run_folder import RunFolder
from served_runs import LINES, POINTS, assert_quiet, go, noted_pieces, served, shown, train, visit, written_run

pytestmark = [pytest.mark.process, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")]


SECONDS = [
    0, 1e-30, 3e-6, 0.0009996, 0.0123, 0.2, 2.25, 9, 9.96, 10.5, 12.5, 64.2, 89.94, 90, 100, 135, 1800, 5399, 7200,
    59_400, 421_200, 4_442_400,
]  # fmt: skip
"""Seconds that the page and the terminal put into the same words."""


WIDTHS = {count: float(np.diff(interval_of(range(count), 0.05) or (0, 0))[0]) for count in (2, 3, 10, 31, 32, 40, 100)}
"""The widths of intervals of the mean over 0, 1, 2 ... in tables and verdicts."""

ARITHMETIC: dict[str, dict[str, Any]] = {
    "lines.js": {
        "interval([1, 2, 3]).map((value) => Number(value.toFixed(3)))": [2, -0.484, 4.484],
        f"Object.entries({WIDTHS}).map(([count, width]) => [width, interval([...Array(+count).keys()])])"
        ".filter(([width, [, low, high]]) => Math.abs((high - low) / width - 1) > 5e-4)": [],
        "interval([1, null])": [None, None, None],
        "smoothed([1, 3, 3], 0.5, [1, 1, 1]).at(-1) === smoothed([1, 3], 0.5, [1, 2]).at(-1)": True,
        "together([{ x: [0, 2], y: [0, 2] }, { x: [0, 1, 2], y: [1, 2, 3] }]).mean": [0.5, 1.5, 2.5],
    },
    "scales.js": {
        "evenTicks(0, 1, 5)": [0, 0.2, 0.4, 0.6, 0.8, 1],
        "logTicks(1, 1000, 4)": [1, 10, 100, 1000],
        "extent([[3, null, 1], [NaN]])": [1, 3],
        "extent([[-1, 0]], true)": None,
        "scale([1, 100], [0, 10], true, 3).at(10)": 5,
    },
    "plot.js": {
        "nearest([0, 10, 20], 14)": 1,
        "zigzag({ x: [0, 1], spread: { low: [2, 1], high: [2, 3] } })": [[0, 1, 1], [2, 1, 3]],
        "pathOf([0, 1, 2], [5, null, 7], (x) => x, (y) => y)": "M0.0 5.0M2.0 7.0",
    },
    "curves.js": {
        "matching(['train/loss', 'gradient_norm/head'], 'LOSS$')": ["train/loss"],
        "matching(['a(b', 'ab'], 'a(')": ["a(b"],
    },
    "pictures.js": {
        "[...darken(new Uint8ClampedArray([255, 255, 255, 255, 38, 38, 46, 255, 68, 1, 84, 255]))]": [
            27,
            30,
            36,
            255,
            200,
            202,
            206,
            255,
            68,
            1,
            84,
            255,
        ],
    },
    "format.js": {
        "[0, 1000, 2048, 403701760, 3e10, null].map(bytes)": ["0 B", "1000 B", "2 KiB", "385 MiB", "27.9 GiB", "–"],
        f"{SECONDS}.map(duration)": [duration(seconds) for seconds in SECONDS],
    },
    "download.js": {
        "csvOf([['a,b', '=1+1', -1]])": '"a,b",\'=1+1,-1\n',
        "inRows(['alibi', 'rotary', 'x'.repeat(40)], 200).map(({ row }) => row)": [0, 0, 1],
    },
}


@pytest.mark.parametrize("module", ARITHMETIC)
def test_what_charts_compute(browser: Browser, tmp_path: Path, module: str) -> None:
    with served(tmp_path) as dashboard:
        visit(browser, dashboard)
        for expression, expected in ARITHMETIC[module].items():
            result = browser.run(f"import('/{module}').then((module) => {{ with (module) return {expression}; }})")
            assert result == expected, expression


def test_losses_of_different_tasks_have_charts_of_their_own(browser: Browser, tmp_path: Path) -> None:
    for data in ("grammar_lm", "copying"):
        for seed in (0, 1):
            config = {"choices": {"task": "causal_lm", "data": data}, "seed": seed}
            written_run(tmp_path, name="same", status="finished", config=config, seed=seed)
    with served(tmp_path) as dashboard:
        visit(browser, dashboard, sel="*", charts="train/loss")
        shown(browser, "document.querySelectorAll('.chart .figure svg').length === 2")
        tasks = browser.run("[...document.querySelectorAll('.chart')].map((chart) => chart.dataset.task).sort()")
        assert tasks == ["causal_lm · copying", "causal_lm · grammar_lm"]
        assert browser.run(f"{LINES}.filter((line) => line.low).length") == 1, "one mean of two seeds, with its band"
        assert_quiet(browser, dashboard)


SHARES = """(() => {
    const svg = document.querySelector('.figure svg'), { x, y, width, height } = svg.getBoundingClientRect();
    const strokes = [...svg.querySelectorAll('.share')].map((one) => getComputedStyle(one).stroke);
    const colours = strokes.map((stroke) => stroke.match(/\\d+/g).map(Number));
    return { colours, box: [x, y, x + width, y + height] };
})()"""


LEFT, TURN = 54, 9


def turns_seen(browser: Browser, folder: Path, *, start: int = LEFT) -> list[tuple[set[int], set[int]]]:
    """Return of each mean, where it has its turns, the columns with its colour and those with another one."""
    browser.wait_until_idle()
    browser.screenshot(folder / "page.png")
    shares = browser.run(SHARES)
    colours = [tuple(colour[:3]) for colour in shares["colours"]]
    with Image.open(folder / "page.png") as page:
        figure = page.convert("RGB").crop(tuple(map(round, shares["box"])))
    columns: list[set[Any]] = [
        {figure.getpixel((left, top)) for top in range(figure.height)} for left in range(figure.width)
    ]
    seen: list[tuple[set[int], set[int]]] = [(set(), set()) for _ in colours]
    for left in range(start, figure.width - 12):
        turn, within = divmod((left - LEFT) % (TURN * len(colours)), TURN)
        if 2 <= within <= TURN - 3:
            mine, others = seen[turn]
            mine |= {left} if colours[turn] in columns[left] else set()
            others |= {left} if columns[left] & ({*colours} - {colours[turn]}) else set()
    return seen


@pytest.mark.parametrize("groups", [4, 9])
def test_means_that_coincide_are_all_seen(browser: Browser, tmp_path: Path, groups: int) -> None:
    for group in range(groups):
        for seed in (0, 1):
            written_run(tmp_path, name=f"arm{group}", status="finished", steps=100, seed=seed)
    with served(tmp_path) as dashboard:
        visit(browser, dashboard, sel="*", charts="train/loss")
        shown(browser, f"{LINES}.filter((line) => line.low).length === {groups}")
        seen = turns_seen(browser, tmp_path)
    assert len(seen) == groups and all(mine for mine, _ in seen), seen


def test_means_that_join_late_are_both_seen(browser: Browser, tmp_path: Path) -> None:
    for name, early in (("steep", 3.0), ("flat", 0.1)):
        for seed in (0, 1):
            folder = written_run(tmp_path, name=name, status="finished", steps=0, seed=seed)
            for step in range(1, 101):
                loss = 1.0 + (early * (step % 2) if step < 30 else 0.0)
                folder.log(Progress(step, 0, 10 * step, 1e6 * step, 0.5 * step), {"train/loss": loss})
    with served(tmp_path) as dashboard:
        visit(browser, dashboard, sel="*", charts="train/loss")
        shown(browser, f"{LINES}.filter((line) => line.low).length === 2")
        width = browser.run("document.querySelector('.figure').clientWidth")
        seen = turns_seen(browser, tmp_path, start=LEFT + (width - LEFT) // 2)
    assert len(seen) == 2 and all(mine and not others for mine, others in seen), seen


def test_a_run_that_has_not_come_to_a_metric_leaves_its_unit(browser: Browser, tmp_path: Path) -> None:
    config = {"choices": {"task": "causal_lm"}}
    first = written_run(tmp_path, name="first", status="finished", config=config)
    first.log(Progress(3, 0, 30, 3e6, 2.0), {"validation/loss": 1.0})
    written_run(tmp_path, name="second", steps=1, config=config)
    with served(tmp_path) as dashboard:
        visit(browser, dashboard, sel="*", charts="validation/loss")
        shown(browser, "document.querySelector('.figure svg')?.textContent.includes('nats per token')")
        assert_quiet(browser, dashboard)


def test_the_grid_of_charts_and_its_stretch_are_in_the_address(browser: Browser, tmp_path: Path) -> None:
    folder = written_run(tmp_path, status="finished", steps=20)
    folder.log(Progress(20, 0, 200, 2e7, 10.0), {"validation/loss": 1.0, "validation/token_accuracy": 0.5})
    with served(tmp_path) as dashboard:
        visit(browser, dashboard, sel="*", charts="train/loss")
        shown(browser, "document.querySelectorAll('.chart .figure svg').length === 1")
        browser.run(
            "(() => { const add = document.querySelector('#add-chart'); add.value = 'validation/token_accuracy'; "
            "add.dispatchEvent(new Event('change')); })()"
        )
        shown(browser, "document.querySelectorAll('.chart .figure svg').length === 2")
        browser.run("document.querySelector('.skip').click()")
        assert browser.run("document.activeElement.id") == "main"
        browser.run("location.reload()")
        shown(browser, "document.querySelectorAll('.chart .figure svg').length === 2")
        go(browser, "sel=*&charts=train%2Floss&from=5&to=10")
        shown(browser, "document.querySelector('#whole') !== null")
        browser.click("#whole")
        shown(browser, "!location.hash.includes('from')")
        assert_quiet(browser, dashboard)


def test_a_chart_leaves_as_svg_with_its_title_and_legend_and_every_control_has_a_name(
    browser: Browser, tmp_path: Path
) -> None:
    for arm in ("alibi", "rotary"):
        written_run(tmp_path, name=arm, status="finished", steps=5)
    with served(tmp_path) as dashboard:
        visit(browser, dashboard, sel="*")
        shown(browser, "document.querySelector('.chart .figure svg') !== null")
        browser.run(
            "URL.createObjectURL = (blob) => { blob.text().then((text) => { window.saved = text; }); return '#'; };"
            "HTMLAnchorElement.prototype.click = () => 0; document.querySelector('[aria-label$=\"as SVG\"]').click()"
        )
        text = shown(browser, "window.saved")
        assert {">train/loss</text>", ">alibi</text>", ">rotary</text>"} <= set(re.findall(r">[\w/]+</text>", text))
        assert "var(" not in text
        assert browser.run(NAMELESS) == []
        assert_quiet(browser, dashboard)


NAMELESS = """[...document.querySelectorAll("button, a[href], input, select, textarea")].filter((one) =>
    !(one.getAttribute("aria-label") || one.title || one.innerText || one.labels?.[0]?.innerText
        || one.querySelector("img[alt]")))
    .map((one) => one.outerHTML)"""


def test_of_thousands_of_runs_the_page_holds_the_lines_in_sight_and_a_typed_filter_asks_for_few_of_its_beginnings(
    browser: Browser, tmp_path: Path
) -> None:
    for number in range(400):
        folder = RunFolder.create_at(tmp_path / f"run{number:03}")
        folder.write_record(RunRecord(id=folder.id, name=f"arm{number % 9}", seed=number, status="finished"))
    with served(tmp_path) as dashboard:
        visit(browser, dashboard, group="arm", sort="name", sel="run000")
        shown(browser, "document.querySelectorAll('.run').length > 30")
        box = "document.querySelector('#list')"
        for position in (1.0, 0.3, 0.9, 0.0):
            browser.run(f"{box}.scrollTop = {position} * ({box}.scrollHeight - {box}.clientHeight)")
            shown(browser, IN_SIGHT)
            assert browser.run("document.querySelectorAll('.run').length") <= 80
            assert browser.run(f"{box}.scrollHeight") == pytest.approx(400 * 46 + 9 * 32, abs=2)
        browser.run("document.querySelector('.run').focus()")
        browser.key("End")
        shown(browser, "document.activeElement.dataset.key === 'run395'")
        before = len(browser.requests)
        browser.run("document.querySelector('#filter').focus()")
        for letter in "name=arm7 seed<100":
            browser.key(letter)
        shown(browser, "document.querySelector('#filter-note').textContent === '11 match'")
        assert browser.run(f"{box}.scrollTop") == 0
        requested = [one for one in browser.requests[before:] if "/api/runs" in one]
        assert len(requested) <= 40, "at most two for each letter, and those of the seconds that it takes to type"
        assert_quiet(browser, dashboard)


IN_SIGHT = """(() => { const box = document.querySelector("#list").getBoundingClientRect();
    const at = (y) => document.elementFromPoint(box.left + 60, y)?.closest(".run, .group");
    return [box.top + 4, (box.top + box.bottom) / 2, box.bottom - 4].every(at); })()"""


"""Whether a line of the list is at its top, its middle and its end."""


def test_a_name_in_the_legend_hides_its_lines_and_a_chart_is_read_by_keys(browser: Browser, tmp_path: Path) -> None:
    for arm in ("alibi", "rotary"):
        written_run(tmp_path, name=arm, status="finished", steps=20)
    with served(tmp_path) as dashboard:
        visit(browser, dashboard, sel="*", charts="train/loss")
        shown(browser, f"{LINES}.length === 2")
        browser.click(".legend button")
        shown(browser, f"{LINES}.length === 1")
        assert browser.run("location.hash").endswith("hidden=alibi")
        browser.click(".legend button")
        shown(browser, f"{LINES}.length === 2")
        browser.run("document.querySelector('.chart .figure').focus()")
        browser.key("End")
        words = browser.run("document.querySelector('.tip').innerText").split()
        assert (words[0], words[-1]) == ("20", "0.2")
        browser.key("+")
        shown(browser, "location.hash.includes('from=')")
        browser.key("0")
        shown(browser, "!location.hash.includes('from=')")
        assert_quiet(browser, dashboard)


FADED = """[...document.querySelectorAll(".figure")].map((figure) => [...new Set([...figure.querySelectorAll(".faded")]
    .map((part) => part.dataset.group))].join())"""


"""The groups whose lines are faded, chart by chart."""


CURSORS = """[...document.querySelectorAll(".figure")].map((figure) => figure.querySelector(".tip").hidden ? null
    : figure.querySelector(".tip b").innerText)"""


"""The step that each chart reads."""


def test_a_name_that_is_pointed_at_stands_out_and_all_charts_read_one_step(browser: Browser, tmp_path: Path) -> None:
    for arm in ("alibi", "rotary"):
        folder = written_run(tmp_path, name=arm, status="finished", steps=20)
        for step in (5, 10, 15, 20):
            folder.log(Progress(step, 0, 10 * step, 1e6 * step, 0.5 * step), {"validation/loss": 3.0 / step})
    with served(tmp_path) as dashboard:
        visit(browser, dashboard, sel="*", charts="train/loss,validation/loss")
        shown(browser, f"{LINES}.length === 2 && document.querySelectorAll('.figure svg').length === 2")
        assert browser.run(FADED) == ["", ""]
        x, y = browser.run(
            "(() => { const box = document.querySelectorAll('.legend button')[1].getBoundingClientRect(); "
            "return [box.x + 5, box.y + 5]; })()"
        )
        browser.point(x, y)
        assert browser.run(FADED) == ["alibi", "alibi"]
        browser.point(1, 1)
        assert browser.run(FADED) == ["", ""]
        browser.run("document.querySelector('.legend button').focus()")
        assert browser.run(FADED) == ["rotary", "rotary"], "by keyboard"
        browser.key("Escape")
        x, y = browser.run(
            "(() => { const box = document.querySelector('.figure').getBoundingClientRect(); "
            "return [box.right - 12, box.y + 100]; })()"
        )
        browser.point(x, y)
        assert browser.run(CURSORS) == ["20", "20"]
        browser.point(1, 1)
        assert browser.run(CURSORS) == [None, None]
        browser.run("document.querySelectorAll('.figure')[1].focus()")
        assert browser.run(FADED) == ["", ""]
        browser.key("Home")
        assert browser.run(CURSORS)[1] == "5" and browser.run(CURSORS)[0] in ("4", "5", "6")
        browser.run("document.activeElement.blur()")
        assert browser.run(CURSORS) == [None, None]
        assert_quiet(browser, dashboard)


def test_a_run_is_read_once_for_all_charts_and_read_on_from_there(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = noted_pieces(monkeypatch)
    names = ["train/loss", "validation/loss", "validation/accuracy", "train/learning_rate"]
    folders = [written_run(tmp_path, name=f"run{number}") for number in range(5)]
    for folder in folders:
        folder.log(Progress(4, 0, 40, 4e6, 2.0), dict.fromkeys(names, 1.0))
    sizes = [folder.metrics_file.path.stat().st_size for folder in folders]
    with served(tmp_path) as dashboard:
        visit(browser, dashboard, sel="*", charts=",".join(names))
        shown(browser, "document.querySelectorAll('.figure svg').length === 4")
        assert sorted(path.parent for path, _ in pieces) == sorted(folder.path for folder in folders)
        assert sum(size for _, size in pieces) == sum(sizes)
        train(folders[0], range(5, 9))
        shown(browser, f"{POINTS} === 8")
        grown = folders[0].metrics_file.path
        assert [path for path, _ in pieces[5:] if path != grown] == []
        assert sum(size for _, size in pieces[5:]) == grown.stat().st_size - sizes[0]


def test_charts_out_of_sight_are_not_read_and_an_expression_adds_all_that_it_matches(
    browser: Browser, tmp_path: Path
) -> None:
    folder = written_run(tmp_path, status="finished")
    names = [f"gradient_norm/stack.blocks.{number}" for number in range(30)]
    folder.log(Progress(4, 0, 40, 4e6, 2.0), dict.fromkeys(names, 1.0))
    with served(tmp_path) as dashboard:
        visit(browser, dashboard, sel="*", charts="train/loss")
        shown(browser, f"{LINES}.length === 1")
        before = len(browser.requests)
        browser.run(
            "(() => { const add = document.querySelector('#add-chart'); add.value = 'GRAD.*blocks'; "
            "add.dispatchEvent(new Event('change')); })()"
        )
        shown(browser, "document.querySelectorAll('.chart').length === 31")
        shown(browser, "document.querySelectorAll('.chart .figure svg').length > 5")
        requested = [one for one in browser.requests[before:] if "/api/curves" in one]
        assert len(requested) < 25
        browser.run("document.querySelector('.chart:last-child').scrollIntoView()")
        shown(browser, "document.querySelector('.chart:last-child .figure svg') !== null")
        assert_quiet(browser, dashboard)

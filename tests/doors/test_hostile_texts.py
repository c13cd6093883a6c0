"""Hostile texts in each place where a page shows one: nothing of them is executed, and they are shown as they are."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import headtohead as h2h
from browser import CHROMIUM, Browser
from headtohead.cli import main
from headtohead.comparison.report import write_report
from headtohead.config.compose.composition import compose_checked
from headtohead.records.record import Progress, RunRecord
from headtohead.records.run_folder import RunFolder
from headtohead.sweeps.sweep_plan import Sweeper, SweepPlan
from headtohead.sweeps.sweep_report import write_page
from sample_comparison import made_up
from served_runs import go, served, shown, train
from studies.small_studies import write_run
from sweeps.small_sweeps import small_sweep, tiny

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")]
TEXTS = {
    "a script": "<script>window.caught='a script'</script>",
    "the end of a script": "</script><script>window.caught='the end'</script>",
    "a picture": "<img src=x onerror=\"window.caught='a picture';alert(1)\">",
    "a drawing": "\"><svg onload=window.caught='a drawing'><a xlink:href='javascript:alert(2)'>",
    "an attribute": "' autofocus onfocus='window.caught=1' onmouseover=\"window.caught=2\" x='",
    "an address": "javascript:window.caught='an address'",
    "a template": "{{content}} {{script}} ${window.caught='a template'} `${alert(3)}` %{x} %3Cscript%3E",
    "a comment": "<!-- <style>*{display:none}</style> --!> ]]> <base href='http://127.0.0.9/'>",
    "other places": "<link rel=stylesheet href=http://127.0.0.9/a.css><iframe src=http://127.0.0.9/></iframe>",
    "a link": "<a href=\"javascript:window.caught='a link'\">click</a>",
    "entities": "&lt;script&gt;window.caught='entities'&lt;/script&gt;&#60;b&#62;",
    "right to left": "abc \u202edlrow\u202c \u2066olleh\u2069 \u200f \u05e9\u05dc\u05d5\u05dd",
    "signs": "\u2028\u2029 \u200b \x1b[31m\x07 \U0001f469\u200d\U0001f4bb z\u0335\u0322\u0321a\u034f\u0489",
    "a null byte": "a\x00b<img src=x\x00 onerror=window.caught='null'>",
    "a long word": "w" * 4000,
}
NASTY = " ".join(text for name, text in TEXTS.items() if name not in ("a null byte", "a long word"))
ALL_AT_ONCE = "all at once"
CASES = [
    ALL_AT_ONCE,
    *(
        name if name in ("a null byte", "a long word") else pytest.param(name, marks=pytest.mark.whole)
        for name in TEXTS
    ),
]
"""The gate shows the texts together, and by itself what would hide others; `make laws-long` each alone."""
MADE = "document.querySelectorAll('img[src=x], svg[onload], iframe, base, [onfocus], [onmouseover], [onerror]').length"
ADDRESSES = "[...document.links].filter((link) => !/^(https?:|file:|blob:|data:)/.test(link.href)).length"
TABS = ("curves", "results", "diff", "maps", "samples", "notes")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


def check(browser: Browser, *, own: tuple[str, ...] = ("file:",)) -> None:
    """Nothing was executed or made, no dialog came, no word is on the console, and nobody else was asked."""
    browser.wait_until_idle()
    assert browser.run("window.caught") is None
    assert browser.run(MADE) == 0 and browser.run(ADDRESSES) == 0
    assert browser.trouble == []
    external = [address for address in browser.requests if not address.startswith((*own, "data:", "blob:", "about:"))]
    assert external == []
    assert browser.run("document.documentElement.scrollWidth <= innerWidth"), "wider than its window"


def shows(browser: Browser, text: str) -> None:
    """Check that the page shows the text in its elements, however it is broken into lines."""
    expected = "".join(text.replace("\x00", "").split())
    held = "document.body.textContent.replace(/[\\s\\u0000\\ufffd]/g, '')"
    shown(browser, f"{held}.includes({json.dumps(expected)})")


def text_of(name: str) -> str:
    return NASTY if name == ALL_AT_ONCE else TEXTS[name]


def written(root: Path, text: str) -> None:
    """A run whose every text of its own is this one, a table of it, another run to differ from, and a study."""
    RunFolder.create_at(root / "some" / "run-2").write_record(RunRecord(id="run-2", name="other", status="finished"))
    config = {"model": {text: text}, "notes": text, "name": text}
    folder = RunFolder.create_at(root / "some" / "run-1")
    record = RunRecord(id=folder.id, name=text, notes=text, tags=[text], config=config, status="failed", reason=text)
    folder.write_record(replace(record, cannot={"test_2x": text}))
    train(folder, range(1, 4))
    table = folder.path / "tables" / "test" / "samples.csv"
    table.parent.mkdir(parents=True)
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["text", text], [text, text]])
    (root / "studies" / "asked").mkdir(parents=True)
    message = {"study": {"question": text}, "verdicts": [{"kind": "unlike", "sentence": text}], "remarks": [text]}
    (root / "studies" / "asked" / "verdict.json").write_text(json.dumps(message))


@pytest.mark.parametrize("name", CASES)
def test_the_dashboard_shows_hostile_texts_as_text(name: str, browser: Browser, tmp_path: Path) -> None:
    text = text_of(name)
    written(tmp_path, text)
    with served(tmp_path) as dashboard:
        browser.open("about:blank")
        browser.open(f"{dashboard.address}#sel=*")
        for view in (*(f"sel=*&tab={tab}" for tab in TABS), "view=studies", "sel=*&group=name"):
            go(browser, view)
            if view.endswith(("results", "diff", "samples", "notes", "studies")):
                shows(browser, text)
            check(browser, own=(dashboard.address,))


@pytest.mark.parametrize("name", CASES)
def test_the_report_shows_hostile_texts_as_text(name: str, browser: Browser, tmp_path: Path) -> None:
    text = text_of(name)
    result = made_up(tmp_path / "runs", {"a": 2.0, text: 2.5}, num_seeds=3, steps=10, maps=False)
    texts = {"question": text, "hypothesis": text, "tuning_words": text, "command": text, "title": text}
    file = tmp_path / "report.html"
    write_report(replace(result, remarks=(text,), **texts), file)
    browser.open(file)
    shown(browser, "document.documentElement.dataset.drawn === 'true'")
    shows(browser, text)
    check(browser)


def swept(folder: Path, text: str) -> SweepPlan:
    """A sweep over this text and another, some of whose trials measured something and some failed."""
    note = f"a {text}".replace("\x00", "").replace("${", "{")  # YAML has no null byte, and Hydra resolves references
    parameters = {"notes": {"values": [note, "other"]}, "optimizer.lr": {"values": [0.1, 0.01, 0.001]}}
    sweep = small_sweep(*tiny(folder), parameters=parameters, description=text)
    sweeper = Sweeper(sweep)
    folders = [sweeper.plan.run_folder(spec) for spec in sweeper.plan.runs]
    for run, value in zip(folders[:2], (1.0, 2.0), strict=True):
        write_run(run)
        RunFolder(run).log(Progress(step=4), {"validation/loss": value})
    write_run(folders[2], "failed", None, reason=text)
    return replace(sweeper.again()[0], sweep=replace(sweep, name=text))


@pytest.mark.parametrize("name", CASES)
def test_the_page_of_a_sweep_shows_hostile_texts_as_text(name: str, browser: Browser, tmp_path: Path) -> None:
    text = text_of(name)
    plan = swept(tmp_path, text)
    browser.open(write_page(plan, f"h2h sweep {text}"))
    shown(browser, "document.documentElement.dataset.drawn === 'true'")
    shows(browser, text)
    check(browser)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A classifier that was trained on a table whose cells and classes are hostile, and samples of it."""
    root = tmp_path_factory.mktemp("trained")
    classes = [TEXTS["a picture"], TEXTS["the end of a script"], TEXTS["right to left"]]
    runs = [text for name, text in TEXTS.items() if name != "a null byte"]
    with (root / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        rows = [[runs[row % len(runs)], classes[row % 3]] for row in range(60)]
        csv.writer(file).writerows([["text", "label"], *rows])
    more = [
        "task=classification", "model=encoder_only", "model.d_model=16", "model.num_heads=2", "model.num_layers=1",
        "data=csv", f"data.path={root / 'rows.csv'}", "data.tokenizer=char", "data.max_length=40",
        "trainer.max_steps=2", "trainer.validate_every=1", "trainer.accelerator=cpu", "trainer.progress_bar=false",
        "tracking=none", f"output_dir={root / 'outputs'}",
    ]  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(root / "cache"))
        config = compose_checked("train", more)
        record = h2h.train({**config, "name": NASTY, "notes": NASTY, "tags": [NASTY]})
        assert record.status == "finished" and record.path is not None, record.reason
        yield record.path


def test_what_a_run_read_and_said_is_text_on_its_pages(outputs: Path, browser: Browser, tmp_path: Path) -> None:
    """Tokens, classes and rows, on the pages of attention and of data."""
    for arguments, page in (
        (("--text", NASTY[:30]), "attention.html"),
        (("--text", TEXTS["a null byte"]), "attention.html"),
        (("--rows", "0,1,2"), "attention.html"),
        (("--data",), "data.html"),
        (("--positions",), "positions.html"),
    ):
        folder = tmp_path / f"{page}{len(list(tmp_path.iterdir()))}"
        assert main(["probe", str(outputs), *arguments, "--out", str(folder)]) == 0
        (file,) = folder.rglob(page)
        browser.open(file)
        if page == "data.html":
            shows(browser, TEXTS["the end of a script"])
        check(browser)


def test_what_a_run_read_and_said_is_text_on_the_dashboard(outputs: Path, browser: Browser) -> None:
    with served(outputs.parents[1]) as dashboard:
        browser.open("about:blank")
        browser.open(f"{dashboard.address}#sel=*&tab=samples")
        shown(browser, "document.querySelectorAll('#panel td').length > 3")
        for tab in TABS:
            go(browser, f"sel=*&tab={tab}")
            check(browser, own=(dashboard.address,))
        go(browser, "sel=*&tab=notes")
        shows(browser, NASTY)

"""The dashboard as a browser shows it: curves that grow, views that survive, and names that stay names."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from browser import CHROMIUM, Browser
from headtohead.comparison.dashboard.live_runs import LiveRuns
from headtohead.records.record import RunRecord, StudyPosition
from headtohead.records.run_folder import RunFolder
from served_runs import LINES, POINTS, assert_quiet, go, served, shown, train, visit, written_run
from waiting import PATIENCE
from warm_commands import WarmCommand

pytestmark = [pytest.mark.process, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")]
NASTY = "<img src=x onerror=document.title='caught'></script><script>document.title='caught'</script>%{x}\"'&lt;b&gt;"
BEYOND_THEIR_CELLS = """[...document.querySelectorAll(".beside :is(th, td)")]
    .filter((cell) => cell.scrollWidth > cell.clientWidth).map((cell) => cell.innerText)"""
TABS = ("curves", "results", "diff", "beside", "maps", "samples", "notes")


def test_the_curve_of_a_running_job_grows_while_one_watches(browser: Browser, tmp_path: Path) -> None:
    folder = written_run(tmp_path, steps=3)
    with served(tmp_path) as dashboard:
        visit(browser, dashboard)
        shown(browser, f"{POINTS} === 3")
        assert browser.run("document.querySelector('.run').dataset.status") == "running"
        assert browser.run("document.querySelector('.run .fill, .run .bar i').style.width") == "3%"
        train(folder, range(4, 41))
        shown(browser, f"{POINTS} === 40")
        assert browser.run(f"{LINES}[0].y.at(-1)") == pytest.approx(0.1)
        assert browser.run("document.querySelector('.run .status').innerText") == "step 40 of 100 · 30 s left"
        folder.write_record(RunRecord(id=folder.id, name="tiny", status="diverged", reason="loss is not finite"))
        shown(browser, "document.querySelector('.run').dataset.status === 'diverged'")
        written_run(tmp_path, name="second")
        shown(browser, "document.querySelectorAll('.run').length === 2")
        assert_quiet(browser, dashboard)


def test_names_and_notes_cannot_become_markup(browser: Browser, tmp_path: Path) -> None:
    config = {"model": {NASTY: NASTY}, "notes": NASTY}
    fields: dict[str, Any] = {"name": NASTY, "notes": NASTY, "tags": [NASTY], "config": config, "reason": NASTY}
    for status in ("failed", "finished"):
        folder = RunFolder.create_at(tmp_path / "some" / f"{status}<img src=x onerror=document.title='caught'>")
        record = RunRecord(
            id=folder.id, status=status, cannot={"test_2x": NASTY}, place=StudyPosition(arm=NASTY), **fields
        )
        record.wandb.url = "javascript:document.title='caught'"
        record.config["seed"] = status
        folder.write_record(record)
        train(folder, range(1, 5))
        (folder.path / "tables" / "test").mkdir(parents=True)
        (folder.path / "tables" / "test" / "samples.csv").write_text(f"{NASTY}\n{NASTY}\n")
        (folder.attention / "step_1").mkdir(parents=True)
        (folder.attention / "step_1" / "<b onclick=1>.png").write_bytes(b"")
    (tmp_path / "studies" / "<i>").mkdir(parents=True)
    message = {"study": {"question": NASTY}, "verdicts": [{"kind": NASTY, "sentence": NASTY}], "remarks": [NASTY]}
    (tmp_path / "studies" / "<i>" / "verdict.json").write_text(json.dumps(message))
    with served(tmp_path) as dashboard:
        visit(browser, dashboard)
        for view in (*(f"sel=*&tab={tab}" for tab in TABS), "view=studies", "sel=*&group="):
            go(browser, view)
            shown(browser, "document.body.innerText.includes('onerror')")
            browser.wait_until_idle()
            assert browser.run("document.title") == "headtohead: runs", view
            assert browser.run("document.querySelectorAll('img[src=x], script:not([src])').length") == 0, view
            assert browser.run("[...document.links].every((link) => /^https?:/.test(link.href))"), view
            assert_quiet(browser, dashboard)


def test_a_view_is_in_its_address(browser: Browser, tmp_path: Path) -> None:
    for width, seed in ((32, 0), (32, 1), (64, 0)):
        config = {"model": {"d_model": width}, "seed": seed}
        written_run(tmp_path, name=f"wide{width}", seed=seed, config=config, status="finished", steps=5)
    with served(tmp_path) as dashboard:
        visit(browser, dashboard)
        shown(browser, f"{LINES}.length > 0")
        browser.run(
            "(() => { const box = document.querySelector('#filter'); box.value = 'd_model=32'; "
            "box.dispatchEvent(new Event('input')); })()"
        )
        shown(browser, "document.querySelectorAll('.run').length === 2")
        browser.run(
            "(() => { const box = document.querySelector('#group'); box.value = 'model.d_model'; "
            "box.dispatchEvent(new Event('change')); })()"
        )
        shown(browser, "document.querySelector('.group b').textContent === '32'")
        browser.click(".run .box")
        shown(browser, "document.querySelectorAll('.run[aria-selected=true]').length === 1")
        browser.run("window.before = true; location.reload()")
        shown(browser, "window.before === undefined && document.readyState === 'complete'")
        shown(browser, "document.querySelectorAll('.run').length === 2")
        assert browser.run("document.querySelector('#filter').value") == "d_model=32"
        assert browser.run("document.querySelector('#group').value") == "model.d_model"
        assert browser.run("document.querySelectorAll('.run[aria-selected=true]').length") == 1
        shown(browser, f"{LINES}.length === 1")
        assert_quiet(browser, dashboard)


def test_runs_are_chosen_by_mouse_and_by_keys(browser: Browser, tmp_path: Path) -> None:
    for position in range(4):
        written_run(tmp_path, name=f"run{position}", status="finished")
    chosen = "[...document.querySelectorAll('.run')].map((run) => run.getAttribute('aria-selected') === 'true')"
    with served(tmp_path) as dashboard:
        visit(browser, dashboard, group="", sort="name")
        shown(browser, "document.querySelectorAll('.run[aria-selected=true]').length === 4")
        assert browser.run("document.querySelector('.run[aria-selected=true] .box').style.background") != ""
        browser.click(".run:nth-child(2) .name")
        shown(browser, f"({chosen}).join() === 'false,true,false,false'")
        browser.click(".run:nth-child(4) .box")
        shown(browser, f"({chosen}).join() === 'false,true,false,true'")
        browser.run("document.querySelector('.run:nth-child(4)').focus()")
        browser.key("ArrowUp", shift=True)
        shown(browser, f"({chosen}).join() === 'false,true,true,true'")
        browser.key("ArrowUp")
        browser.key(" ")
        shown(browser, f"({chosen}).join() === 'false,false,true,true'")
        assert_quiet(browser, dashboard)


def test_a_report_draws_in_its_box_and_reaches_nothing(browser: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "studies" / "norms"
    folder.mkdir(parents=True)
    (folder / "verdict.json").write_text(json.dumps({"verdicts": [{"kind": "better", "sentence": "rms is better."}]}))
    (folder / "report.html").write_text(
        "<title>norms</title><p id=said>before</p><script>"
        "const tell = (what) => parent.postMessage(what, '*');"
        "fetch('/api/runs').then(() => tell('reached'), () => tell('refused'));"
        "try { parent.document.title = 'caught'; } catch { tell('drawn'); }</script>"
    )
    with served(tmp_path) as dashboard:
        visit(browser, dashboard)
        browser.run("window.heard = []; addEventListener('message', (event) => heard.push(event.data))")
        browser.run("location.hash = 'view=studies&study=norms'")
        shown(browser, "heard.length === 2")
        assert sorted(browser.run("heard")) == ["drawn", "refused"]
        assert browser.run("document.title") == "headtohead: runs"
        assert "rms is better." in browser.run("document.querySelector('.studies').innerText")


def test_a_report_opens_beside_its_study_and_in_sight(browser: Browser, tmp_path: Path) -> None:
    for position in range(30):
        folder = tmp_path / "studies" / f"study{position:02}"
        folder.mkdir(parents=True)
        (folder / "report.html").write_text("<p>all of it</p>")
    with served(tmp_path) as dashboard:
        visit(browser, dashboard, view="studies", study="study20")
        shown(browser, "document.querySelector('iframe') !== null")
        assert browser.run("document.querySelector('iframe').previousElementSibling.innerText").startswith("study20")
        top = browser.run("document.querySelector('iframe').getBoundingClientRect().top")
        assert 0 < top < browser.run("innerHeight")


def test_what_no_run_tells_has_no_column_and_runs_without_maps_say_why(browser: Browser, tmp_path: Path) -> None:
    blind = {"probe": {"at_end": False, "every": None}}
    written_run(tmp_path, name="images", status="finished", throughput={"samples_per_second": 50.0}, config=blind)
    with served(tmp_path) as dashboard:
        visit(browser, dashboard, sel="*", tab="results")
        shown(browser, "document.querySelectorAll('.results th').length > 3")
        heads = browser.run("[...document.querySelectorAll('.results thead th')].map((one) => one.innerText)")
        assert "samples/s" in heads and "tokens/s" not in heads and "chance" not in heads
        browser.run("location.hash = 'sel=*&tab=maps'")
        shown(browser, "document.querySelector('#panel').innerText.includes('probe=none')")
        assert_quiet(browser, dashboard)


def test_a_star_and_a_note_of_the_page_stay(browser: Browser, tmp_path: Path) -> None:
    written_run(tmp_path, status="finished")
    with served(tmp_path) as dashboard:
        visit(browser, dashboard, sel="*", tab="notes")
        shown(browser, "document.querySelector('textarea') !== null")
        browser.click(".run .mark")
        shown(browser, "document.querySelector('.run .mark').textContent === '★'")
        browser.run(
            "(() => { const note = document.querySelector('textarea'); note.value = 'worth a look'; "
            "note.dispatchEvent(new Event('change')); })()"
        )
        shown(browser, "document.querySelector('.run .mark').title === 'worth a look'")
        visit(browser, dashboard, sel="*", tab="notes", stars="1")
        shown(browser, "document.querySelector('textarea')?.value === 'worth a look'")
        assert browser.run("document.querySelector('.star').getAttribute('aria-pressed')") == "true"
        assert_quiet(browser, dashboard)


def test_two_runs_stand_side_by_side_with_their_differences_marked(browser: Browser, tmp_path: Path) -> None:
    for width in (32, 64):
        config = {"model": {"d_model": width, "num_layers": 2}}
        written_run(tmp_path, name=f"wide{width}", status="finished", config=config)
    fields = "[...document.querySelectorAll('.diff tbody tr')].map((row) => `${row.className} ${row.innerText}`).join()"
    with served(tmp_path) as dashboard:
        visit(browser, dashboard, sel="*", tab="beside", sort="name")
        shown(browser, "document.querySelectorAll('.diff tbody tr').length > 0")
        assert browser.run(fields) == "differs model.d_model\t32\t64"
        results = browser.run("document.querySelector('.results').innerText")
        assert "status" in results and "folder" not in results, "what names a run differs between any two"
        go(browser, "sel=*&tab=beside&sort=name&every=1")
        shown(browser, f"({fields}).includes('same model.num_layers')")
        assert_quiet(browser, dashboard)


def test_columns_are_chosen_and_a_table_is_sorted_in_the_address(browser: Browser, tmp_path: Path) -> None:
    for width in (64, 32):
        written_run(tmp_path, name=f"wide{width}", status="finished", config={"model": {"d_model": width}})
    with served(tmp_path) as dashboard:
        visit(browser, dashboard, sel="*", tab="results", columns="run,model.d_model", by="model.d_model")
        shown(browser, "document.querySelectorAll('.results tbody tr').length === 2")
        cells = "[...document.querySelectorAll('.results tbody td')].map((cell) => cell.innerText).join()"
        assert browser.run(cells) == "32,64"
        browser.click(".results thead th:nth-child(2) button")
        shown(browser, f"{cells} === '64,32'")
        assert "down=1" in browser.run("location.hash")
        assert_quiet(browser, dashboard)


def test_a_study_is_a_board_of_arms_and_seeds(browser: Browser, tmp_path: Path) -> None:
    studies = tmp_path / "studies"
    for arm, seed, status in (("rms", 0, "finished"), ("rms", 1, "failed"), ("layer", 0, "running")):
        position = StudyPosition(study="norms", arm=arm, seed=seed)
        folder = RunFolder.create_at(studies / "norms" / "runs" / f"{arm}{seed}")
        config = {"trainer": {"max_steps": 100}}
        folder.write_record(RunRecord(id=folder.id, name=arm, status=status, place=position, config=config))
        train(folder, range(1, 26))
    (studies / "norms" / "registrations").mkdir()
    registered = {"arms": {"rms": "a", "layer": "b", "none": "c"}, "seeds": [0, 1], "time": "2026"}
    (studies / "norms" / "registrations" / "one.json").write_text(json.dumps(registered))
    with served(tmp_path) as dashboard:
        visit(browser, dashboard, view="studies")
        shown(browser, "document.querySelectorAll('.cell').length === 6")
        cells = browser.run("[...document.querySelectorAll('.cell')].map((cell) => cell.innerText).join(' ')")
        assert cells == "✓ ✗ 25 % · · ·"
        assert "1 of 6 done, 1 running, 1 failed, 3 not started" in browser.run(
            "document.querySelector('.board').innerText"
        )
        assert_quiet(browser, dashboard)


def test_an_empty_folder_says_what_to_run(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path / "nothing") as dashboard:
        visit(browser, dashboard)
        shown(browser, "document.querySelector('#empty').innerText.includes('h2h train')")
        written_run(tmp_path / "nothing", status="finished")
        visit(browser, dashboard, q="nobody")
        shown(browser, "document.querySelector('#empty').innerText.includes('The filter leaves none of 1')")
        assert_quiet(browser, dashboard)


def test_nothing_is_wider_than_a_phone(browser: Browser, tmp_path: Path) -> None:
    for letter in "ab":
        config = {"model": {"mixer": {"_target_": f"package.mixers_of_a_long_name.{letter}.Mixer"}}}
        metrics = {"validation": {"a_metric_of_a_long_name": 0.1234567}}
        written_run(
            tmp_path, name=f"{letter}-name-that-is-long-" * 3, status="finished", config=config, metrics=metrics
        )
    for study, arm, seeds in (("heads", "an_arm_of_a_name_that_is_long", 12), ("five", "rotary_in_windows", 5)):
        registered = {"arms": {arm: "a"}, "seeds": list(range(seeds)), "time": "2026"}
        (tmp_path / "studies" / study / "registrations").mkdir(parents=True)
        (tmp_path / "studies" / study / "registrations" / "one.json").write_text(json.dumps(registered))
    with served(tmp_path) as dashboard:
        browser.look(width=370, height=844)  # a phone of 390 with a bar to scroll by
        visit(browser, dashboard, view="studies")
        shown(browser, "document.querySelectorAll('.cell').length === 17")
        scrolled = "[...document.querySelectorAll('.board .scroll')].filter((one) => one.scrollWidth > one.clientWidth)"
        assert browser.run(f"{scrolled}.map((one) => one.querySelectorAll('.cell').length)") == [12], "five seeds fit"
        assert browser.run("document.documentElement.scrollWidth") <= 370, "studies"
        visit(browser, dashboard)
        for tab in TABS:
            go(browser, f"sel=*&tab={tab}")
            assert browser.run("document.documentElement.scrollWidth") <= 370, tab
            assert browser.run(BEYOND_THEIR_CELLS) == [], tab
            tab_ends = "document.querySelector('.tabs [aria-selected=true]').getBoundingClientRect().right"
            assert browser.run(tab_ends) <= 370, f"{tab} is chosen and out of sight"
        browser.look(width=1400, height=900)


STANDS_STILL = """
import os, signal
from headtohead.records.run_folder import RunFolder

log = RunFolder.log

def stand_still_at_20(folder, progress, values):
    log(folder, progress, values)
    if progress.step == 20:
        os.kill(os.getpid(), signal.SIGSTOP)

RunFolder.log = stand_still_at_20
"""
"""A training that goes on when the page has shown its first steps."""


@pytest.mark.slow
def test_a_real_training_is_followed_to_its_end(browser: Browser, tmp_path: Path) -> None:
    sizes = ["data.num_train=2000", "data.num_validation=64", "data.num_test=64", "trainer.max_steps=150"]
    settings = ["trainer.log_every=1", "trainer.validate_every=50", "tracking=none", f"output_dir={tmp_path}"]
    command = ["train", "experiment=associative_recall", *sizes, *settings]
    with served(tmp_path) as dashboard:
        job = WarmCommand(command, output=tmp_path / "output", first=STANDS_STILL)
        try:
            visit(browser, dashboard, sel="*", charts="train/loss")
            shown(browser, f"{POINTS} === 20")
            assert browser.run("document.querySelector('.run').dataset.status") == "running"
            job.send_signal(signal.SIGCONT)
            shown(browser, f"{POINTS} > 20")
            shown(browser, "document.querySelector('.run').dataset.status === 'finished'")
            shown(browser, f"{POINTS} === 150")
            assert job.wait(timeout=PATIENCE) == 0
        finally:
            job.kill()
        visit(browser, dashboard, sel="*", tab="maps")
        shown(browser, "[...document.images].some((image) => image.naturalWidth > 100)")
        assert_quiet(browser, dashboard)


def test_who_goes_elsewhere_while_the_first_runs_are_chosen_stays_there(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested, answered = threading.Event(), threading.Event()
    start = LiveRuns.start

    def slow(self: LiveRuns, of: Any) -> list[str]:
        requested.set()
        assert answered.wait(PATIENCE)
        return start(self, of)

    monkeypatch.setattr(LiveRuns, "start", slow)
    written_run(tmp_path)
    with served(tmp_path) as dashboard:
        visit(browser, dashboard)
        assert requested.wait(PATIENCE)
        assert browser.run("document.querySelector('#panel').innerText") == "Reading the runs…"
        browser.run("location.hash = 'sel=*&tab=results'")
        answered.set()
        shown(browser, "document.documentElement.dataset.drawn === 'sel=*&tab=results'")
        assert browser.run("location.hash") == "#sel=*&tab=results"


def test_maps_are_of_every_group_and_runs_without_one_are_named(browser: Browser, tmp_path: Path) -> None:
    for seed in range(20):
        written_run(tmp_path, name="many", seed=seed, status="finished")
    rare = written_run(tmp_path, name="rare", status="finished")
    (rare.attention / "step_1").mkdir(parents=True)
    Image.new("L", (8, 8)).save(rare.attention / "step_1" / "stack.0.mixer.png")
    with served(tmp_path) as dashboard:
        visit(browser, dashboard, sel="*", tab="maps")
        shown(browser, "document.querySelectorAll('.pictures figure').length === 1")
        assert browser.run("document.querySelector('.pictures b').innerText") == "rare · seed 0"
        note = browser.run("document.querySelector('#panel .note').innerText")
        assert note.startswith("Not drawn: many · seed") and note.endswith("12 of 21 runs, as many of each group.")
        assert_quiet(browser, dashboard)


def test_results_stand_beside_what_they_are_compared_with(browser: Browser, tmp_path: Path) -> None:
    for arm, loss in (("rotary", 1.5), ("alibi", 1.0), ("alibi", 1.2)):
        metrics = {"validation": {}, "test": {"loss": loss}}
        written_run(tmp_path, name=arm, seed=int(loss * 10), status="finished", metrics=metrics)
    with served(tmp_path) as dashboard:
        visit(browser, dashboard, sel="*", tab="results", columns="run,test%252Floss", base="rotary", by="test%2Floss")
        shown(browser, "document.querySelectorAll('.results tbody tr').length === 3")
        rows = "[...document.querySelectorAll('.results tbody tr')].map((row) => row.innerText.split(/\\s+/).join(' '))"
        assert browser.run(rows) == ["rotary 1.500", "alibi 1 −0.5000", "alibi 1.200 −0.3000"]
        assert browser.run("document.querySelector('#base').value") == "rotary"
        assert_quiet(browser, dashboard)

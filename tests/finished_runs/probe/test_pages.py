"""Pages as a browser shows them: nothing asked of any other place, nothing said on the console, and what one does to
them has its effect."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from browser import CHROMIUM, Browser
from fresh_runs import ROWS, fresh_run
from headtohead.comparison.report.page import as_script
from headtohead.finished_runs.finished_run import FinishedRun
from headtohead.finished_runs.probe.attention_page import attention_content
from headtohead.finished_runs.probe.attention_probe import Attention, attention_of
from headtohead.finished_runs.probe.data_seen import see
from headtohead.finished_runs.probe.position_encodings import fresh_model, position_encodings
from headtohead.finished_runs.probe.probe_files import page, write_attention, write_data, write_page, write_positions
from headtohead.finished_runs.probe.probe_input import of_rows, of_text

NASTY = "</script><script>document.title='caught'</script> <b>&amp; \"'\u2028\n\t<!-- {{script}}"


def needs_a_browser(test: Callable[..., None]) -> Callable[..., None]:
    return pytest.mark.process(pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")(test))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(made / "cache"))
        yield made


@pytest.fixture(scope="module")
def run(folder: Path) -> FinishedRun:
    """A decoder of bytes, trained on a text that holds markup."""
    text = folder / "nasty.txt"
    text.write_text(NASTY * 40, encoding="utf-8")
    return fresh_run(
        folder,
        "data=text",
        f"data.path={text}",
        "data.tokenizer=byte",
        "data.context_length=48",
        "name='a </script> name'",
    )


@pytest.fixture(scope="module")
def attention(run: FinishedRun) -> Attention:
    return attention_of(run, of_text(run, "a <b>&</script>\n ok"))


@pytest.fixture(scope="module")
def translated(folder: Path) -> Path:
    """The page of an encoder-decoder, of two rows that differ in length."""
    run = fresh_run(folder, "model=encoder_decoder", "task=seq2seq", "data=number_words", *ROWS)
    return write_attention(run, attention_of(run, of_rows(run, "test", [0, 1])), folder / "translated")[-1]


@pytest.fixture(scope="module")
def browser(folder: Path) -> Iterator[Browser]:
    with Browser(folder / "profile") as opened:
        yield opened


def test_content_is_safe_within_a_script_and_comes_back_unchanged() -> None:
    content = {"text": NASTY, "list": [None, 1.5, "\ud800"]}
    written = as_script(content)
    assert not {"<", ">", "&", "\u2028"} & set(written)
    assert json.loads(written) == content


def test_page_holds_all_that_it_needs_and_forbids_the_rest() -> None:
    made = page("attention", NASTY, {"title": NASTY})
    assert "default-src 'none'" in made
    assert made.count("</script>") == 2 and made.count("<script") == 2
    assert "{{" not in made.replace("{{script}}", "", 2)  # the title's and the content's own
    assert "src=" not in made.split("</style>")[0] and "http://" not in made.replace("http://www.w3.org/2000/svg", "")


def test_long_samples_are_cut_and_the_page_says_so(run: FinishedRun, attention: Attention) -> None:
    length = attention.maps[0].weights.shape[-1]
    content = attention_content(run, attention, most_cells=2 * 2 * 2 * 6 * 6)
    [layer] = content["kinds"][0]["layers"][:1]
    assert layer["maps"][0]["rows"] == layer["maps"][0]["columns"] == 6
    assert len(content["samples"][0]["sides"]["tokens"]) == 6
    assert f"first 6 of {length} tokens" in content["notes"][-1]


@needs_a_browser
def test_hovering_reads_query_key_and_weight(
    run: FinishedRun, attention: Attention, folder: Path, browser: Browser
) -> None:
    browser.open(write_attention(run, attention, folder / "hover")[-1])
    _hover(browser, row=9, column=2)
    weight = float(attention.maps[0].weights[0, 0, 9, 2])
    labels = attention.pairs[0].queries[0]
    assert float(browser.run("document.getElementById('weight').textContent")) == pytest.approx(weight, abs=1e-3)
    assert browser.run("document.getElementById('query').textContent") == labels[9]
    assert browser.run("document.getElementById('key').textContent") == labels[2]
    message = browser.run("document.querySelector('.tip').innerText")
    assert f"query 9: {labels[9]}" in message and f"key 2: {labels[2]}" in message
    _hover(browser, row=2, column=9)
    assert "hidden by the causal mask" in browser.run("document.querySelector('.tip').innerText")
    _nothing_amiss(browser)


@needs_a_browser
def test_keys_and_clicks_switch_head_layer_and_mask(
    run: FinishedRun, attention: Attention, folder: Path, browser: Browser
) -> None:
    browser.open(write_attention(run, attention, folder / "keys")[-1])
    assert browser.run("document.querySelector('h2').textContent") == "self-attention, layer 1, head 1"
    browser.key("ArrowRight")
    browser.key("ArrowDown")
    assert browser.run("document.querySelector('h2').textContent") == "self-attention, layer 2, head 2"
    _hover(browser, row=3, column=8)
    assert browser.run("document.getElementById('weight').textContent") == "hidden"
    browser.key("m")
    changed = attention.pairs[1].changed
    assert changed is not None and not changed.causal
    assert float(browser.run("document.getElementById('weight').textContent")) == pytest.approx(
        float(changed.weights[0, 1, 3, 8]), abs=1e-3
    )
    browser.key("ArrowLeft", shift=True)
    assert "key 7" in browser.run("document.querySelector('.pair').innerText")
    browser.click("[data-layer='0'][data-head='1']")
    assert browser.run("document.querySelector('h2').textContent") == "self-attention, layer 1, head 2"
    assert (
        browser.run("document.querySelector('[data-layer=\"0\"][data-head=\"1\"]').getAttribute('aria-pressed')")
        == "true"
    )
    _nothing_amiss(browser)


@needs_a_browser
def test_the_difference_from_before_training_is_shown(run: FinishedRun, folder: Path, browser: Browser) -> None:
    before = ("before training", fresh_model({**run.config, "seed": 99}).eval())
    compared = attention_of(run, of_rows(run, "test", [0]), against=before)
    browser.open(write_attention(run, compared, folder / "before")[-1])
    browser.run("[...document.querySelectorAll('button')].find((one) => one.textContent === 'the difference').click()")
    _hover(browser, row=5, column=2)
    shown = browser.run("document.getElementById('weight').textContent").replace("−", "-")
    assert float(shown) == pytest.approx(float(compared.pairs[0].forms["difference"].weights[0, 0, 5, 2]), abs=1e-3)
    assert browser.run("document.querySelector('.bar span').textContent").startswith("−"), "both sides of zero"
    assert browser.run("document.querySelector('.figures').innerText.includes('change of the head')")
    _nothing_amiss(browser)


@needs_a_browser
def test_tokens_that_look_like_markup_stay_text(run: FinishedRun, folder: Path, browser: Browser) -> None:
    attention = attention_of(run, of_text(run, NASTY[:46]))
    browser.open(write_attention(run, attention, folder / "nasty")[-1])
    shown = browser.run("Array.from(document.querySelectorAll('.heat-left span'), (node) => node.textContent)")
    assert shown == attention.pairs[0].queries[0]
    assert "caught" not in browser.run("document.title") and browser.run("document.querySelectorAll('b').length") > 0
    _nothing_amiss(browser)


@needs_a_browser
def test_kinds_and_samples_can_be_switched(translated: Path, browser: Browser) -> None:
    browser.open(translated)
    for kind in ("encoder self-attention", "decoder self-attention", "cross-attention"):
        assert browser.run("document.querySelector('h2').textContent").startswith(kind)
        browser.key("k")
    browser.run(
        "const select = document.querySelector('select'); select.selectedIndex = 1; "
        "select.dispatchEvent(new Event('change'))"
    )
    browser.wait_until_idle()
    assert browser.run("state.sample") == 1
    _nothing_amiss(browser)


@needs_a_browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_no_page_is_wider_than_its_window(
    dark: bool, run: FinishedRun, attention: Attention, translated: Path, folder: Path, browser: Browser
) -> None:
    """Pages with many tokens fit a telephone and a wide screen."""
    pages = [translated, *_other_pages(folder, run), write_attention(run, attention, folder / "narrow")[-1]]
    for file in pages:
        browser.open(file)
        browser.run("for (const option of document.querySelectorAll('option')) option.append(' and so on'.repeat(20))")
        for width in (390, 1500):
            browser.look(width=width, height=800, dark=dark)
            assert browser.run("document.documentElement.scrollWidth <= innerWidth"), file
            cut = "[...document.querySelectorAll('.tiles')].some((one) => one.scrollHeight > one.clientHeight)"
            assert width > 390 or not browser.run(cut), file
            assert browser.run("document.documentElement.dataset.theme") == ("dark" if dark else "light")
        _nothing_amiss(browser)


def _other_pages(folder: Path, run: FinishedRun) -> list[Path]:
    hundred = write_attention(run, attention_of(run, of_text(run, "x" * 47)), folder / "hundred")[-1]
    seen = write_data(see(run.data, run.task, 0), run.config, folder / "data")[-1]
    positions = write_positions(position_encodings(run.model, 48), run.config, folder / "positions")[-1]
    empty = write_page(
        folder, "positions", {"title": NASTY, "facts": [("run", NASTY)], "notes": [NASTY], "encodings": []}
    )
    return [hundred, seen, positions, empty]


def _hover(browser: Browser, *, row: int, column: int) -> None:
    x, y = browser.run(
        "(() => { const box = document.querySelector('.heat-cells canvas').getBoundingClientRect(); "
        "const { rows, columns } = mapsOf(); "
        f"return [box.x + ({column} + 0.5) * box.width / columns, box.y + ({row} + 0.5) * box.height / rows]; }})()"
    )
    browser.point(x, y)


def _nothing_amiss(browser: Browser) -> None:
    assert browser.trouble == []
    outside = [address for address in browser.requests if not address.startswith(("file:", "data:"))]
    assert outside == []
    assert sum(address.startswith("file:") for address in browser.requests) == 1

"""Take the pictures of pages that the documents show: `make demo`, then `make pictures`."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from browser import Browser
from headtohead.comparison.dashboard.server import Dashboard
from served_runs import served, shown

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
_CHARTS = "charts=validation%2Floss,train%2Floss,validation%2Fbits_per_byte,train%2Flearning_rate"
_WIDTH, _HEIGHT = 1280, 800
_REPORT_WIDTH = 1040
"""Pixels of a window in which a report's first screen is read in a document's column, too."""
_IS_DRAWN = "document.querySelectorAll('.figure svg').length === document.querySelectorAll('.figure').length"
_HIDE_SCROLLBARS = """document.head.append(Object.assign(document.createElement("style"),
    { textContent: "* { scrollbar-width: none !important }" }))"""
DASHBOARD = {
    "dashboard_curves": (f"sel=*&{_CHARTS}", f"document.querySelector('.figure svg') && {_IS_DRAWN}"),
    "dashboard_beside": ("sel=*&tab=beside", "[...document.images].some((image) => image.naturalWidth > 0)"),
    "dashboard_study": ("view=studies", "document.querySelector('.cell') !== null"),
}
"""The views by the names of their pictures, and what is true once each is drawn."""
_ENDS = {
    "dashboard_curves": "document.querySelector('#panel')",
    "dashboard_study": "document.querySelector('.studies')",
    "demo_report": "document.querySelector('#verdict')",
}
"""The part of the page that a picture shows whole, with nothing cut off and no empty page below it."""


def take(root: Path, folder: Path) -> None:
    """Take every picture of the pages over the runs of `root`."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as profile, Browser(Path(profile), width=_WIDTH, height=_HEIGHT) as browser:
        with served(root) as dashboard:
            for name, (view, is_drawn) in DASHBOARD.items():
                browser.look(width=_WIDTH, height=_HEIGHT)
                _visit(browser, dashboard, view)
                shown(browser, f"Boolean({is_drawn})")
                _picture(browser, folder / f"{name}.png", width=_WIDTH)
        for report in sorted(root.glob("studies/demo/report.html")):
            browser.look(width=_REPORT_WIDTH, height=_HEIGHT)
            browser.open(report)
            shown(browser, "document.documentElement.dataset.drawn === 'true'")
            _picture(browser, folder / "demo_report.png", width=_REPORT_WIDTH)


def _picture(browser: Browser, file: Path, *, width: int) -> None:
    """Save what the window shows, as high as the part that is to be seen and without the window's scrollbars."""
    browser.run(_HIDE_SCROLLBARS)
    if part := _ENDS.get(file.stem):
        height = browser.run(f"Math.ceil({part}.getBoundingClientRect().bottom + scrollY) + 16")
        browser.look(width=width, height=height)
    browser.wait_until_idle()
    browser.screenshot(file)


def _visit(browser: Browser, dashboard: Dashboard, view: str) -> None:
    browser.open("about:blank")
    browser.open(f"{dashboard.address}#{view}")


if __name__ == "__main__":
    taken = argparse.ArgumentParser(description=__doc__)
    taken.add_argument("--runs", type=Path, default=Path("outputs"))
    taken.add_argument("--out", type=Path, default=PICTURES)
    options = taken.parse_args()
    take(options.runs, options.out)

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
_IS_DRAWN = "document.querySelectorAll('.figure svg').length === document.querySelectorAll('.figure').length"
DASHBOARD = {
    "dashboard_curves": (f"sel=*&{_CHARTS}", f"document.querySelector('.figure svg') && {_IS_DRAWN}"),
    "dashboard_beside": ("sel=*&tab=beside", "[...document.images].some((image) => image.naturalWidth > 0)"),
    "dashboard_study": ("view=studies", "document.querySelector('.cell') !== null"),
}
"""The views by the names of their pictures, and what is true once each is drawn."""


def take(root: Path, folder: Path) -> None:
    """Take every picture of the pages over the runs of `root`."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as profile, Browser(Path(profile), width=1280, height=800) as browser:
        browser.look(width=1280, height=800)
        with served(root) as dashboard:
            for name, (view, is_drawn) in DASHBOARD.items():
                _visit(browser, dashboard, view)
                shown(browser, f"Boolean({is_drawn})")
                browser.wait_until_idle()
                browser.screenshot(folder / f"{name}.png")
        for report in sorted(root.glob("studies/demo/report.html")):
            browser.open(report)
            shown(browser, "document.documentElement.dataset.drawn === 'true'")
            browser.screenshot(folder / "demo_report.png")


def _visit(browser: Browser, dashboard: Dashboard, view: str) -> None:
    browser.open("about:blank")
    browser.open(f"{dashboard.address}#{view}")


if __name__ == "__main__":
    taken = argparse.ArgumentParser(description=__doc__)
    taken.add_argument("--runs", type=Path, default=Path("outputs"))
    taken.add_argument("--out", type=Path, default=PICTURES)
    options = taken.parse_args()
    take(options.runs, options.out)

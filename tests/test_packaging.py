"""The installed package is complete: a page without its styles would show only to people who have no checkout."""

from __future__ import annotations

from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[1]


def test_the_wheel_holds_every_page_style_and_configuration_of_the_checkout() -> None:
    packed = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    source, conf = ROOT / "src", ROOT / "conf"
    expected = {str(file.relative_to(source)) for file in source.rglob("*") if _is_ours(file)}
    expected |= {f"headtohead/conf/{file.relative_to(conf)}" for file in conf.rglob("*") if _is_ours(file)}
    assert sorted(expected - packed) == []
    pages = (
        "report/files/report.css",
        "report/files/report.html",
        "dashboard/pages/app.js",
        "theme.css",
        "page_kit.js",
    )
    assert {"headtohead/py.typed", *(f"headtohead/comparison/{page}" for page in pages)} <= packed


def _is_ours(file: Path) -> bool:
    return file.is_file() and "__pycache__" not in file.parts and not file.name.startswith(".")

"""The page of choices is what its program writes now."""

from __future__ import annotations

import importlib.util
from pathlib import Path

PROGRAM = Path(__file__).parents[1] / "docs" / "catalogue.py"


def test_the_page_of_choices_is_current() -> None:
    spec = importlib.util.spec_from_file_location("catalogue", PROGRAM)
    assert spec is not None and spec.loader is not None
    catalogue = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(catalogue)
    assert catalogue.PAGE.read_text(encoding="utf-8") == catalogue.page(), "make choices writes it again"

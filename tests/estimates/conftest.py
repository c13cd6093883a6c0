"""Meters of this folder look through every object that Python knows, again and again."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True, scope="module")
def leave_out_what_earlier_tests_made() -> None:
    """Take what other files of tests left behind from the objects that a meter looks through: none of it is a step's,
    and after thousands of tests it took longer than the step."""
    gc.collect()
    gc.freeze()

"""The stages that metrics are of: validation, test, and test_2x, test_4x ... for longer rows than those of training."""

from __future__ import annotations

import re

TEST = "test"
_LONGER = re.compile(r"test_([2-9]|[1-9]\d+)x")


def stage_at(multiple: int) -> str:
    """Of a test whose rows are so many times as long as those of training; once as long is the test itself."""
    return TEST if multiple == 1 else f"{TEST}_{multiple}x"


def multiple_of(stage: str) -> int | None:
    """The other way round; None for what is no test."""
    if stage == TEST:
        return 1
    found = _LONGER.fullmatch(stage)
    return int(found[1]) if found else None

"""The processor's name tells machines apart whose times are not comparable."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.components import processor
from headtohead.components.processor import cpu_name

ZEN_4 = {"model name": "AMD EPYC", "cpu family": "25", "model": "17"}


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        (ZEN_4, "AMD EPYC, family 25, model 17"),
        ({**ZEN_4, "model": "1"}, "AMD EPYC, family 25, model 1"),
        ({**ZEN_4, "model name": "AMD EPYC 9554 64-Core Processor"}, "AMD EPYC 9554 64-Core Processor"),
        ({"model name": "Neoverse"}, "Neoverse"),
    ],
)
def test_a_processor_that_hides_its_number_has_the_name_of_its_generation(
    lines: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "_cpu_line", lambda field: lines.get(field, ""))
    assert cpu_name.__wrapped__() == name


def test_a_line_is_the_one_of_that_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """`model` is not `model name`, whichever comes first."""
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "model name\t: AMD EPYC\nmodel\t\t: 17\n")
    assert processor._cpu_line("model") == "17"

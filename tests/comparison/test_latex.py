"""LaTeX takes every table that we write for it, whatever letters stand in it; skipped where there is no TeX."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from comparison.test_comparison_formats import NASTY, record
from headtohead.comparison.arms import short_names
from headtohead.comparison.comparability import NotComparable
from headtohead.comparison.comparison import Comparison, comparison_of
from headtohead.comparison.contrasts import ComparisonSpec
from headtohead.comparison.tables.comparison_formats import comparison_latex, escaped
from headtohead.comparison.task_comparison import compared

NAMES = ("gpt", NASTY, "[a]1", "naïve-café", "w16+linear_attention", "λ→∞ 语言 🦙", '"quoted" <b>`x`', "a|b--c", "-5")
LETTERS = [
    chr(code) for start, end in ((0x20, 0x600), (0x1E00, 0x2300), (0x4E00, 0x4E20)) for code in range(start, end)
]
DOCUMENT = r"""\documentclass[landscape]{article}
\usepackage{booktabs}
\usepackage[margin=1cm]{geometry}
\begin{document}
\scriptsize
%s
\end{document}
"""

NO_TEX = shutil.which("pdflatex") is None


def compiled(content: str, folder: Path) -> str:
    """Return the messages of pdflatex, which must end with a page."""
    (folder / "table.tex").write_text(DOCUMENT % content, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace")
    assert result.returncode == 0, result.stdout[-2000:]
    return result.stdout


@pytest.mark.process
@pytest.mark.skipif(NO_TEX, reason="there is no pdflatex")
def test_a_comparison_is_a_page(tmp_path: Path) -> None:
    results = [
        record(name, seed, 2.0 + arm / 7 + seed / 100, 1000 + arm, 1e9)
        for arm, name in enumerate(NAMES)
        for seed in range(4)
    ]
    message = compiled(comparison_latex(comparison_of(results, ComparisonSpec("gpt"))), tmp_path)
    assert "(1 page" in message and "Overfull" not in message


LONG = "decoder_only-tiny-no_probe-grammar_lm-{}-num_train256-num_validation32"
ARMS = [
    ["lr0.0001-d_model16", "lr0.001-d_model16", "lr0.001-d_model32"],
    ["lr0.1", "lr0.1-d_model8"],
    ["a", "a-a", "a-a-a"],
    ["num_train256", "b"],
]


@pytest.mark.parametrize("arms", ARMS)
def test_long_names_stand_in_rows_without_what_all_share_and_name_the_baseline(arms: list[str]) -> None:
    names = [LONG.format(arm) for arm in arms]
    short = list(short_names(names).values())
    assert len(set(short)) == len(names) and all(short)
    assert all(len(left) < len(name) and left in name for left, name in zip(short, names, strict=True))
    results = [record(name, seed, 2.0 + arm, 1000, 1e9) for arm, name in enumerate(names) for seed in range(3)]
    by_short, by_name = (compared(results, ComparisonSpec(against)) for against in (short[1], names[1]))
    assert isinstance(by_short, Comparison) and isinstance(by_name, Comparison)
    assert comparison_latex(by_short) == comparison_latex(by_name)
    table = comparison_latex(by_name).partition(r"\begin{tabular}")[2]
    assert all(name.partition("-lr")[0] not in table for name in names)
    with pytest.raises(NotComparable, match=f"choose among {', '.join(sorted(short))}$"):
        compared(results, ComparisonSpec("none"))


def test_short_names_stay_as_they_are() -> None:
    assert short_names(["wide-a", "wide-b"]) == {"wide-a": "wide-a", "wide-b": "wide-b"}
    assert short_names([LONG]) == {LONG: LONG}


@pytest.mark.process
@pytest.mark.skipif(NO_TEX, reason="there is no pdflatex")
def test_every_letter_is_set_or_told_by_its_number(tmp_path: Path) -> None:
    compiled("\n".join(f"{ord(letter):X}: {escaped(f'a{letter}')}\n" for letter in LETTERS), tmp_path)


@pytest.mark.parametrize(
    ("text", "latex"),
    [("λ=0.1", r"$\lambda$=0.1"), ("naïve", "naïve"), ("语言", "U+8BEDU+8A00"), ("ﬁt", "fit"), ("Ząb", "Zab")],
)
def test_letters_that_fonts_lack_are_written_otherwise(text: str, latex: str) -> None:
    assert escaped(text) == latex

"""LaTeX takes every table that we write for it, whatever letters stand in it; skipped where there is no TeX."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from comparison.test_comparison_formats import NASTY, record
from headtohead.comparison.comparison import comparison_of
from headtohead.comparison.contrasts import ComparisonSpec
from headtohead.comparison.tables.comparison_formats import comparison_latex, escaped

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

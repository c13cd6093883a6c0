"""LaTeX takes every table that we write for it, whatever letters stand in it, and a paper's column holds it.

Skipped where there is no TeX (Debian: texlive-latex-recommended).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest

from comparison.test_comparison_formats import NASTY, record
from headtohead.comparison.arms import short_names
from headtohead.comparison.comparability import NotComparable
from headtohead.comparison.comparison import Comparison, comparison_of
from headtohead.comparison.contrasts import ComparisonSpec
from headtohead.comparison.tables.latex_tables import comparison_latex, escaped
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


def compiled(content: str, folder: Path, document: str = DOCUMENT) -> str:
    """Return the messages of pdflatex, which must end with a page."""
    (folder / "table.tex").write_text(document % content, encoding="utf-8")
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


PAPER = DOCUMENT.replace("[landscape]", "").replace("[margin=1cm]", "[textwidth=397pt]").replace("\\scriptsize\n", "")
"""A column of text as wide as NeurIPS and ICLR have it."""


@pytest.mark.process
@pytest.mark.skipif(NO_TEX, reason="there is no pdflatex")
@pytest.mark.parametrize("costs_differ", [False, True])
def test_a_comparison_fits_the_column_of_a_paper(tmp_path: Path, costs_differ: bool) -> None:
    names = ("attention", "gated_delta", "linear_attention_in_windows", "hyena")
    results = [
        record(
            name,
            seed,
            2.0 + arm / 7 + seed * (-1) ** arm / 100,
            1_234_567 + costs_differ * arm,
            1e12 * (1 + costs_differ * arm),
        )
        for arm, name in enumerate(names)
        for seed in range(5)
    ]
    table = comparison_latex(comparison_of(results, ComparisonSpec("attention")))
    assert table.count(r"\begin{tabular}") == 1 + costs_differ and ("1 T FLOPs" in table) is not costs_differ
    message = compiled(table, tmp_path, document=PAPER)
    assert "(1 page" in message and "Overfull" not in message and "undefined" not in message


def test_a_caption_says_what_p_and_equivalent_mean() -> None:
    results = [
        record(name, seed, 2.0 + seed * sign / 900, 1, 1) for name, sign in (("a", 1), ("b", -1)) for seed in range(5)
    ]
    results += [record("c", seed, 3.0 + seed / 900, 1, 1) for seed in range(5)]
    caption = comparison_latex(comparison_of(results, ComparisonSpec("a", margin=0.05))).partition("caption{")[2]
    assert "$p$ of the difference after " in caption and "equivalent: within 0.050 of it" in caption
    apart = comparison_latex(comparison_of(results, ComparisonSpec("c", margin=0.05)))
    assert "equivalent" not in apart.partition("caption{")[2]


def test_a_column_has_as_many_decimals_as_its_narrowest_interval_needs() -> None:
    results = [record("a", seed, 0.8 + seed / 1e5, 1, 1) for seed in range(5)]
    results += [record("b", seed, 0.8004 + seed / 1e5, 1, 1) for seed in range(5)]
    rows = [
        line for line in comparison_latex(comparison_of(results, ComparisonSpec("a"))).splitlines() if " & " in line
    ]
    figures = [re.findall(r"\d\.(\d+)", cell) for line in rows[1:] for cell in line.split(" & ")[1:5]]
    assert {len(decimals) for cell in figures[:4] for decimals in cell} == {5}
    assert {len(decimals) for cell in figures[4:6] for decimals in cell} == {5}


def columns(losses: dict[str, list[float]]) -> list[list[str]]:
    """Return the columns of the table of results of arms with such losses by seed, without heads and signs."""
    results = [record(name, seed, loss, 1, 1) for name, seeds in losses.items() for seed, loss in enumerate(seeds)]
    table = comparison_latex(comparison_of(results, ComparisonSpec(next(iter(losses)))))
    rows = [
        line.removesuffix(r" \\").split(" & ") for line in table.partition(r"\midrule")[2].splitlines() if " & " in line
    ]
    return [
        [re.sub(r"[${}]|\\scriptsize |\\textbf", "", cell) for cell in column] for column in zip(*rows, strict=True)
    ]


@pytest.mark.parametrize(
    ("losses", "means", "differences"),
    [
        ((1.00012, 1.00034, 1.05), ["1.00012", "1.00034", "1.05000"], ["", "0.00022", "0.04988"]),
        ((0.0004, 0.5, 0.0006), ["0.00040", "0.50000", "0.00060"], ["", "0.49960", "0.00020"]),
        ((2.0, 2.5, 3.0), ["2.000", "2.500", "3.000"], ["", "0.500", "1.000"]),
        ((2e-9, 2.5, 3.0), ["2e-09", "2.500", "3.000"], ["", "2.500", "3.000"]),
        ((12345.0, 12345.4, 12400.0), ["12345.00", "12345.40", "12400.00"], ["", "0.400", "55.000"]),
        ((1.2345e8, 1.5e8), ["1.234e+08", "1.5e+08"], ["", "2.655e+07"]),
    ],
)
def test_a_column_without_intervals_shows_two_figures_of_what_is_smallest_in_it(
    losses: tuple[float, ...], means: list[str], differences: list[str]
) -> None:
    shown = columns({f"a{n}": [loss] for n, loss in enumerate(losses)})
    assert (shown[1], shown[3]) == (means, differences)


def test_values_of_thousands_have_the_decimals_of_their_intervals() -> None:
    shown = columns({"a": [12345.0, 12345.1, 12345.2], "b": [12347.0, 12347.1, 12347.2]})
    assert (shown[1][0], shown[2][0]) == ("12345.1", "[12344.9, 12345.3]")
    shown = columns({"a": [12300.0, 12345.0, 12390.0], "b": [13300.0, 13345.0, 13390.0]})
    assert (shown[1], shown[2][0]) == (["12345", "13345"], "[12233, 12457]")


def test_a_caption_speaks_of_one_seed_and_of_no_p_that_nobody_knows() -> None:
    one, five = (
        comparison_latex(
            comparison_of(
                [
                    record(name, seed, 2.0 + seed * (-1) ** arm, 1, 1)
                    for arm, name in enumerate("ab")
                    for seed in range(seeds)
                ],
                ComparisonSpec("a"),
            )
        )
        for seeds in (1, 5)
    )
    assert "1 seed." in one and "1 parameter," in one and "$p$ of" not in one
    assert "5 seeds." in five and "$p$ of" in five


@pytest.mark.process
@pytest.mark.skipif(NO_TEX, reason="there is no pdflatex")
def test_narrow_intervals_fit_the_column_of_a_paper(tmp_path: Path) -> None:
    names = ("attention", "gated_delta", "linear_attention_in_windows", "hyena")
    tables = []
    for size, spread, apart in product((0.01, 1.0, 12345.0, 9_999_000.0), (1e-7, 1e-6, 1e-4), (0, 1e-5)):
        results = [
            record(name, seed, size * (1 + arm * apart + spread * seed * (-1) ** arm), 1_234_567, 1e12)
            for arm, name in enumerate(names)
            for seed in range(5)
        ]
        tables.append(comparison_latex(comparison_of(results, ComparisonSpec("attention"))))
    assert "Overfull" not in compiled("\n\\clearpage\n".join(tables), tmp_path, document=PAPER)


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

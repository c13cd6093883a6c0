"""What the law of published checkpoints found, as a section of docs/parity.md."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

OUTCOMES: dict[str, Counter[str]] = defaultdict(Counter)
"""By family, how many changes had which outcome in this process."""
OF_FIELDS: dict[tuple[str, str], set[str]] = defaultdict(set)
"""By family and field of config.json, the outcomes of its changes; `moved` where both sides gave other logits."""
_COLUMNS = ("equal", "refused here", "refused there", "differs as said", "different")
_TEXT = """
## Checkpoints with one thing changed

A small checkpoint of each family, as `save_pretrained` writes it, with one field of its config.json or one tensor
changed: another value, sign or type, null, absent, in its older spelling; missing, longer, added, or apart from the one
it is tied to. Both sides read the folder, and logits are compared over rows of 1, 7 and 77 tokens, one of two padded
(bound 5e-5, 32 bits). "Differs as said" is what a line at load says beforehand.

"""

_PADDING = """
Padding may stand anywhere: a row gives at its real tokens what the reference gives for these tokens alone, for every
family and wherever the padding stands (`tests/parity/test_padding_law.py`). Places count from a row's first real token,
as `generate` counts them. Told nothing but the mask, `transformers` counts those of GPT-2, BERT, BigBird and BART from
the row's start instead (give it `position_ids`), lets a gap in the mask count as tokens that are hidden, and RWKV reads
padding as text.
"""

_SILENT = """Fields of which no change by itself moves an output, in any family that has them (some stand behind
another field, as `rope_theta` behind `rope_parameters`)"""


def section(outcomes: Mapping[str, Counter[str]], of_fields: Mapping[tuple[str, str], set[str]]) -> str:
    """Return the table by family, and the fields of which no change was refused here or changed an output."""
    head = ["family", "tried", *_COLUMNS]
    rows = [[kind, str(found.total()), *(str(found[name]) for name in _COLUMNS)] for kind, found in outcomes.items()]
    whole: Counter[str] = sum(outcomes.values(), Counter())
    rows.append(["all", str(whole.total()), *(str(whole[name]) for name in _COLUMNS)])
    lines = [_row(head), _row(["---"] * len(head)), *map(_row, rows)]
    silent = ", ".join(f"`{name}`" for name in silent_fields(of_fields))
    return _TEXT + "\n".join(lines) + f"\n\n{_SILENT}: {silent}.\n{_PADDING}"


def silent_fields(of_fields: Mapping[tuple[str, str], set[str]]) -> list[str]:
    """Return the fields whose changes left every output as it was, or were refused by the reference."""
    found: dict[str, set[str]] = defaultdict(set)
    for (_, field), outcomes in of_fields.items():
        found[field] |= outcomes
    return sorted(field for field, outcomes in found.items() if "equal" in outcomes <= {"equal", "refused there"})


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"

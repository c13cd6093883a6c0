"""The results of the law of published checkpoints are written here as a section of docs/parity.md."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

OUTCOMES: dict[str, Counter[str]] = defaultdict(Counter)
"""The outcomes by family: how many changes had which outcome in this process."""
OF_FIELDS: dict[tuple[str, str], set[str]] = defaultdict(set)
"""The outcomes of changes by family and field of config.json; `moved` where both sides gave other logits."""
_COLUMNS = ("equal", "refused here", "refused there", "differs as said", "different")
_TEXT = """
## Checkpoints with one thing changed

For each family, `save_pretrained` writes a small checkpoint, in which we change one field of config.json or one
tensor: fields get another value, sign or type, become null, disappear, or use an older spelling; tensors are
missing, longer, added, or untied. Both implementations load the folder, and we compare logits over rows of 1, 7 and
77 tokens, one of two padded (bound 5e-5, 32 bits). "Differs as said" counts the cases in which a line at load
announces the difference.

"""

_PADDING = """
Padding may be anywhere in a row: in every family the outputs at a row's real tokens are those that the reference has
for these tokens alone (`tests/parity/test_padding_law.py`). Positions count from a row's first real token, as in
`generate`. If `transformers` gets only the mask, GPT-2, BERT, BigBird and BART count positions from the start of the
row (give them `position_ids`), gaps in the mask count as hidden tokens, and RWKV and FNet read padding as text.
"""

_SILENT = """Changing one of these fields alone changes no output in any family that has them (some are overridden by
another field, as `rope_theta` by `rope_parameters`)"""


def section(outcomes: Mapping[str, Counter[str]], of_fields: Mapping[tuple[str, str], set[str]]) -> str:
    """Return the table by family, and the fields of which no change was refused here or changed an output."""
    head = ["family", "tried", *_COLUMNS]
    rows = [[kind, str(result.total()), *(str(result[name]) for name in _COLUMNS)] for kind, result in outcomes.items()]
    whole: Counter[str] = sum(outcomes.values(), Counter())
    rows.append(["all", str(whole.total()), *(str(whole[name]) for name in _COLUMNS)])
    lines = [_row(head), _row(["---"] * len(head)), *map(_row, rows)]
    silent = ", ".join(f"`{name}`" for name in silent_fields(of_fields))
    return _TEXT + "\n".join(lines) + f"\n\n{_SILENT}: {silent}.\n{_PADDING}"


def silent_fields(of_fields: Mapping[tuple[str, str], set[str]]) -> list[str]:
    """Return the fields whose changes left every output as it was, or were refused by the reference."""
    result: dict[str, set[str]] = defaultdict(set)
    for (_, field), outcomes in of_fields.items():
        result[field] |= outcomes
    return sorted(field for field, outcomes in result.items() if "equal" in outcomes <= {"equal", "refused there"})


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"

"""The kinds of what a record holds in fields that are open to more: a record that somebody else wrote may have anything
there, and whoever reads it counts on these."""

from __future__ import annotations

from collections.abc import Mapping

from headtohead.records.strict_json import RecordError, decode

_Object = dict[str, object]
_Shares = dict[str, float]
KINDS: Mapping[str, object] = {
    "config.model": _Object,
    "config.data": _Object,
    "config.task": _Object,
    "config.trainer": _Object,
    "config.optimizer": _Object,
    "config.tracking": _Object,
    "config.choices": _Object | None,
    "costs.totals": dict[str, float | None],
    "data.tokenizer": str,
    "data.vocab_size": int,
    "data.max_length": int | None,
    "data.bytes_per_token": _Shares,
    "data.unknown_share": _Shares,
    "data.cut_share": _Shares,
    "data.train_rows": int,
    "data.classes": list[str],
    "data.validation_texts": str | None,
    "data.leaks": _Object,
    "data.leaks.unit": str,
    "data.leaks.test": dict[str, int],
    "data.leaks.validation": dict[str, int],
    "data.leaks.expected": _Shares,
    "data.left_out": _Object,
    "data.left_out.rows": int,
    "data.left_out.of": int,
    "data.left_out.without": dict[str, int],
    "environment.device.kernels": dict[str, str] | None,
}
"""The annotation of each such field that is there."""
_COUNTS = ("rows", "in_train", "exactly")
NEEDS: Mapping[str, tuple[str, ...]] = {
    "data.vocab_size": ("data.tokenizer",),
    "data.cut_share": ("data.max_length",),
    "data.leaks": (
        "data.leaks.unit",
        *(f"data.leaks.{split}.{name}" for split in ("validation", "test") for name in _COUNTS),
    ),
    "data.leaks.expected": ("data.leaks.expected.validation", "data.leaks.expected.test"),
    "data.left_out": ("data.left_out.rows", "data.left_out.of", "data.left_out.without"),
}
"""The fields without which one tells nothing."""
_MISSING = object()


def check_open_fields(data: Mapping[str, object], where: str) -> None:
    """Raise RecordError for the first field of another kind, or that lacks what belongs to it."""
    for field, kind in KINDS.items():
        value = _at(data, field)
        if value is _MISSING:
            continue
        decode(kind, value, f"{where}.{field}")
    for field, others in NEEDS.items():
        if _at(data, field) in (_MISSING, {}):
            continue
        if missing := [one for one in others if _at(data, one) is _MISSING]:
            raise RecordError(f"{where}.{field}: missing {', '.join(missing)}")


def _at(data: Mapping[str, object], field: str) -> object:
    node: object = data
    for name in field.split("."):
        node = node.get(name, _MISSING) if isinstance(node, Mapping) else _MISSING
    return node

"""Whether records may be compared at all: what they measured, on which tokens, what their loss is a mean over, and
what was held equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from headtohead.comparing.readings import (
    instead,
    is_of_texts,
    is_per_byte,
    read_in_part,
    read_the_same,
    selected_apart,
    selected_by,
    told_apart,
)
from headtohead.errors import UsageError
from headtohead.tracking.record import Comparability, RunRecord

ALIKE: Mapping[str, str] = {
    "loss_normalisation": "loss normalisation",
    "budget": "budget",
    "tokenizer": "tokenizer",
    "evaluation": "evaluation data",
}
"""What comparable runs share, by the name that allows them to be unlike."""
_BUDGET = ("budget",)
_FEW = 4
"""Runs that are named one by one."""
_Found = tuple[RunRecord, str | None]
"""What a run has; two studies may hold runs of one id."""
_OF_TOKENS = ("tokenizer", "evaluation")
"""What a tokenizer changes of the same texts."""
_SHARED_BY_A_SEED = _OF_TOKENS
"""A seed may draw the data: it is the same in every arm, and may be another for the next seed."""


class NotComparable(UsageError):  # noqa: N818
    """Says what differs, and which run is the odd one out."""


def refuse_unlike(
    records: Iterable[RunRecord], *, allowed: Collection[str] = (), metric: str | None = None
) -> list[str]:
    """Raises NotComparable at the first difference that would make a comparison meaningless.

    By a `metric` of texts, bits_per_byte, runs may differ in their tokenizers as long as their texts are the same; None
    is the metric that they were selected by. `allowed` names the differences that were asked for; what they are comes
    back, a sentence each. So does word of runs of which nothing is known, since another program made them.
    """
    given = list(records)
    _check_allowed(allowed)
    known = [record for record in given if record.comparability != Comparability()]
    told = list(_unknown(given, known))
    compared_by = metric or selected_by(known)
    for name in _BUDGET if measured_apart(known, metric) else ALIKE:
        for group in _groups(known, name):
            found = [(record, _value(record, name)) for record in group]
            if len({value for _, value in found}) < 2:
                continue
            if is_of_texts(compared_by, group) and name in _OF_TOKENS and read_the_same(group, compared_by):
                in_part = "" if is_per_byte(compared_by) else read_in_part(group)
                remarks = [told_apart(group), selected_apart(group), in_part]
                told += [remark for remark in remarks if remark and remark not in told]
                continue
            sentence = _sentence(found, ALIKE[name])
            if name not in allowed:
                way_out = instead(group) if name in _OF_TOKENS else ""
                raise NotComparable(f"{sentence}: {way_out}{_way_out(name)}")
            told.append(f"unlike by permission: {sentence}")
            break
    return told


def measured_apart(records: Iterable[RunRecord], metric: str | None) -> bool:
    """Whether all were asked the same after training: what they were trained on does not matter then."""
    stage = (metric or "").partition("/")[0]
    asked = {record.links.get(stage) if stage in record.metrics else None for record in records}
    return len(asked) == 1 and None not in asked


def refuse_other_questions(records: Iterable[RunRecord], stage: str) -> None:
    """Results of a stage that was measured after training are compared where one file's name tells that they answer the
    same: a set of documents and queries has a name of its own."""
    asked: dict[str, RunRecord] = {}
    for record in records:
        if stage in record.metrics and stage in record.links:
            asked.setdefault(record.links[stage], record)
    if len(asked) > 1:
        (first, one), (second, other) = list(asked.items())[:2]
        raise NotComparable(
            f"{stage} of {one.name or one.id} and of {other.name or other.id} was measured on other texts or queries "
            f"({first}, {second}): measure them together, h2h embed RUN RUN TEXTS --queries FILE --relevant FILE"
        )


def seed_of(record: RunRecord) -> int:
    """That of the study, which pairs runs whose own seeds are offset."""
    return record.seed if record.place.seed is None else record.place.seed


def _check_allowed(allowed: Collection[str]) -> None:
    for name in allowed:
        if name not in ALIKE:
            raise NotComparable(f"{name} cannot be allowed to be unlike: choose from {', '.join(sorted(ALIKE))}")


def _unknown(given: Sequence[RunRecord], known: Sequence[RunRecord]) -> Iterator[str]:
    """Where all are foreign, whoever asks knows that; a mixture is worth a word."""
    strangers = sorted({record.place.arm or record.name or record.id for record in given if record not in known})
    if strangers and known:
        yield (
            f"nothing tells whether {', '.join(strangers)} had the tokenizer, evaluation data, loss normalisation "
            "and budget of the other runs"
        )


def _groups(records: Sequence[RunRecord], name: str) -> Iterator[list[RunRecord]]:
    """Those that must share it."""
    if name not in _SHARED_BY_A_SEED:
        yield list(records)
        return
    for seed in sorted({seed_of(record) for record in records}):
        yield [record for record in records if seed_of(record) == seed]


def _value(record: RunRecord, name: str) -> str | None:
    if name == "budget":
        return str(record.budget.get("kind", "none held equal"))
    value: str | None = getattr(record.comparability, name)
    return value


def _sentence(found: Sequence[_Found], told: str) -> str:
    counted = Counter(value for _, value in found).most_common()
    usual, times = counted[0]
    if times == counted[1][1]:
        sides = " and ".join(f"{_named(found, value)} ({value})" for value, _ in counted)
        return f"these runs differ in their {told}: {sides}"
    odd = ", ".join(f"{_named(found, value)} has {value}" for value, _ in counted[1:])
    return f"the odd one out in its {told}: {odd}, the others {usual}"


def _way_out(name: str) -> str:
    return (
        "leave it out, run it like the others, or allow it knowingly "
        f"(--allow-unlike {name}; in a study allow_unlike: [{name}])"
    )


def _named(found: Sequence[_Found], value: str | None) -> str:
    """One by one, or where they are many by arm."""
    named = [record for record, own in found if own == value]
    if len(named) <= _FEW:
        return ", ".join(f"{record.name or record.id} (seed {seed_of(record)})" for record in named)
    arms = Counter(record.place.arm or record.name or record.id for record in named)
    return ", ".join(f"{arm} ({number} run{'' if number == 1 else 's'})" for arm, number in arms.items())

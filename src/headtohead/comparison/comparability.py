"""Decide whether records may be compared at all: what they measured, on which tokens, what their loss is averaged over,
and what was held equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from headtohead.comparison.tokenized_texts import (
    instead,
    is_of_texts,
    is_per_byte,
    read_in_part,
    read_the_same,
    selected_by,
    selected_differently,
    tokenizers_sentence,
)
from headtohead.errors import UsageError
from headtohead.records.record import Comparability, RunRecord

ALIKE: Mapping[str, str] = {
    "loss_normalisation": "loss normalisation",
    "budget": "budget",
    "tokenizer": "tokenizer",
    "evaluation": "evaluation data",
}
"""The conditions that comparable runs share, by the name that allows them to be unlike."""
_BUDGET = ("budget",)
_FEW = 4
"""Runs that are named one by one."""
_Groups = tuple[RunRecord, str | None]
"""A run and what it has; two studies may hold runs of one id."""
_OF_TOKENS = ("tokenizer", "evaluation")
"""The conditions that a tokenizer changes for the same texts."""
_SHARED_BY_A_SEED = _OF_TOKENS
"""A seed may draw the data: it is the same in every arm, and may be another for the next seed."""


class NotComparable(UsageError):  # noqa: N818
    """This error says what differs between runs, and for which of them."""


def refuse_unlike(
    records: Iterable[RunRecord], *, allowed: Collection[str] = (), metric: str | None = None
) -> list[str]:
    """Raises NotComparable at the first difference that would make a comparison meaningless.

    By a `metric` of texts, bits_per_byte, runs may differ in their tokenizers as long as their texts are the same; None
    is the metric that they were selected by. `allowed` names the differences that were requested; what they are comes
    back, a sentence each. So does word of runs of which nothing is known, since another program made them.
    """
    runs = list(records)
    _check_allowed(allowed)
    known = [record for record in runs if record.comparability != Comparability()]
    unknown = list(_unknown(runs, known))
    compared_by = metric or selected_by(known)
    for name in _BUDGET if groups_by_measurement(known, metric) else ALIKE:
        for group in _groups(known, name):
            values = [(record, _value(record, name)) for record in group]
            if len({value for _, value in values}) < 2:
                continue
            if is_of_texts(compared_by, group) and name in _OF_TOKENS and read_the_same(group, compared_by):
                in_part = "" if is_per_byte(compared_by) else read_in_part(group)
                remarks = [tokenizers_sentence(group), selected_differently(group), in_part]
                unknown += [remark for remark in remarks if remark and remark not in unknown]
                continue
            sentence = _sentence(values, ALIKE[name])
            if name not in allowed:
                way_out = instead(group) if name in _OF_TOKENS else ""
                raise NotComparable(f"{sentence}: {way_out}{_hint(name)}")
            unknown.append(f"unlike by permission: {sentence}")
            break
    return unknown


def groups_by_measurement(records: Iterable[RunRecord], metric: str | None) -> bool:
    """Return whether all runs were measured in the same way after training, whatever they were trained on."""
    stage = (metric or "").partition("/")[0]
    files = {record.links.get(stage) if stage in record.metrics else None for record in records}
    return len(files) == 1 and None not in files


def refuse_other_questions(records: Iterable[RunRecord], stage: str) -> None:
    """Results of a stage that was measured after training are compared where one file's name tells that they answer the
    same: a set of documents and queries has a name of its own."""
    by_file: dict[str, RunRecord] = {}
    for record in records:
        if stage in record.metrics and stage in record.links:
            by_file.setdefault(record.links[stage], record)
    if len(by_file) > 1:
        (first, one), (second, other) = list(by_file.items())[:2]
        raise NotComparable(
            f"{stage} of {one.name or one.id} and of {other.name or other.id} was measured on other texts or queries "
            f"({first}, {second}): measure them together, h2h embed RUN RUN TEXTS --queries FILE --relevant FILE"
        )


def seed_of(record: RunRecord) -> int:
    """Return that of the study, which pairs runs whose own seeds are offset."""
    return record.seed if record.place.seed is None else record.place.seed


def _check_allowed(allowed: Collection[str]) -> None:
    for name in allowed:
        if name not in ALIKE:
            raise NotComparable(f"{name} cannot be allowed to be unlike: choose from {', '.join(sorted(ALIKE))}")


def _unknown(runs: Sequence[RunRecord], known: Sequence[RunRecord]) -> Iterator[str]:
    """Report what is unknown if only some records are foreign; if all are, the user knows it."""
    ours = set(map(id, known))
    unknown_arms = sorted({record.arm for record in runs if id(record) not in ours})
    if unknown_arms and known:
        yield (
            f"it is unknown whether {', '.join(unknown_arms)} had the tokenizer, evaluation data, loss normalisation "
            "and budget of the other runs"
        )


def _groups(records: Sequence[RunRecord], name: str) -> Iterator[list[RunRecord]]:
    """Those that must share it."""
    if name not in _SHARED_BY_A_SEED:
        yield list(records)
        return
    by_seed: dict[int, list[RunRecord]] = {}
    for record in records:
        by_seed.setdefault(seed_of(record), []).append(record)
    yield from (by_seed[seed] for seed in sorted(by_seed))


def _value(record: RunRecord, name: str) -> str | None:
    if name == "budget":
        return str(record.budget.get("kind", "none held equal"))
    value: str | None = getattr(record.comparability, name)
    return value


def _sentence(values: Sequence[_Groups], description: str) -> str:
    counted = Counter(value for _, value in values).most_common()
    usual, times = counted[0]
    if times == counted[1][1]:
        sides = " and ".join(f"{_named(values, value)} ({value})" for value, _ in counted)
        return f"these runs differ in their {description}: {sides}"
    odd = ", ".join(f"{_named(values, value)} has {value}" for value, _ in counted[1:])
    return f"not all runs have the same {description}: {odd}, the others {usual}"


def _hint(name: str) -> str:
    return (
        f"leave it out, train it like the others, or allow the difference (--allow-unlike {name}; in a study "
        f"allow_unlike: [{name}])"
    )


def _named(values: Sequence[_Groups], value: str | None) -> str:
    """Return one by one, or where they are many by arm; of many arms, the first and how many more there are."""
    named = [record for record, own in values if own == value]
    if len(named) <= _FEW:
        return ", ".join(f"{record.name or record.id} (seed {seed_of(record)})" for record in named)
    arms = Counter(record.arm for record in named)
    shown = [f"{arm} ({number} run{'' if number == 1 else 's'})" for arm, number in arms.items()]
    more = f" and {len(shown) - _FEW} more arms" if len(shown) > _FEW + 1 else ""
    return ", ".join(shown[:_FEW] if more else shown) + more

"""Decide whether records may be compared at all: what they measured, on which tokens, what their loss is averaged over,
and what was held equal; and what can be compared of runs that read the same texts with different tokenizers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from headtohead.errors import UsageError
from headtohead.metrics.language_modelling import BITS_PER_BYTE
from headtohead.records.record import VALIDATION_TEXTS, Comparability, RunRecord

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


PER_BYTE = BITS_PER_BYTE.name


def read_the_same(records: Sequence[RunRecord], metric: str | None) -> bool:
    """Return whether these runs were measured on the same texts, and on the same rows if their tokenizers are equal."""
    texts = {_measured_on(record, metric) for record in records}
    rows = {(record.comparability.tokenizer, record.comparability.evaluation) for record in records}
    tokenizers = {record.comparability.tokenizer for record in records}
    return len(texts) == 1 and None not in texts and len(tokenizers) > 1 and len(rows) == len(tokenizers)


def _measured_on(record: RunRecord, metric: str | None) -> str | None:
    texts = record.comparability.texts
    return record.data.get(VALIDATION_TEXTS, texts) if _is_of_validation(record, metric) else texts


def _is_of_validation(record: RunRecord, metric: str | None) -> bool:
    """Return whether the metric is one of validation; without a stage it is the test's if the test has it."""
    stage, _, name = (metric or "").rpartition("/")
    return stage == "validation" if stage else name not in record.metrics.get("test", {})


def selected_differently(records: Sequence[RunRecord]) -> str:
    """Empty where the validations that chose the weights of each read the same texts."""
    if not any(VALIDATION_TEXTS in record.data for record in records):
        return ""
    return (
        "the weights of each were selected on other texts: trainer.validation_batches samples rows, and their "
        "tokenizers cut the same texts to other rows; whole validations (null) would be the same for all"
    )


def is_of_texts(metric: str | None, records: Sequence[RunRecord]) -> bool:
    """Return whether no tokenizer changes the metric, which may be named with its stage."""
    measured = [record.metric((metric or "").rpartition("/")[2]) for record in records]
    return bool(measured) and all(one is not None and one.any_tokenizer for one in measured)


def is_per_byte(metric: str | None) -> bool:
    """Such are measured on texts in rows one after another, of which nothing is cut away."""
    return metric is not None and metric.rpartition("/")[2] == PER_BYTE


def selected_by(records: Sequence[RunRecord]) -> str | None:
    """The metric that runs report where none is requested; None where they differ."""
    names = {record.selection.metric for record in records}
    return names.pop() if len(names) == 1 else None


def instead(records: Sequence[RunRecord]) -> str:
    """Return the way out of a comparison that tokenizers forbid, where there is one."""
    measured = all(PER_BYTE in record.metrics.get("test", {}) for record in records)
    if not (measured and read_the_same(records, f"test/{PER_BYTE}")):
        return ""
    return f"compare them by {PER_BYTE}, which no tokenizer changes (--metric test/{PER_BYTE}), or "


def tokenizers_sentence(records: Sequence[RunRecord]) -> str:
    """Describe how each tokenizer reads the test texts."""
    by_tokenizer = {record.comparability.tokenizer: record for record in records}
    readings = sorted(map(_reading, by_tokenizer.values()))
    if len(set(readings)) == 1:
        return f"read by different tokenizers, each {readings[0]}"
    return f"read by different tokenizers: {'; '.join(readings)}"


def read_in_part(records: Sequence[RunRecord]) -> str:
    """Return a remark about measured texts that were cut to a number of tokens, which differ in length between
    tokenizers; empty if none was cut."""
    by_tokenizer = {record.comparability.tokenizer: record for record in records}
    sentences = [(record, how) for record in by_tokenizer.values() if (how := _cutting(record))]
    if not sentences:
        return ""
    sides = "; ".join(sorted(f"{record.arm} {how}" for record, how in sentences))
    whole = sorted(record.arm for record in by_tokenizer.values() if not _cutting(record))
    others = f"; {', '.join(whole)} had each whole" if whole else ""
    return (
        f"these runs read different parts of the texts: {sides}{others}. What is compared is a tokenizer together "
        "with what data.max_length leaves of a text in its tokens"
    )


def _cutting(record: RunRecord) -> str:
    """Describe which of the measured texts were cut; empty if none was."""
    shares = record.data.get("cut_share")
    if shares is None:
        length = (record.config.get("data") or {}).get("max_length")
        return f"may have had texts cut at {length} tokens, which its record does not say" if length else ""
    cut = [f"{shares[name]:.1%} of {name}" for name in ("validation", "test") if shares.get(name)]
    return f"had texts cut at {record.data['max_length']} tokens ({', '.join(cut)})" if cut else ""


def _reading(record: RunRecord) -> str:
    """Records of other programs tell nothing of it."""
    data = record.data
    if "vocab_size" not in data:
        return str(record.comparability.tokenizer)
    text = f"{data['tokenizer']} of {data['vocab_size']} tokens"
    per_token = data.get("bytes_per_token", {}).get("test")
    unknown = data.get("unknown_share", {}).get("test")
    more = [f"{per_token:.2f} bytes per token"] if per_token is not None else []
    more += [f"{unknown:.2%} unknown"] if unknown is not None else []
    more += ["capitals, accents and blanks are not predicted"] if data["tokenizer"] == "wordpiece" else []
    return f"{text} ({', '.join(more)})" if more else text

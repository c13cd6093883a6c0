"""A verdict in one plain sentence."""

from __future__ import annotations

from collections.abc import Iterator

from headtohead.comparison.contrasts import NEITHER_LEARNED, TOO_FEW_SEEDS, Verdict
from headtohead.comparison.metric_words import metric_words

_TESTS = {
    "paired t": "paired t-test",
    "Welch's t": "Welch's t-test",
    "solve rates": "Fisher's exact test",
    "time to solve": "permutation test of times to solve",
    "ranks": "permutation test of ranks",
    "e-process": "e-process of a t mixture",
    "e-process of solve rates": "e-process of solve rates",
}
_EXACT = {"paired t": "exact sign-flip test", "Welch's t": "exact permutation test", "e-process": "one of sign flips"}
OF_WHAT = {
    "solve rates": "in solve rate",
    "e-process of solve rates": "in solve rate",
    "time to solve": "in median time to solve",
}
"""The words, by method, where a difference is not one of the metric's means."""
_USUAL = 0.05
ADJUSTMENTS = {
    None: "",
    "holm": " after Holm's correction",
    "benjamini_hochberg": " after Benjamini and Hochberg's correction",
}


def sentence(verdict: Verdict) -> str:
    """Verdict, size, certainty and what is to be known beside them."""
    opening = f"Exploratory ({'; '.join(verdict.reasons)}): " if verdict.reasons else ""
    runs = dict(zip((verdict.arm, verdict.baseline), verdict.num_seeds, strict=True))
    diverged = [
        f"{f'{count} of {runs[arm]} runs' if runs[arm] > 1 else 'the only run'} of {arm} diverged"
        for arm, count in verdict.failures.items()
        if count
    ]
    parts = [_answer(verdict), *diverged]
    if verdict.kind == "undecided" and not verdict.neither_learned:
        parts += _advice(verdict)
    parts += [*_stop(verdict), *_rows(verdict), *_kernels(verdict)]
    return opening + "; ".join(parts) + "."


def _stop(verdict: Verdict) -> list[str]:
    """Say for a study that adds seeds until it is decided how many there were, and why no more."""
    result = verdict.seed_evidence
    if result is None:
        return []
    number, most = result.stop.num_seeds, result.rounds.most
    if verdict.neither_learned and result.stop.reason == "futile":
        return [f"no seeds were added after {_seeds(number)} of at most {most}"]
    if result.stop.reason == "decided":
        return [f"decided after {_seeds(number)} of at most {most}"]
    if result.stop.reason == "all seeds":
        return [f"all {most} seeds are in"]
    if result.stop.reason == "open":
        return [f"seeds are still being added, up to {most}"]
    return [f"stopped after {_seeds(number)} for futility: {most} are not expected to decide it (chance below 1 in 20)"]


def _rows(verdict: Verdict) -> list[str]:
    """All of it was seen on one test set, which is a sample too."""
    if verdict.num_rows is None:
        return []
    seen = f"on these {verdict.num_rows} test rows"
    if verdict.row_interval is None:
        return [f"{seen}, and what others would say is not known: {verdict.row_refusal}"]
    low, high = verdict.row_interval
    interval = f"{coverage(verdict.level)} interval {_measured(low)} to {_measured(high)} (paired bootstrap)"
    text = f"{seen}; over others like them {interval}"
    wide = verdict.margin is not None and high - low > 2 * verdict.margin
    return [f"{text}, wider than the margin of {_figure(verdict.margin)} to either side" if wide else text]


def _kernels(verdict: Verdict) -> list[str]:
    if not verdict.kernels:
        return []
    computed = [f"{arm} by {' and '.join(kernels) or 'no mixer'}" for arm, kernels in verdict.kernels.items()]
    sentences = [f"{verdict.held_equal} was equal, with {', '.join(computed)}"]
    bound = verdict.implementation_bound
    if bound:
        who, have = " and ".join(bound), "has" if len(bound) == 1 else "have"
        sentences.append(f"implementation-bound, since {who} {have} no fused kernel here")
    return sentences


def _answer(verdict: Verdict) -> str:
    metric = metric_words(verdict.metric)
    subject, apart = f"{verdict.arm} and {verdict.baseline}", f"{_measured(verdict.difference)}{_interval(verdict)}"
    if verdict.kind == "equivalent":
        return (
            f"{subject} are equivalent on {metric}: they differ by {apart}, and by less than the margin of "
            f"{_figure(verdict.margin)} ({_p(verdict.p_equivalent, verdict)}, {_tested_both(verdict)})"
        )
    if verdict.neither_learned:
        return (
            f"{subject} are undecided on {metric}: {NEITHER_LEARNED}, where chance is "
            f"{_figure(verdict.chance)}; {_seen(verdict)}"
        )
    if verdict.withheld:
        return f"{subject} are undecided on {metric}, with {TOO_FEW_SEEDS} ({verdict.withheld}): {_seen(verdict)}"
    if verdict.kind == "undecided":
        return f"{subject} are undecided on {metric}: {_seen(verdict)}"
    return f"{verdict.arm} is {verdict.kind} than {verdict.baseline} on {metric}: {_seen(verdict)}"


def _seen(verdict: Verdict) -> str:
    if verdict.method == "none":
        difference = "" if verdict.difference is None else f"they differ by {_measured(verdict.difference)}, but "
        return f"{difference}{verdict.because}, so there is no test"
    tested = f"{_p(verdict.p_adjusted, verdict)}, {_tested(verdict)}"
    if verdict.solved is not None and verdict.of is not None:
        counts = (
            f"solved by {verdict.solved[0]} of {verdict.of[0]} seeds against {verdict.solved[1]} of {verdict.of[1]}"
        )
        return f"{counts}{_sooner(verdict)} ({tested})"
    if verdict.method == "ranks":
        apart = (
            ""
            if verdict.difference is None
            else f"a difference of {_measured(verdict.difference)} where both finished "
        )
        return f"{apart}({tested})" if apart else f"compared by rank ({tested})"
    return f"a difference of {_measured(verdict.difference)}{_interval(verdict)} ({tested})"


def _sooner(verdict: Verdict) -> str:
    if verdict.method != "time to solve" or not verdict.difference:
        return ""
    apart = f"{_figure(abs(verdict.difference))} {verdict.time_unit}"
    return f", in the median {apart} {'later' if verdict.difference > 0 else 'sooner'}"


def _advice(verdict: Verdict) -> list[str]:
    """A look before the last has to find more than one is used to."""
    strict = [f"p-values decide below {verdict.level:.2g} here"] if verdict.level < _USUAL else []
    return [*strict, *_advice_on_seeds(verdict)]


def _advice_on_seeds(verdict: Verdict) -> list[str]:
    if verdict.method in ("solve rates", "time to solve", "ranks"):
        return list(_advice_on_exact_tests(verdict))
    if verdict.withheld:
        return [] if verdict.seeds_needed is None else [
            f"from {_seeds(verdict.seeds_needed)} on an exact test needs no shape, in a new registration"
        ]  # fmt: skip
    fewest, advice = min(verdict.num_seeds), []
    if verdict.detectable_effect is not None:
        result = f"find differences of {_figure(verdict.detectable_effect)} and more in 80 % of studies"
        advice.append(f"{_seeds(fewest)} {result}{_in_family(verdict)}")
    if verdict.seeds_range is not None and (verdict.seeds_range[1] is None or verdict.seeds_range[1] > fewest):
        aim = "a difference of this size" if verdict.margin is None else "a difference as large as the margin"
        spread = f"as far as the spread of {_seeds(fewest)} tells"
        advice.append(f"{_range(verdict.seeds_range)} would show {aim} in a new registration, {spread}")
    return advice


def _in_family(verdict: Verdict) -> str:
    """A family's effect is larger than that of a contrast that stands alone."""
    if verdict.num_contrasts == 1:
        return ""
    return f", as one of {verdict.num_contrasts} contrasts (p < {verdict.family_level:.2g} each)"


def _range(seeds: tuple[int | None, int | None]) -> str:
    least, most = seeds
    if least is None:
        return "more than 1000 seeds"
    if most is None:
        return f"from {least} to more than 1000 seeds"
    return _seeds(least) if least == most else f"from {least} to {_seeds(most)}"


def _advice_on_exact_tests(verdict: Verdict) -> Iterator[str]:
    needed, tied = verdict.seeds_needed, verdict.p is None or verdict.difference == 0
    if needed is not None and needed > min(verdict.num_seeds) and not tied:
        yield (
            f"exact tests on so few seeds can hardly decide: from {_seeds(needed)} on they do where all seeds of one "
            "arm "
            "are ahead of all of the other, in a new registration"
        )


def _interval(verdict: Verdict) -> str:
    if verdict.interval is None:
        return ""
    low, high = verdict.interval
    kind = "confidence sequence" if verdict.method == "e-process" else "interval"
    return f", {coverage(verdict.level)} {kind} {_measured(low)} to {_measured(high)}"


def coverage(level: float) -> str:
    """Return the share of intervals at this error rate that hold what they estimate: 95 %."""
    share = f"{100 * (1 - level):.3g}"
    return f"{'over 99.9' if share == '100' else share} %"


def _tested_both(verdict: Verdict) -> str:
    """Test against either end of the margin."""
    if verdict.method == "e-process":
        return f"{_tested(verdict)}, against both its ends"
    return f"two one-sided {_tested(verdict).replace('-test', '-tests', 1).replace('flip test', 'flip tests')}"


def _tested(verdict: Verdict) -> str:
    first, second = verdict.num_seeds
    over = f"over {_seeds(first) if first == second else f'{first} and {_seeds(second)}'}"
    because = f", because {verdict.because}" if verdict.because else ""
    exact = f" and {_EXACT[verdict.method]}" if verdict.p_exact is not None else ""
    return f"{_TESTS[verdict.method]}{exact} {over}{because}"


def _p(p: float | None, verdict: Verdict) -> str:
    if p is None:
        return "no p-value, all seeds are equal"
    return f"p {'< 0.001' if p < 0.001 else f'= {_on_its_side(p, verdict.level)}'}{ADJUSTMENTS[verdict.adjustment]}"


def _on_its_side(p: float, level: float) -> str:
    """Return two digits, or as many as it takes to stay on the side of the level that the verdict rests on."""
    candidates = (f"{p:.{digits}g}" for digits in range(2, 17))
    return next((one for one in candidates if (p < level) == (float(one) < level)), str(p))


def _seeds(number: int) -> str:
    return f"{number} seed{'' if number == 1 else 's'}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value + 0.0:.3g}"  # adding 0 takes the sign off -0.0


def _measured(value: float | None) -> str:
    """Write three figures, zeros at the end among them: 0.140 beside 0.101; a whole number as it is."""
    return _figure(value) if value is None or value.is_integer() else f"{value:#.3g}".rstrip(".")

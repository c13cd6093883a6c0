"""Questions before a run, from Python: about a class of your own, a model that does not learn, time and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headtohead.api.configurations import Configured, configuration
from headtohead.api.defined_here import PREFIX, target_of
from headtohead.api.error_translation import python_errors, python_errors_with
from headtohead.api.progress import progress_of_steps
from headtohead.api.result import Result, upgraded
from headtohead.config.build import build_parts
from headtohead.config.errors import ConfigurationError
from headtohead.config.trust import trusting
from headtohead.config.unchecked_classes import mark_checked
from headtohead.diagnostics.bench.benchmark_plan import BenchmarkCase
from headtohead.diagnostics.bench.benchmark_results import BenchmarkResults
from headtohead.diagnostics.bench.benchmark_run import bench as run_benchmark
from headtohead.diagnostics.bench.benchmark_run import plan_of
from headtohead.diagnostics.doctor import Check, Diagnosis, Patient, chosen, examine
from headtohead.diagnostics.doctor import summary as doctor_summary
from headtohead.diagnostics.laws import Law
from headtohead.diagnostics.laws.class_check import LawResult, Sizes, cases, check_laws, component, options_of
from headtohead.diagnostics.laws.remedies import silent_laws
from headtohead.ranges import Width


@dataclass(frozen=True)
class Diagnoses(Result):
    """The findings of the doctor's checks, a row for each."""

    diagnoses: Sequence[Diagnosis]
    """The results of the doctor's checks, one for each."""
    __repr__ = Result.__repr__

    @property
    def title(self) -> str:
        return doctor_summary(self.diagnoses)

    @property
    def faults(self) -> list[Diagnosis]:
        """Return the checks that found a fault."""
        return [diagnosis for diagnosis in self.diagnoses if diagnosis.finding.verdict == "fault"]

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        return [diagnosis.to_dict() for diagnosis in self.diagnoses]


@python_errors_with(check="checks")
def doctor(
    config: Configured = (),
    *,
    checks: Sequence[str] = (),
    config_dir: str | Path | None = None,
    from_run: str | Path | None = None,
    trust: Sequence[str] = (),
) -> Diagnoses:
    """Find what keeps a model from learning, by sixteen checks or those named; nothing is recorded.

    `config_dir`, `from_run` and `trust` are as in `compose`: `doctor(from_run=run)` examines a run that did not learn.
    """
    requested = chosen(checks)
    with trusting(trust), progress_of_steps(len(requested)) as show:
        done, name = 0, "data"

        def begin(check: Check) -> None:
            nonlocal done, name
            done, name = requested.index(check), check.name
            show(done, name)

        parts = build_parts(configuration(config, "train", config_dir, from_run))
        patient = Patient(parts, note=lambda text: show(done, f"{name}: {text}"))
        return Diagnoses(examine(patient, requested, begin=begin))


class MeasuredBenchmark(Result, BenchmarkResults):
    """Time and memory, a row for each case."""

    @property
    def title(self) -> str:
        return f"{len(self.measurements)} cases on {self.device}"

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        measured: list[dict[str, object]] = self.to_dict()["measurements"]
        return measured


@python_errors
def bench(
    config: Configured = (), *, config_dir: str | Path | None = None, trust: Sequence[str] = ()
) -> MeasuredBenchmark:
    """Measure time and peak memory of a step, a forward pass and an evaluation over length and variants.

    `config` is a configuration of root "bench", or overrides: `bench(["bench.lengths=[256,512]"])`. `config_dir` and
    `trust` are as in `compose`.
    """
    composed = configuration(config, "bench", config_dir)
    plan = plan_of(composed)
    with trusting(trust), progress_of_steps(plan.rounds * len(list(plan.cases()))) as show:
        measured = 0

        def report(case: BenchmarkCase) -> None:
            nonlocal measured
            measured += 1
            show(measured, f"{case.measure} at {case.length:,}, {case.variant.label(plan.base)}")

        return upgraded(MeasuredBenchmark, run_benchmark(composed, report=report))


@dataclass(frozen=True)
class CheckedClass(Result):
    """A class held against the laws of its kind, a row for each law and form."""

    target: str
    """The class that was checked, as a configuration names it."""
    kind: str
    """The kind of component, a group below model: mixer."""
    laws: Sequence[LawResult]
    """The results of the laws, one for each law and form."""
    not_applicable: Mapping[Law, str]
    """The laws that have nothing to say of the class, each with the reason."""
    __repr__ = Result.__repr__

    @property
    def title(self) -> str:
        """Return the class, its kind, and how many laws it breaks."""
        failed = dict.fromkeys(law.case.name for law in self.broken)
        what = "every law holds" if not failed else f"{len(failed)} laws are broken: {', '.join(failed)}"
        name = self.target.rpartition(".")[2] if self.target.startswith(PREFIX) else self.target
        return f"{name}, a choice for model/{self.kind}: {what}"

    @property
    def broken(self) -> list[LawResult]:
        """Return the laws that do not hold."""
        return [law for law in self.laws if law.broken is not None]

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        """Return a row for each law and form that is broken; where none is, a row for each law."""
        if self.broken:
            return [
                {"law": law.case.name, "form": law.case.form, "broken": law.broken, "what to do": law.remedy}
                for law in self.broken
            ]
        forms: dict[str, list[str]] = {}
        for law in self.laws:
            forms.setdefault(law.case.name, []).append(law.case.form)
        first_sentences = {law.case.name: _first_sentence(law.case.law) for law in self.laws}
        return [{"law": name, "says": first_sentences[name], "holds": "; ".join(held)} for name, held in forms.items()]


def _first_sentence(law: object) -> str:
    return " ".join((law.__doc__ or "").split("\n\n")[0].split())


@python_errors_with(twin="reference")
def check(
    target: str | type,
    options: Mapping[str, object] | Sequence[str] = (),
    *,
    reference: str | type | None = None,
    thorough: bool = False,
    d_model: Width = 16,
    num_heads: Width = 4,
) -> CheckedClass:
    """Hold a class of your own against the laws that every component obeys: `check(MyMixer, {"window": 4})`.

    `options` are those of its constructor, by name or as "field=value". `reference` is the same function written
    plainly; `thorough` takes double, single and half precision.
    """
    name = target if isinstance(target, str) else target_of(target)
    kind, owner = component(name)
    listed_options = [f"{key}={value}" for key, value in options.items()] if isinstance(options, Mapping) else options
    values = options_of(kind, name, listed_options)
    plain = reference if reference is None or isinstance(reference, str) else target_of(reference)
    if plain is not None and kind != "mixer":
        raise ConfigurationError(
            f"the reference {plain} is refused: {name} is not a mixer, and only mixers have references"
        )
    twin = None if plain is None else partial(component(plain)[1], **values)
    listed = cases(kind, partial(owner, **values), twin, Sizes(d_model, num_heads), thorough=thorough)
    laws = []
    with progress_of_steps(len(listed)) as show:
        for done, law in enumerate(check_laws(listed), start=1):
            laws.append(law)
            show(done, f"{law.case.name}, {law.case.form}")
    result = CheckedClass(name, kind, laws, silent_laws([case.law for case in listed]))
    if not result.broken:
        mark_checked(name)
    return result

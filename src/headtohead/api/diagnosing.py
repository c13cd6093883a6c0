"""Questions before a run, from Python: about a class of your own, a model that does not learn, time and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headtohead.api.configurations import Configured, configuration
from headtohead.api.defined_here import PREFIX, target_of
from headtohead.api.result import Result, upgraded
from headtohead.api.spoken_errors import speaks_python
from headtohead.config.build import build_parts
from headtohead.config.errors import ConfigurationError
from headtohead.config.unchecked_classes import mark_checked
from headtohead.diagnostics.bench.benchmark_files import bench as run_benchmark
from headtohead.diagnostics.bench.benchmark_results import BenchmarkResults
from headtohead.diagnostics.doctor import Diagnosis, Patient, chosen, examine
from headtohead.diagnostics.doctor import summary as doctor_summary
from headtohead.diagnostics.laws.class_check import LawResult, Sizes, cases, check_laws, component, options_of


@dataclass(frozen=True)
class Diagnoses(Result):
    """The findings of the doctor's checks, a row for each."""

    diagnoses: Sequence[Diagnosis]
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


@speaks_python
def doctor(config: Configured = (), *, checks: Sequence[str] = ()) -> Diagnoses:
    """Find what keeps a model from learning, by sixteen checks or those named; nothing is recorded."""
    return Diagnoses(examine(Patient(build_parts(configuration(config))), chosen(checks)))


class MeasuredBenchmark(Result, BenchmarkResults):
    """Time and memory, a row for each case."""

    @property
    def title(self) -> str:
        return f"{len(self.measurements)} cases on {self.device}"

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        measured: list[dict[str, object]] = self.to_dict()["measurements"]
        return measured


@speaks_python
def bench(config: Configured = (), *, config_dir: str | Path | None = None) -> MeasuredBenchmark:
    """Measure time and peak memory of a step, a forward pass and an evaluation over length and variants.

    `config` is a configuration of root "bench", or overrides: `bench(["bench.lengths=[256,512]"])`.
    """
    return upgraded(MeasuredBenchmark, run_benchmark(configuration(config, "bench", config_dir)))


@dataclass(frozen=True)
class CheckedClass(Result):
    """A class held against the laws of its kind, a row for each law and form."""

    target: str
    kind: str
    laws: Sequence[LawResult]
    __repr__ = Result.__repr__

    @property
    def title(self) -> str:
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


@speaks_python
def check(
    target: str | type,
    options: Mapping[str, object] | None = None,
    *,
    reference: str | type | None = None,
    thorough: bool = False,
    d_model: int = 16,
    num_heads: int = 4,
) -> CheckedClass:
    """Hold a class of your own against the laws that every component obeys: `check(MyMixer, {"window": 4})`.

    `reference` is the same function written plainly; `thorough` takes double, single and half precision.
    """
    name = target if isinstance(target, str) else target_of(target)
    kind, owner = component(name)
    values = options_of(kind, name, [f"{key}={value}" for key, value in (options or {}).items()])
    if reference is not None and kind != "mixer":
        raise ConfigurationError(f"reference is refused: {name} is not a mixer, and only mixers have references")
    plain = reference if reference is None or isinstance(reference, str) else target_of(reference)
    twin = None if plain is None else partial(component(plain)[1], **values)
    listed = cases(kind, partial(owner, **values), twin, Sizes(d_model, num_heads), thorough=thorough)
    result = CheckedClass(name, kind, list(check_laws(listed)))
    if not result.broken:
        mark_checked(name)
    return result

"""The costs of a study before it runs, here and on other devices, as objects that show themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headtohead.api.result import Result
from headtohead.studies.planning.cost_estimate import CostEstimate
from headtohead.studies.planning.study_on_devices import ArmOnDevices, plan_on_devices
from headtohead.studies.planning.study_plan import StudyPlan
from headtohead.studies.results.study_tables import totals
from headtohead.studies.results.study_verdicts import requested_family


@dataclass(frozen=True)
class EstimatedStudy(Result):
    """The estimate says what the runs of a study cost, and how many are missing: a row for each arm."""

    plan: StudyPlan
    """The runs of the study."""
    costs: CostEstimate
    """The estimate of each arm, with bytes on disk too."""
    workers: int = 1
    """The number of runs at once."""
    __repr__ = Result.__repr__

    @property
    def title(self) -> str:
        return f"{self.plan.study.name}: {next(self._totals())}"

    @property
    def seconds(self) -> float:
        """Return how long all runs that are missing take; of a study that adds seeds, at worst."""
        return self.costs.seconds / max(1, min(self.workers, self.costs.missing))

    @property
    def fewest_seconds(self) -> float:
        """Return the same where all contrasts are decided as early as they can be."""
        return self.costs.fewest_seconds / max(1, min(self.workers, self.costs.fewest_missing))

    @property
    def sentences(self) -> Sequence[str]:
        """Return the best case of a study that adds seeds, and what so many seeds can show."""
        _, *best = self._totals()
        return [*best, requested_family(self.plan.study).sentence]

    def _totals(self) -> Iterator[str]:
        return totals(self.plan.study, self.costs, self.workers)

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        return [
            {
                "arm": arm.arm,
                "runs": arm.runs,
                "missing": arm.missing,
                "fewest_missing": arm.fewest_missing,
                "parameters": arm.parameters,
                "tokens": arm.tokens,
                "flops": arm.flops,
                "seconds": arm.seconds,
                "source": arm.source,
            }
            for arm in self.costs.arms
        ]


@dataclass(frozen=True)
class PlannedStudy(Result):
    """The runs of a study on other devices, a row for each arm."""

    study: str
    """The name of the study."""
    on: str
    """The devices."""
    arms: Mapping[str, ArmOnDevices]
    """The plan of one run of each foundation and arm that takes steps, and how many runs there are."""
    left_out: Sequence[str] = ()
    """The arms without steps, which are not planned."""
    __repr__ = Result.__repr__

    @property
    def title(self) -> str:
        missing = ", ".join(name for name, arm in self.arms.items() if arm.plan.best is None)
        every = "every arm with steps" if self.left_out else "every arm"
        return f"{self.study} on {self.on}: {f'no layout fits {missing}' if missing else f'{every} fits'}"

    @property
    def sentences(self) -> Sequence[str]:
        """Return which arms are not planned."""
        names = ", ".join(self.left_out)
        return [f"not planned, since fitted to all rows at once without steps: {names}"] if names else []

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        return [
            {
                "arm": name,
                "runs": arm.runs,
                "whole_runs": arm.whole_runs,
                "layout": None if arm.plan.best is None else " ".join(arm.plan.best.overrides),
                "devices_a_run": arm.plan.devices,
                "hours_a_run": None if arm.plan.best is None else arm.plan.best.hours,
                "device_hours": arm.device_hours,
                "price": arm.price,
            }
            for name, arm in self.arms.items()
        ]


def planned_study(plan: StudyPlan, on: str, price: float | None) -> PlannedStudy:
    """Return what the runs of each arm take on the devices."""
    arms = plan_on_devices(plan, on, price=price)
    return PlannedStudy(plan.study.name, on, arms, [arm for arm in plan.study.arms if arm not in arms])

"""Plan all runs of a study on devices that need not be here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headtohead.config.errors import ConfigurationError
from headtohead.config.rules.config_view import ConfigView
from headtohead.studies.definition.study import used
from headtohead.studies.planning.study_plan import StudyPlan

if TYPE_CHECKING:
    from headtohead.estimates.plan import Plan


@dataclass(frozen=True)
class ArmOnDevices:
    """One arm, or a foundation: a whole run of it on as many of the devices as make it cheapest, and its runs, trials
    among them."""

    plan: Plan
    runs: int
    whole_runs: float
    """The length of all runs together, as a number of whole runs: trials and shares of the budget are shorter."""

    @property
    def device_hours(self) -> float | None:
        """Return the hours of all runs over all their devices; None where no layout fits."""
        return None if self.plan.best is None else self.whole_runs * self.plan.device_hours

    @property
    def price(self) -> float | None:
        """Return the price of all runs; None where no layout fits, or no price is known."""
        best = self.plan.best
        return None if best is None or best.price is None else self.whole_runs * best.price


def plan_on_devices(study: StudyPlan, on: str, *, price: float | None = None) -> dict[str, ArmOnDevices]:
    """Return the plans of all foundations and arms that take steps, by name."""
    from headtohead.estimates.plan import cheapest_plan  # it replays steps, and imports torch's compiler for it
    from headtohead.studies.planning.cost_estimate import whole_runs

    made = (*used(study.study), *study.study.arms)
    in_steps = [arm for arm in made if ConfigView(study.drafts[arm]).trained_by_steps]
    if not in_steps:
        raise ConfigurationError(
            f"study {study.study.name}: no arm takes steps, so that nothing of it can be planned on {on}"
        )
    return {
        arm: ArmOnDevices(
            cheapest_plan(study.drafts[arm], on, price=price),
            study.num_trials(arm) + study.num_runs_of(arm),
            whole_runs(study, arm),
        )
        for arm in in_steps
    }

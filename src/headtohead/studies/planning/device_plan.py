"""Plan a study's runs on devices: every arm as one run of it is, and how many whole runs its trials and seeds are."""

from __future__ import annotations

from dataclasses import dataclass

from headtohead.estimates.plan import Plan, cheapest_plan
from headtohead.studies.planning.study_plan import StudyPlan


@dataclass(frozen=True)
class ArmOnDevices:
    """One arm: a whole run of it on as many of the devices as make it cheapest, and the number of its runs, trials
    among them."""

    plan: Plan
    runs: int


def plan_on_devices(study: StudyPlan, on: str, *, price: float | None = None) -> dict[str, ArmOnDevices]:
    """Return the plans of all arms, by name."""
    runs = {arm: study.num_trials(arm) + study.num_runs_of(arm) for arm in study.study.arms}
    return {arm: ArmOnDevices(cheapest_plan(study.drafts[arm], on, price=price), runs[arm]) for arm in runs}

"""Hold a study to a budget of disk: what it has written, what its missing runs will leave, and what they take while
they train."""

from __future__ import annotations

from collections.abc import Mapping

from headtohead.comparison.tables.run_table import memory
from headtohead.config.errors import ConfigurationError
from headtohead.config.run_config import RunConfig
from headtohead.estimates.run_cost import retained_bytes
from headtohead.records.keeping.changes import size_of
from headtohead.studies.planning.cost_estimate import CostEstimate
from headtohead.studies.planning.study_plan import StudyPlan

POLICIES = ("best", "last", "none")
"""The checkpoints that runs may retain in place of all, from the most to the least useful."""


def refuse_over_disk(plan: StudyPlan, estimate: CostEstimate, workers: int, gigabytes: float) -> None:
    """Refuse a study that would come to take more than its budget, and name the policies by which it would not."""
    passing = min(max(1, workers), estimate.missing) * estimate.passing_bytes
    used = float(size_of(plan.folder)) if plan.folder.is_dir() else 0.0
    total = used + estimate.disk_bytes + passing
    if not estimate.missing or total <= 1e9 * gigabytes:
        return
    smaller = {
        keep: used + passing + left for keep, left in _by_policy(plan, estimate).items() if left < estimate.disk_bytes
    }
    fitting = [f"trainer.keep_checkpoints={keep} ({memory(size)})" for keep, size in smaller.items()
               if size <= 1e9 * gigabytes]  # fmt: skip
    ways = [f"type {' or '.join(fitting)}"] if fitting else ["give more, or plan fewer seeds"]
    if used:
        ways.append(f"`h2h runs prune {plan.folder} --keep best` removes other checkpoints of its finished runs")
    raise ConfigurationError(
        f"study {plan.study.name}: --disk {gigabytes:g} (GB) is less than it would take, about {memory(total)}: "
        f"{memory(used)} are there, missing runs leave {memory(estimate.disk_bytes)}, and {memory(passing)} are needed "
        f"while they train. To stay within it, {'; '.join(ways)}"
    )


def _by_policy(plan: StudyPlan, estimate: CostEstimate) -> Mapping[str, float]:
    """Return the bytes that missing runs would leave under each policy; trials retain no checkpoints under any."""
    sizes = dict.fromkeys(POLICIES, 0.0)
    for arm in estimate.arms:
        draft = plan.drafts[arm.arm]
        number = min(arm.missing, plan.num_runs_of(arm.arm))
        for keep in POLICIES:
            trainer = {**RunConfig(draft).trainer, "keep_checkpoints": keep}
            saved = arm.bytes_kept - retained_bytes({**draft, "trainer": trainer}, arm.parameters)
            sizes[keep] += arm.bytes_missing - number * saved
    return sizes

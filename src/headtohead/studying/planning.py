"""From a study to its runs: arms x seeds x shares of the budget, after the trials of a tuning where there is one.

A plan tells what is known by now. Which settings an arm's runs get is known once all trials of its tuning have ended:
until then the plan is open, and whoever works on the study plans again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtohead.building.errors import ConfigurationError, unknown
from headtohead.building.metric_names import metric_names
from headtohead.building.view import View
from headtohead.comparing.trials import Setting
from headtohead.studying.ablation.possible import LeftOut, without_the_impossible
from headtohead.studying.balancing import Tell, balanced, refuse_elsewhere, refuse_unmet
from headtohead.studying.cells import Cell, Cells, shortened
from headtohead.studying.composing import Composer
from headtohead.studying.foundations import Start, foundation_of, used
from headtohead.studying.running import ended_record
from headtohead.studying.study import Study
from headtohead.studying.tuning.progress import Progress, progress_of
from headtohead.studying.tuning.tuning import Tuning, for_arm

if TYPE_CHECKING:
    from headtohead.studying.matching.matching import Matching

Laid = Mapping[tuple[str, int], Cell]
"""Foundations by name and seed."""


@dataclass(frozen=True)
class Plan:
    """The runs of a study, trials first, then by seed: whenever it is stopped, the arms have had the same seeds."""

    study: Study
    cells: tuple[Cell, ...]
    """Those known so far."""
    folder: Path
    """outputs/studies/NAME."""
    drafts: Mapping[str, Mapping[str, Any]] = field(compare=False, repr=False)
    """Each arm's configuration under the budget, before any tuning."""
    left_out: LeftOut = ()
    """Combinations of an ablation that cannot be built."""
    matching: Matching | None = None
    """What the budget asked of each arm."""
    tunings: Mapping[str, Progress] = field(default_factory=dict)
    """By arm, where arms are tuned."""
    awaited: int = 0
    """Runs that follow once the foundations they start from are laid."""

    @property
    def is_open(self) -> bool:
        """Whether more runs follow from how trials and foundations end."""
        return self.awaited > 0 or not all(progress.over for progress in self.tunings.values())

    @property
    def budget_name(self) -> str | None:
        return self.study.budget_name

    @property
    def contest(self) -> list[Cell]:
        """The runs that verdicts rest on, as far as they are known."""
        return [cell for cell in self.cells if cell.counts]

    @property
    def num_runs(self) -> int:
        """Of the whole study, those not known yet among them."""
        laid = sum(cell.is_foundation for cell in self.cells)
        return laid + sum(self.num_runs_each + self.num_trials(arm) for arm in self.study.arms)

    @property
    def num_runs_each(self) -> int:
        """Of one arm, trials aside."""
        return len(self.study.seeds) * len(self.study.shares)

    def num_trials(self, arm: str) -> int:
        """Of its tuning, those not known yet among them."""
        return self.tunings[arm].tuning.trials if arm in self.tunings else 0

    def run_folder(self, cell: Cell) -> Path:
        return self.folder / "runs" / cell.id

    def what_makes(self, arm: str) -> tuple[str, ...]:
        """The overrides that set an arm apart: its own, those that the budget asks for, and those of its tuning."""
        matched = self.matching.arm(arm).overrides if self.matching is not None else ()
        chosen = self.tunings[arm].chosen if arm in self.tunings else ()
        return (*self.study.arms[arm], *matched, *chosen)

    def of_arm(self, arm: str) -> list[Cell]:
        return [cell for cell in self.cells if cell.arm == arm]


def plan_of(study: Study, config_dir: str | Path | None = None) -> Plan:
    """As far as it is known; every run composed and checked."""
    return Planner(study, config_dir).plan()


class Planner:
    """Plans a study again and again, and does no more than is new."""

    def __init__(
        self,
        study: Study,
        config_dir: str | Path | None = None,
        *,
        threads: int | None = None,
        tell: Tell | None = None,
    ) -> None:
        composer = Composer(config_dir)
        whole = Cells(study, composer)
        self.study, self._left_out = without_the_impossible(study, lambda arm: whole.of(arm, study.seeds[0]))
        self._cells = Cells(self.study, composer)
        self.written = {arm: self._cells.of(arm, study.seeds[0]).config for arm in self.study.arms}
        """Each arm's configuration before any budget."""
        _check_metric(study, self.written)
        _refuse_shares_of_fits(study, self.written)
        self.folder = _folder(study, self.written)
        self._match: Callable[[], Matching | None] = lambda: balanced(
            self.study, self.written, self.folder, config_dir=config_dir, threads=threads, tell=tell
        )
        self._matching: Matching | None = None
        self._threads = threads

    def plan(self) -> Plan:
        """Reads the records of trials; all else is known from the first time on."""
        study = self.study
        if self._matching is None and (matching := self._match()) is not None:
            refuse_unmet(study, matching)
            self._matching = matching
        drafts = {arm: self._cells.of(arm, study.seeds[0], self._asked(arm)).config for arm in study.arms}
        seeds = (study.tuning.seed, *study.seeds) if isinstance(study.tuning, Tuning) else study.seeds
        laid = {(name, seed): self._cells.foundation(name, seed) for seed in seeds for name in used(study)}
        tuned = drafts if isinstance(study.tuning, Tuning) else {}
        tunings = {arm: self._tuned(arm, draft, laid) for arm, draft in tuned.items()}
        ready = [arm for arm in study.arms if arm not in tunings or tunings[arm].over]
        known = [
            (arm, seed, share)
            for seed in study.seeds
            for share in sorted(study.shares)
            for arm in ready
            if self._may_start(self._below(arm, seed, laid))
        ]
        runs = [self._run(*place, drafts[place[0]], tunings.get(place[0]), laid) for place in known]
        _refuse_twins(study, runs)
        cells = (*laid.values(), *_in_turn([progress.cells for progress in tunings.values()]), *runs)
        awaited = len(ready) * len(study.seeds) * len(study.shares) - len(runs)
        drafts |= {cell.arm: cell.config for cell in laid.values()}
        plan = Plan(study, cells, self.folder, drafts, self._left_out, self._matching, tunings, awaited)
        self._check_conditions(plan)
        return plan

    def _check_conditions(self, plan: Plan) -> None:
        """Records that are complete may be read anywhere."""
        undone = plan.is_open or any(ended_record(plan.run_folder(cell)) is None for cell in plan.cells)
        if plan.budget_name == "equal_time" and plan.matching is not None and undone:
            refuse_elsewhere(plan.study, plan.matching, self.written, self.folder, self._threads)

    def _below(self, arm: str, seed: int, laid: Laid) -> Cell | None:
        """The foundation that the arm's run of this seed starts from."""
        return laid.get((foundation_of(self.study, arm) or "", seed))

    def _start(self, below: Cell | None) -> Start | None:
        return None if below is None else Start(self.folder / "runs" / below.id, below.id)

    def _may_start(self, foundation: Cell | None) -> bool:
        """A foundation that failed is laid too: what starts from it says so."""
        return foundation is None or ended_record(self.folder / "runs" / foundation.id) is not None

    def _asked(self, arm: str) -> tuple[str, ...]:
        """By the budget."""
        return () if self._matching is None else self._matching.arm(arm).overrides

    def _tuned(self, arm: str, draft: Mapping[str, Any], laid: Laid) -> Progress:
        """Trials wait for the foundation of their own seed."""
        study = self.study
        assert isinstance(study.tuning, Tuning), "words are no tuning"
        try:
            tuning = for_arm(study.tuning, metric=study.metric, direction=study.direction, config=draft)
        except ConfigurationError as error:
            raise ConfigurationError(f"study {study.name}, arm {arm}: {error}") from None
        below = self._below(arm, tuning.seed, laid)
        if not self._may_start(below):
            return Progress(tuning, (), (), over=False)
        shorter = () if tuning.steps is None else shortened(draft, tuning.steps)
        asked = (*self._asked(arm), *shorter, "trainer.keep_checkpoints=none", "trainer.num_samples=0")

        def cell_of(number: int, setting: Setting) -> Cell:
            return self._cells.of(
                arm, tuning.seed, (*asked, *setting.overrides), trial=number, start=self._start(below)
            )

        return progress_of(tuning, cell_of, lambda cell: ended_record(self.folder / "runs" / cell.id))

    def _run(
        self,
        arm: str,
        seed: int,
        share: float,
        draft: Mapping[str, Any],
        progress: Progress | None,
        laid: Laid,
    ) -> Cell:
        chosen = progress.chosen if progress is not None else ()
        steps = max(1, round(share * draft["trainer"]["max_steps"]))
        added = (*self._asked(arm), *chosen, *shortened(draft, steps))
        return self._cells.of(arm, seed, added, share=share, start=self._start(self._below(arm, seed, laid)))


Again = Callable[[], tuple[Plan, Sequence[Cell]]]
"""Plans anew, and says which runs are one's own."""


def shard_of(plan: Plan, index: int, count: int) -> list[Cell]:
    """The i-th of n shares, i from 1; by place in the plan, so that every share has all arms where it can.

    A tuned arm stays in one share, with its trials: nobody else could tell which of them won.
    """
    arms = list(plan.study.arms)
    if plan.study.foundations:
        raise ConfigurationError(
            f"study {plan.study.name}: --shard is refused, since arms start from runs that other shares would make: "
            "share the folder, and start workers on it by the same command"
        )
    if plan.tunings:
        return [cell for cell in plan.cells if arms.index(cell.arm) % count == index - 1]
    return [cell for place, cell in enumerate(plan.cells) if (place // len(arms)) % count == index - 1]


def _in_turn(rows: Sequence[Sequence[Cell]]) -> list[Cell]:
    """The first of each, then the second of each."""
    longest = max(map(len, rows), default=0)
    return [row[place] for place in range(longest) for row in rows if place < len(row)]


def _refuse_shares_of_fits(study: Study, written: Mapping[str, Mapping[str, Any]]) -> None:
    fitted = [arm for arm, config in written.items() if not View(config).takes_steps]
    if fitted and len(study.shares) > 1:
        raise ConfigurationError(
            f"study {study.name}: shares={list(study.shares)} shorten runs, and {fitted[0]} is fitted at once and "
            "takes no steps: leave the shares or the arm out"
        )


def _refuse_twins(study: Study, cells: Sequence[Cell]) -> None:
    first: dict[str, Cell] = {}
    for cell in cells:
        twin = first.setdefault(cell.id, cell)
        if twin is cell:
            continue
        if twin.arm == cell.arm and twin.seed == cell.seed:
            raise ConfigurationError(
                f"study {study.name}: the shares {twin.share:g} and {cell.share:g} are as many steps of {cell.arm}: "
                "take one out"
            )
        raise ConfigurationError(
            f"study {study.name}: arms {twin.arm} and {cell.arm} are the same run (seeds {twin.seed} and "
            f"{cell.seed}): change one, or give seed_offsets: {{{cell.arm}: 1000}} to compare an arm with itself"
        )


def _check_metric(study: Study, written: Mapping[str, Mapping[str, Any]]) -> None:
    """Before the first run, and not after the last."""
    asked = {"metric": study.metric}
    if isinstance(study.tuning, Tuning) and study.tuning.metric is not None:
        asked["tuning.metric"] = study.tuning.metric
    for arm, config in written.items():
        known = metric_names(config["task"]["_target_"])
        for key, metric in asked.items():
            name = metric.partition("/")[2]
            if known and name not in known:
                told = unknown(f"{key}={metric} is not measured by arm {arm}", name, sorted(known))
                raise ConfigurationError(f"study {study.name}: {told}")


def _folder(study: Study, written: Mapping[str, Mapping[str, Any]]) -> Path:
    places = {config["output_dir"]: arm for arm, config in written.items()}
    if len(places) > 1:
        raise ConfigurationError(f"arms {' and '.join(places.values())} go to different output_dir: give one for all")
    return Path(next(iter(places))) / "studies" / study.name

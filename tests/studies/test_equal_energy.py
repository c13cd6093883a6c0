"""Arms brought to the joules of the baseline: measured in turn where a counter can be read, refused where none can."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from headtohead.cli import main
from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.estimates import step_times
from headtohead.estimates.step_times import measure_step_times
from headtohead.studies.matching.budgets import EqualEnergy
from headtohead.studies.matching.match_arms import match
from headtohead.studies.matching.matching import SavedMatchings
from headtohead.training import energy_counters
from headtohead.training.energy_counters import EnergyCounter, NoCounter

SMALL = [
    "data.num_train=40", "data.num_validation=4", "data.num_test=4", "data.batch_size=4", "data.context_length=8",
    "data.tokenizer=char", "model.d_model=16", "trainer=cpu", "trainer.threads=1", "tracking=none",
]  # fmt: skip
LSTM = ["model/mixer=lstm", "model/position=none"]


@pytest.fixture(scope="module", autouse=True)
def cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


class Turns(EnergyCounter):
    """A counter that advances by these joules in turn, and by 1000 between turns, which belong to nobody."""

    source = "a counter"

    def __init__(self, *joules: float | None) -> None:
        self._joules, self._readings = cycle(joules), 0

    def read(self) -> float | None:
        """Return the joules since the last reading: the first is that of opening, then each turn has two."""
        self._readings += 1
        is_end_of_turn = self._readings > 1 and self._readings % 2 == 1
        return next(self._joules) if is_end_of_turn else 1000.0


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Choose the counter of this machine, and let turns be short."""
    monkeypatch.setattr(step_times, "ENERGY_TURN", 0.0)
    return lambda counter: monkeypatch.setattr(step_times, "counter_of", lambda *_, **__: counter)


def config_of(*overrides: str) -> dict[str, Any]:
    return compose_checked("train", [*SMALL, *overrides])


ARMS = {"attention": [], "lstm": LSTM}


@pytest.mark.slow
def test_arms_train_as_many_steps_as_the_joules_of_the_baseline_pay_for(counted: Any, tmp_path: Path) -> None:
    counted(Turns(2.0, 6.0))
    matching = match(SMALL, ARMS, "attention", EqualEnergy(rounds=3, turn_steps=2))
    arm = matching.arm("lstm")
    assert matching.target == 1000.0 and arm.met and arm.overrides == ("trainer.max_steps=333",)
    assert arm.achieved == 999.0 and arm.timing is not None and arm.timing.joules == (3.0, 3.0, 3.0)
    assert arm.uncertainty == 0.0, "it is that of the joules, and not of the times"
    saved = SavedMatchings(tmp_path)
    solved = saved.completed({"lstm": "key"}, lambda _: matching)
    assert saved.known({"lstm": "key"}) == solved and solved["lstm"].arm == arm


@pytest.mark.slow
def test_joules_that_scatter_make_no_match_that_is_sure(counted: Any) -> None:
    counted(Turns(2.0, 6.0, 2.0, 9.0, 2.0, 3.0))
    arm = match(SMALL, ARMS, "attention", EqualEnergy(rounds=3, turn_steps=2)).arm("lstm")
    assert arm.met and arm.uncertainty == pytest.approx(0.5)


def test_a_turn_lasts_as_long_as_a_counter_needs(counted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    counted(Turns(8.0))
    monkeypatch.setattr(step_times, "ENERGY_TURN", 4.0)
    ticks = iter(range(1000))  # a second for each look at the clock
    result = measure_step_times(
        {"a": config_of()}, rounds=2, turn_steps=1, with_energy=True, clock=lambda: float(next(ticks))
    )
    assert result["a"].joules == (2.0, 2.0) and result["a"].turns == (1.0, 1.0), "four steps each"


@pytest.mark.parametrize(
    ("counter", "why"),
    [
        (NoCounter("no counter here"), r"not measured: no counter here: choose budget=equal_time"),
        (Turns(0.0), r"a turn could not be measured \(a counter stood still\): choose budget=equal_time"),
        (Turns(None), r"a turn could not be measured \(.*a reading failed.*choose budget=equal_time"),
    ],
)
def test_where_energy_cannot_be_measured_it_is_refused_with_what_to_type(
    counter: EnergyCounter, why: str, counted: Any
) -> None:
    counted(counter)
    with pytest.raises(ConfigurationError, match=why):
        match(SMALL, ARMS, "attention", EqualEnergy(rounds=1, turn_steps=1))


@pytest.mark.slow
def test_runs_over_several_devices_are_refused(counted: Any) -> None:
    counted(Turns(1.0))
    two = config_of("trainer=ddp", "trainer.devices=2", "trainer.accelerator=cpu", "trainer.threads=1")
    with pytest.raises(ConfigurationError, match=r"arm two trains on 2 devices.*trainer\.devices=1"):
        measure_step_times({"two": two}, rounds=1, turn_steps=1, with_energy=True)


@pytest.mark.parametrize(
    "command",
    [
        ["match", "--arm", "attention=", "--arm", "lstm=model/mixer=lstm model/position=none", "--budget",
         "equal_energy", *SMALL],
        ["study", "norms_small", "--plan", "budget=equal_energy", "trainer=cpu"],
    ],
    ids=["match", "study"],
)  # fmt: skip
def test_commands_on_a_machine_without_a_counter_say_why_and_what_to_type(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(energy_counters, "POWERCAP", tmp_path / "powercap")
    assert main(command) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "budget=equal_energy: the energy of this machine is not measured" in message
    assert "has no counter of a processor package" in message and "choose budget=equal_time" in message

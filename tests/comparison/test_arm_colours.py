"""An arm has the colour of its name: in the report, in a notebook's figures, on the dashboard and on W&B, whose saved
views `tests/wandb_client/test_boards.py` reads back."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from headtohead.api.comparing import figure_of
from headtohead.comparison.arm_colours import NUM_COLOURS, colour_slots, light_colours, styles_of, theme_colours
from headtohead.comparison.dashboard.live_runs import LiveRuns
from headtohead.comparison.dashboard.run_view import Lines, Selection, ViewOf
from headtohead.records.record import StudyPosition
from sample_comparison import made_up
from served_runs import written_run

ARMS = ("alibi", "rotary", "rotary_in_windows", "alibi_in_windows", "none", "a <b>name</b>")


def test_colours_depend_on_the_names_alone() -> None:
    slots = colour_slots(ARMS)
    for seed in range(5):
        assert colour_slots(random.Random(seed).sample(ARMS, len(ARMS))) == slots
    assert len(set(slots.values())) == len(ARMS)


@pytest.mark.parametrize("number", [1, 8, 9, 40])
def test_every_name_of_a_set_has_a_slot_of_its_own(number: int) -> None:
    slots = colour_slots(f"arm {index}" for index in range(number))
    assert len(set(slots.values())) == number
    colours = [slot % NUM_COLOURS for slot in slots.values()]
    assert max(map(colours.count, colours)) <= -(-number // NUM_COLOURS)


def test_most_names_keep_their_colour_when_another_arm_joins() -> None:
    before, after = colour_slots(ARMS), colour_slots((*ARMS, "one more"))
    assert sum(before[arm] != after[arm] for arm in ARMS) <= 1


def test_the_dashboard_shares_out_the_colours_of_a_study_though_few_of_its_arms_are_selected(tmp_path: Path) -> None:
    for arm in ARMS:
        written_run(tmp_path, name=arm, status="finished", place=StudyPosition(study="positions", arm=arm, seed=0))
    live = LiveRuns(tmp_path)
    expected = colour_slots(ARMS)
    of = ViewOf("", "arm", "name")
    assert live.page(of, Lines(), Selection(["*"]), "")["slots"] == expected
    [[key, _]] = live.page(ViewOf("name=none", "", "name"), Lines(), Selection([]), "")["items"]
    assert live.page(of, Lines(), Selection([key]), "")["slots"] == {"none": expected["none"]}


def test_pages_of_others_get_the_colours_of_the_light_theme() -> None:
    slots = colour_slots(ARMS)
    assert light_colours(ARMS) == {arm: theme_colours()[f"--arm-{slots[arm] % NUM_COLOURS}"] for arm in ARMS}


def test_reports_and_notebooks_give_the_same_colours(tmp_path: Path) -> None:
    results = made_up(tmp_path, {"rms": 2.0, "layer": 2.5, "none": 3.0}, num_seeds=2, steps=4)
    slots = colour_slots(arm.name for arm in results.arms)
    assert {arm: style.colour for arm, style in styles_of(results).items()} == {
        arm: f"--arm-{slot % NUM_COLOURS}" for arm, slot in slots.items()
    }
    drawn = {
        trace.name: trace.line.color
        for trace in figure_of(results, "curves", ()).data
        if trace.showlegend and trace.name in slots
    }
    assert drawn == {arm: rgba(colour) for arm, colour in light_colours(slots).items()}


def rgba(colour: str) -> str:
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},1)"

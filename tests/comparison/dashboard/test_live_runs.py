"""The dashboard's runs: pages of a list, what changed since, and nothing read twice."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headtohead.comparison.dashboard.live_runs import LiveRuns
from headtohead.comparison.dashboard.run_view import Lines, RunView, Selection, ViewOf
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import DIED, RunFolder
from headtohead.records.run_summary import RunSummary
from served_runs import train, written_run

EVERY = ViewOf("", "", "name")
NONE = Selection([])


def restless(root: Path) -> LiveRuns:
    """Looks at the disk whenever it is requested."""
    return LiveRuns(root, shortest=0, share=0)


def page(
    live: LiveRuns, of: ViewOf = EVERY, *, first: int = 0, shown: int = 60, selected: tuple[str, ...] = ()
) -> dict[str, Any]:
    return live.page(of, Lines(first, shown), Selection(selected), "")


def versions(live: LiveRuns) -> dict[str, int]:
    return dict(page(live)["items"])


def row(live: LiveRuns, key: str, group: str = "") -> dict[str, Any]:
    facts: dict[str, Any] = live.rows([key], group)[key]
    return facts


def test_only_what_changed_gets_another_version(tmp_path: Path) -> None:
    moving, still = written_run(tmp_path), written_run(tmp_path, status="finished")
    live = restless(tmp_path)
    first = page(live)
    assert {key for key, _ in first["items"]} == {f"some/{moving.id}", f"some/{still.id}"}
    assert (first["total"], first["running"]) == (2, 1)
    before = versions(live)
    train(moving, range(4, 5))
    after = versions(live)
    assert [key for key in after if after[key] != before[key]] == [f"some/{moving.id}"]
    news = row(live, f"some/{moving.id}")
    assert news["progress"]["step"] == 4 and news["latest"] == {"train/loss": 1.0}
    assert versions(live) == after


def test_a_page_that_knows_the_answer_is_not_sent_it_again(tmp_path: Path) -> None:
    run = written_run(tmp_path)
    live = restless(tmp_path)
    now = page(live)["now"]
    assert live.page(EVERY, Lines(), NONE, now) == {"now": now, "same": True}
    train(run, range(4, 6))
    assert "items" in live.page(EVERY, Lines(), NONE, now)
    assert "items" in restless(tmp_path).page(EVERY, Lines(), NONE, now), "another server counts again"


def test_records_are_opened_once_until_they_are_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headtohead.records.index.run_index._SAME_SECONDS", 0.0)
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    folder = written_run(tmp_path / "runs", status="finished")
    for _ in range(5):
        written_run(tmp_path / "runs", status="finished")
    live = restless(tmp_path / "runs")
    page(live)
    assert live.work.opened == 6
    page(live, ViewOf("d_model=64", "model.d_model", "result"))
    live.rows([f"some/{folder.id}"], "")
    assert live.work.opened == 6
    folder.write_record(RunRecord(id=folder.id, name="tiny", status="diverged", reason="loss is not finite"))
    page(live)
    assert live.work.opened == 7
    news = row(live, f"some/{folder.id}")
    assert (news["status"], news["reason"]) == ("diverged", "loss is not finite")
    assert live.work.opened == 7


def test_what_is_asked_of_a_few_runs_goes_through_these_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    keys = [f"some/{written_run(tmp_path / 'runs', status='finished').id}" for _ in range(6)]
    live = restless(tmp_path / "runs")
    page(live)
    requests = {
        "rows": lambda: live.rows(keys[:2], ""),
        "settings": lambda: live.settings(keys[:2], ["seed"]),
        "differences": lambda: live.differences(keys[:2]),
        "folder": lambda: live.folder(keys[0]),
        "the same page": lambda: page(live, selected=("*",)),
    }
    for name, request in requests.items():
        before = live.work.fetched
        request()
        assert live.work.fetched - before <= (6 if name == "the same page" else 2), name


def test_of_many_runs_those_alone_are_decoded_that_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    decoded = 0

    def counted(text: str) -> Any:
        nonlocal decoded
        decoded += 1
        return json.loads(text)

    monkeypatch.setattr("headtohead.records.run_summary.json", SimpleNamespace(loads=counted))
    keys = [f"some/{written_run(tmp_path / 'runs', status='finished').id}" for _ in range(20)]
    live = restless(tmp_path / "runs")
    page(live, ViewOf("status=finished", "arm", "newest"), selected=("*",))
    page(live, ViewOf("", "arm", "name"))
    assert decoded == 0
    facts = live.rows(keys[:2], "")
    assert decoded == 2
    assert [facts[key]["progress"]["step"] for key in keys[:2]] == [0, 0]


def test_a_running_record_without_its_process_is_interrupted(tmp_path: Path) -> None:
    folder = written_run(tmp_path)
    live = restless(tmp_path)
    before = versions(live)
    folder.mark_abandoned()
    assert versions(live) != before
    facts = row(live, f"some/{folder.id}")
    assert (facts["status"], facts["reason"], facts["progress"]["step"]) == ("interrupted", DIED, 3)


def test_an_unreadable_record_says_why(tmp_path: Path) -> None:
    folder = written_run(tmp_path)
    (folder.path / "record.json").write_text("{")
    facts = row(LiveRuns(tmp_path), f"some/{folder.id}")
    assert facts["status"] == "unreadable"
    assert "is not valid JSON" in facts["reason"]


def test_a_record_that_lies_elsewhere_is_not_read(tmp_path: Path) -> None:
    folder = written_run(tmp_path / "outside", name="secret")
    link = tmp_path / "shown" / "some" / folder.id
    link.mkdir(parents=True)
    (link / "record.json").symlink_to(folder.path / "record.json")
    (link / "metrics.csv").symlink_to(folder.path / "metrics.csv")
    live = LiveRuns(tmp_path / "shown")
    facts = row(live, f"some/{folder.id}")
    assert facts["status"] == "unreadable" and facts["latest"] == {}
    assert "secret" not in json.dumps([facts, live.fields(), live.differences([f"some/{folder.id}"])]).replace(
        folder.id, ""
    )


def test_what_is_no_number_is_told_as_text(tmp_path: Path) -> None:
    folder = written_run(tmp_path, metrics={"test": {"loss": float("nan")}}, status="diverged")
    assert row(LiveRuns(tmp_path), f"some/{folder.id}")["results"] == {"test/loss": "NaN"}


@pytest.mark.slow
def test_the_list_comes_in_pages_with_a_line_above_each_group(tmp_path: Path) -> None:
    for number in range(5):
        width = {"model": {"d_model": 64 if number < 2 else 8}}
        written_run(tmp_path, name=f"run{number}", status="finished", config=width)
    live = restless(tmp_path)
    every = page(live, ViewOf("", "model.d_model", "name"), selected=("*",))
    assert [item[0] for item in every["items"] if len(item) == 3] == ["8", "64"]
    assert [item[1:] for item in every["items"] if len(item) == 3] == [[3, 3], [2, 2]]
    assert (every["count"], len(every["drawn"]), every["before"], every["after"]) == (5, 5, [0, 0], [0, 0])
    part = page(live, ViewOf("", "model.d_model", "name"), shown=2)
    assert part["items"] == [["8", 3, 0], every["items"][1]]
    for first in range(9):
        for shown in range(1, 9):
            part = page(live, ViewOf("", "model.d_model", "name"), first=first, shown=shown, selected=("*",))
            assert part["items"] == every["items"][first : first + shown]
            ends = every["items"][:first], every["items"][first + shown :]
            for counts, lines in zip((part["before"], part["after"]), ends, strict=True):
                assert counts == [sum(len(line) == size for line in lines) for size in (2, 3)]
    [_, one, _, other, *_] = every["items"]
    between = [key for key, _ in every["items"][1:4]]
    assert live.keys_between(ViewOf("", "model.d_model", "name"), other[0], one[0]) == between
    assert live.keys_between(ViewOf("", "model.d_model", "name"), one[0], "../etc") == []
    assert live.fields()[-1] == "model.d_model"
    assert len(live.keys_of(ViewOf("", "model.d_model", "name"), "64")) == 2
    chosen = [key for key, _ in every["drawn"]][:2]
    assert live.differences([chosen[0], every["drawn"][-1][0], "../etc"])["values"] == [["8"], ["64"]]
    hidden = page(live, ViewOf("d_model=64", "", "name"), selected=tuple(chosen))
    assert (hidden["matching"], hidden["count"]) == (2, 0)
    assert page(live, selected=("*", f"!{chosen[0]}"))["count"] == 4


def test_a_page_that_nobody_touched_shows_the_newest_study(tmp_path: Path) -> None:
    live = restless(tmp_path)
    assert live.start(EVERY) == ["*"]
    for number in range(42):
        folder = RunFolder.create_at(tmp_path / f"group{number % 2}" / f"run{number:02}")
        folder.write_record(RunRecord(id=folder.id, name=folder.id, group=f"group{number % 2}", status="finished"))
        folder.release()
    assert live.start(EVERY) == [f"group0/run{number:02}" for number in range(0, 42, 2)]


def test_of_very_many_selected_runs_each_group_shows_as_many() -> None:
    view = RunView(ViewOf("", "arm", "name"))
    for arm, number in (("large", 900), ("small", 3), ("middle", 200)):
        for at in range(number):
            view.take(f"{arm}{at:03}", RunSummary("", f"{at}", name=f"{at}", arm=arm))
    count, drawn = view.selected(Selection(["*"]), 103)
    assert count == 1103 and len(drawn) == len(set(drawn)) == 103
    assert sum(key.startswith("small") for key in drawn) == 3
    assert sum(key.startswith("middle") for key in drawn) == 50
    view.drop(drawn)
    assert view.selected(Selection(["*"]), 2000)[0] == 1000

"""An option of `h2h runs` that an action does not read is refused: `verify --where ... --repair` repaired every run."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.cli import main
from headtohead.cli.options import LIST_OPTIONS, OptionsListed
from headtohead.cli.runs import ACTIONS

OPTIONS = {
    "--where": ["status=failed"], "--add": ["x"], "--remove": ["x"], "--text": ["x"], "--keep": ["none"],
    "--top": ["2"], "--disk": ["1"], "--repair": [],
}  # fmt: skip
READ = {
    "tag": {"--where", "--add", "--remove"}, "note": {"--where", "--text"}, "archive": {"--where"},
    "restore": {"--where"}, "delete": {"--where"}, "prune": {"--where", "--keep", "--top", "--disk"},
    "verify": {"--repair"},
}  # fmt: skip
NEEDED = {"tag": ["--add", "y"], "note": ["--text", "y"]}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_is_read_or_refused(
    action: str, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needed = [] if option in NEEDED.get(action, []) else NEEDED.get(action, [])
    code = main(["runs", action, str(tmp_path), "--yes", *needed, option, *OPTIONS[option]])
    err = capsys.readouterr().err
    assert (code == 0) == (option in READ[action]), err
    assert code == 0 or f"{option} has no effect on h2h runs {action}" in err


def test_every_option_is_tried() -> None:
    with pytest.raises(OptionsListed) as listed:
        main(["runs", LIST_OPTIONS])
    assert {option for option in listed.value.options if option.startswith("--")} == {*OPTIONS, "--yes", "--help"}

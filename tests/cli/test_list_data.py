"""`h2h list data`: size, licence, task of published sets and whether they are cached, at once and on any terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from from_fields import from_fields
from headtohead.cli import main
from headtohead.config.compose.choices import config_folder
from headtohead.data.sources.hub.hub_tables import HubTables
from hub_server import hub_of
from published_sets.classification import write_ag_news
from waiting import PATIENCE

FILES = {path.stem: yaml.safe_load(path.read_text()) for path in (config_folder() / "data").glob("*.yaml")}
ABOUT = {name: content["about"] for name, content in FILES.items() if content.get("about")}


def test_every_published_set_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "data"]) == 0
    shown = capsys.readouterr().out
    for name, about in ABOUT.items():
        message = f"{about['task']}; {about['size']}; licence {about['licence']}; "
        assert re.search(rf"^  {name} .+\n +{re.escape(message)}(not )?cached$", shown, re.MULTILINE), name
    assert "sst2" in ABOUT and shown.index("pair_grammar") < shown.index("published sets")


def test_a_set_is_cached_once_it_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def message() -> bool:
        assert main(["list", "data", "--json"]) == 0
        return bool(json.loads(capsys.readouterr().out)["published sets"]["ag_news"]["is_cached"])

    write_ag_news(tmp_path / "news")
    commit = FILES["ag_news"]["revision"]
    name = "fancyzhx/ag_news"
    with hub_of({name: tmp_path / "news"}, monkeypatch, tmp_path / "caches", {name: commit}):
        assert not message()
        source = from_fields(HubTables, name=name, revision=commit, validation_split="share", tokenizer="char")
        source.prepare()
        assert message()
        source.files["test"][0].unlink()
        assert not message()


@pytest.mark.process
def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from headtohead.cli import main; assert main(['list', 'data']) == 0; "
        "heavy = {'torch', 'datasets', 'huggingface_hub', 'pyarrow', 'hydra', 'numpy'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE)


@pytest.mark.process
def test_lines_fit_a_terminal_of_80_columns_and_lose_no_word(capsys: pytest.CaptureFixture[str]) -> None:
    read, written = pty.openpty()
    arguments = [sys.executable, "-m", "headtohead", "list", "data"]
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    with subprocess.Popen(arguments, stdout=written, env=environment) as process:
        os.close(written)
        shown = _all_of(read)
    os.close(read)
    assert process.returncode == 0 and max(map(len, shown.splitlines())) <= 80
    assert main(["list", "data"]) == 0
    assert shown.split() == capsys.readouterr().out.split()


def _all_of(descriptor: int) -> str:
    parts = []
    while True:
        try:
            part = os.read(descriptor, 65536)
        except OSError:  # what Linux says at the end
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts).decode()

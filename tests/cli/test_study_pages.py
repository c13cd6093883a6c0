"""A real study with W&B: what its runs tell there, its page and report, and comparing it from there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from wandb_server import WandbServer
from wandb_trainings import TINY, h2h

pytestmark = [pytest.mark.slow, pytest.mark.process]
BASE = ", ".join((*TINY, "probe=default"))
STUDY = f"""
question: Does position matter here?
hypothesis: It does.
tuning: none
base: [{BASE.replace("probe=none, ", "")}]
arms:
  rotary: [model/position=rotary]
  bare: [model/position=none]
seeds: 1
metric: validation/loss
direction: min
baseline: rotary
"""


@pytest.fixture
def server() -> Iterator[WandbServer]:
    running = WandbServer()
    yield running
    running.close()
    assert running.unknown == []


def test_a_study_has_its_page_and_report_and_is_compared_from_there_and_from_disk_at_once(
    tmp_path: Path, server: WandbServer
) -> None:
    (tmp_path / "conf" / "study").mkdir(parents=True)
    (tmp_path / "conf" / "study" / "pair.yaml").write_text(STUDY, encoding="utf-8")
    typed = ("study", "pair", "--config-dir", "conf", "tracking.workspace=true", "tracking.init_timeout=60")

    done = h2h(tmp_path, server.environment, *typed)

    assert done.returncode == 0, done.stderr
    assert f"W&B page: {server.url}/me/headtohead?nw=" in done.stderr
    assert f"W&B report: {server.url}/me/headtohead/reports/Study-pair--" in done.stderr
    message = {run.config["arm"]: run for run in server.runs.values()}
    assert sorted(message) == ["bare", "rotary"]
    assert [run.first["groupName"] for run in message.values()] == ["pair", "pair"]
    *parts, content = message["bare"].first["tags"]
    assert parts == ["decoder_only", "softmax_attention", "no position", "layer_norm"]
    assert content == f"content-{message['bare'].config['content_hash']}"
    assert message["bare"].config["place"]["seed"] == 0
    assert message["bare"].axes == message["rotary"].axes
    assert message["bare"].summary.keys() == message["rotary"].summary.keys()
    assert {"attention/stack.0.mixer", "min/validation/loss", "costs/parameters"} < message["bare"].summary.keys()

    verdict = json.loads((tmp_path / "outputs/studies/pair/verdict.json").read_text(encoding="utf-8"))
    (report,) = server.views.of_kind("runs")
    (words,) = [block["content"] for block in report.spec["blocks"] if block["type"] == "markdown-block"]
    assert verdict["verdicts"][0]["kind"] in words and "| bare |" in words

    address = ("outputs/studies/pair", "wandb:me/headtohead/studies/pair")
    result = h2h(tmp_path, server.environment, "compare", *address, "--metric", "validation/loss", "--json")
    lines = {line["arm"]: line["value"] for line in json.loads(result.stdout)}
    assert lines == {arm["arm"]: arm["mean"] for arm in verdict["arms"]}

    server.behaviour = "refuses"
    again = h2h(tmp_path, server.environment, *typed)
    assert again.returncode == 0
    assert "no page or report in W&B for now: W&B rejects this key" in again.stderr
    assert "h2h study pair tracking.workspace=true writes them later" in again.stderr

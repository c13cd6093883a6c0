"""`h2h list pretrained` and `h2h inspect init_from=hf:...`: what can be read, and what was."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from headtohead.cli import main
from headtohead.pretrained.families import FAMILIES, parity_evidence

PARITY = Path(__file__).parents[2] / "docs" / "parity.md"


def test_every_family_is_listed_with_its_classes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "pretrained"]) == 0
    shown = capsys.readouterr().out
    for family in FAMILIES:
        assert f"\n  {family.model_type} " in shown
        for name, head in family.architectures.items():
            assert (f"{name} ({head})" in shown) == (head is not None)
    assert main(["list", "pretrained", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["pretrained"]
    assert set(listed) == {family.model_type for family in FAMILIES}
    assert all(family["about"].endswith(".") for family in listed.values()), "each is told in a whole sentence"


def test_every_family_is_listed_with_what_was_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """The figures are those of docs/parity.md, which the same command writes."""
    assert set(parity_evidence()) == {family.model_type for family in FAMILIES}, "run make parity"
    assert main(["list", "pretrained"]) == 0
    shown = capsys.readouterr().out
    rows = re.findall(r"^\| ([\w-]+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| 0 \|$", PARITY.read_text(), re.M)
    tables = {kind: [int(figure) for figure in figures] for kind, *figures in rows}
    for kind, result in parity_evidence().items():
        tried, equal, here, there, announced = tables[kind]
        assert (result.changes, result.equal, result.refused, result.announced) == (
            tried,
            equal,
            here + there,
            announced,
        )
        assert result.models > 1 and 0 < result.logits < 5e-5 and 0 < result.gradients < 5e-5
        assert f"compared: {result.models} models, logits within {result.logits:.1e}" in shown
        assert f"{tried} changed checkpoints: {equal} equal, {here + there} refused" in shown


@pytest.mark.slow
@pytest.mark.parametrize("tied", [True, False])
def test_inspect_says_what_was_read_of_a_checkpoint(
    tied: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dynamic = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 500.0}
    config = LlamaConfig(vocab_size=512, hidden_size=24, intermediate_size=40, num_hidden_layers=1,
                         num_attention_heads=3, max_position_embeddings=600, tie_word_embeddings=tied,
                         rope_parameters=dynamic)  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    capsys.readouterr()
    assert main(["inspect", "task=causal_lm", "data=grammar_lm", "data.num_train=500", f"init_from=hf:{tmp_path}"]) == 0
    shown = capsys.readouterr().out
    assert ("head read, tied" if tied else "head read, not tied") in shown
    assert "hidden_size" in shown and "rope_parameters" in shown and "initializer_range" not in shown
    assert "differs by design: its rotary scaling follows the length" in shown

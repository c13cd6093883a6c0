"""An option that nothing would read is refused before anything is read or built, and says which other one it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.cli import main


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("generate RUN --prompt a --length-penalty 2", "give beams"),
        ("generate RUN --prompt a --seed 3", "give a temperature, top_k or top_p"),
        ("generate RUN --prompt a --temperature 0 --top-k 3", "give a temperature above 0"),
        ("probe --data --fields", "--fields would have no effect"),
        ("probe --positions --fields", "--fields would have no effect"),
        ("probe --positions --split test --rows 1", "--rows and --split would have no effect"),
        ("probe RUN --text a --split test", "--split would have no effect"),
        ("probe RUN --image a.png --split test", "--split would have no effect"),
        ("probe RUN --config-dir .", "--config-dir would have no effect: RUN keeps its own configuration"),
        ("embed RUN notes --top 3", "--query TEXT"),
        ("embed RUN notes --k 3", "--queries and --relevant"),
        ("embed RUN notes --query a --k 3", "--queries and --relevant"),
        ("embed RUN notes --queries a --relevant b --top 3", "--query TEXT"),
        ("embed RUN notes --rerank 3", "--query or --queries"),
        ("embed bm25 . --query a --pooling cls --batch-size 3", "--pooling and --batch-size would have no effect"),
        ("embed bm25 . --query a --rerank 3", "--rerank would have no effect"),
        ("embed --generate paraphrases small --query a --json", "--query and --json would have no effect"),
        *((f"compare . --{name}", "--against NAME") for name in
          ("direction min", "margin 1", "solved-at 1", "budget equal_flops", "allow-unlike tokenizer")),
        ("compare . --against a --where", "--where would have no effect"),
        ("compare . --json --where", "--where would have no effect"),
        *((f"compare . --against a --{name} x", f"--{name} x would have no effect") for name in
          ("arm", "seed", "task", "step", "parameters", "flops", "tokens", "seconds")),
        ("compare wandb:me/project --against a --step x", "--step x would have no effect"),
        ("plan --study norms_small --on h100 --tokens 1e10", "--tokens would have no effect"),
        ("study norms_small --watch --workers 2 --retry", "--workers and --retry would have no effect"),
        ("study norms_small seeds=3 --watch", "seeds=3 would have no effect"),
        ("bench --rounds 3", "bench.rounds=N"),
        ("bench seed=1 --peers gpt", "seed=1 would have no effect"),
        ("bench --config-dir . --peers gpt", "--config-dir would have no effect"),
        ("bench --cfg job --peers gpt", "--cfg would have no effect"),
    ],
    ids=lambda text: text.replace(" ", "_"),
)  # fmt: skip
def test_an_option_without_effect_is_refused(command: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command.split()) == 2
    shown = capsys.readouterr()
    assert not shown.out and reason in " ".join(shown.err.split())
    assert not list(Path().iterdir())

"""Ask again what the field knows: every claim has a study, or a check that is exact.

    python benchmarks/known_answers.py [CLAIM ...] [--workers 2] [--threads 1] [--first-seed 1000]

Runs what is missing of each study, compares its verdicts with what it expected, and prints claim by claim whether that
came out. An expectation that fails is a finding, not an error: it is told, and written to outputs/known_answers.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

OUTPUT = Path("outputs/known_answers.md")


@dataclass(frozen=True)
class Answer:
    """The outcome of one claim."""

    expected: str
    result: str
    agrees: bool


@dataclass(frozen=True)
class Claim:
    """A sentence of the literature and what settles it here."""

    sentence: str
    settle: Callable[[argparse.Namespace], Answer]


TUNED = "tuning={search: grid, trials: 3, space: {optimizer.lr: [1.0e-3, 3.0e-3, 1.0e-2]}}"
"""Each arm at the best of three learning rates: for claims about the best that an arm can do."""


def by_study(name: str, *overrides: str) -> Callable[[argparse.Namespace], Answer]:
    """Return a question to a study, perhaps with other fields: its verdicts beside those it expected."""

    def settle(provided: argparse.Namespace) -> Answer:
        command = ["h2h", "study", name, *overrides, "tracking=none"]
        command += [f"--workers={provided.workers}", f"--threads={provided.threads}"]
        outputs = Path("outputs")
        if provided.first_seed:
            outputs /= f"from_seed_{provided.first_seed}"
            command += [f"first_seed={provided.first_seed}", f"output_dir={outputs}"]
        code = subprocess.run([str(Path(sys.executable).parent / command[0]), *command[1:]], check=False).returncode
        message = json.loads((outputs / "studies" / name / "verdict.json").read_text(encoding="utf-8"))
        baseline, expected = message["study"]["baseline"], message["study"]["expected"]
        result = {
            verdict["arm"]: verdict["answer"] for verdict in message["verdicts"] if verdict["baseline"] == baseline
        }
        surprises = [remark for remark in message["remarks"] if remark.startswith("not as expected")]
        return Answer(
            "; ".join(f"{arm} {', '.join(entries)}" for arm, entries in expected.items()),
            "; ".join(f"{arm} {result.get(arm, 'without a verdict')}" for arm in expected),
            code == 0 and not surprises and expected.keys() <= result.keys(),
        )

    return settle


def equivariance(provided: argparse.Namespace) -> Answer:
    """Compare in float64, over a whole encoder."""
    del provided
    import torch

    import headtohead as h2h

    def error(position: str) -> float:
        torch.manual_seed(0)
        overrides = ["model=encoder_only", f"model/position={position}", "task=masked_lm", "model.num_heads=2"]
        model = h2h.build_model(h2h.compose("train", [*overrides, "data.context_length=24"]))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
            model = model.double().eval()
            tokens, order = torch.randint(500, (2, 24)), torch.randperm(24)
            return float((model(tokens[:, order]) - model(tokens)[:, order]).abs().max())

    without = error("none")
    broken = {name: error(name) for name in ("sinusoidal", "learned", "rotary", "alibi", "t5_bias", "shaw")}
    least = min(broken, key=lambda name: broken[name])
    return Answer(
        "an error of at most 1e-12 without positions, more with each of them",
        f"{without:.1e} without; {broken[least]:.1e} with {least}, the least of {len(broken)}",
        without <= 1e-12 and broken[least] > 1e-6,
    )


def slopes(provided: argparse.Namespace) -> Answer:
    """Return the ratio of the ledger's FLOPs in the mixing part, projections left out, from 1,024 to 8,192 tokens."""
    del provided
    import math

    from headtohead.components.component import Mixer
    from headtohead.components.costs import CostContext
    from headtohead.components.mixers.attention.sliding_window import SlidingWindow
    from headtohead.components.mixers.attention.softmax_attention import SoftmaxAttention
    from headtohead.components.mixers.linear.linear_attention import LinearAttention

    def slope(mixer: Mixer) -> float:
        products = 2 * sum(weight.numel() for weight in mixer.parameters() if weight.dim() == 2)
        flops = [
            mixer.costs(CostContext(length=length, causal=True)).forward_flops - products * length
            for length in (1024, 8192)
        ]
        return math.log(flops[1] / flops[0]) / math.log(8)

    result = {
        "attention": slope(SoftmaxAttention(64, num_heads=4, causal=True)),
        "linear attention": slope(LinearAttention(64, num_heads=4, causal=True)),
        "windows": slope(SlidingWindow(64, num_heads=4, causal=True, window=64)),
    }
    expected = {"attention": 2.0, "linear attention": 1.0, "windows": 1.0}
    return Answer(
        "; ".join(f"{name} {value:g}" for name, value in expected.items()),
        "; ".join(f"{name} {value:.2f}" for name, value in result.items()),
        all(abs(result[name] - value) < 0.05 for name, value in expected.items()),
    )


CLAIMS: dict[str, Claim] = {
    "parity": Claim("Parity needs recurrence (Merrill et al. 2024)", by_study("recurrence_parity")),
    "recall": Claim("Recall needs attention, or width (Arora et al. 2023)", by_study("recall_small")),
    "alibi": Claim("ALiBi extrapolates, rotary positions do not (Press et al. 2022)", by_study("demo")),
    "warmup": Claim("Post-LN needs warm-up (Xiong et al. 2020)", by_study("wiring_and_warmup")),
    "norms": Claim("RMSNorm does as well as LayerNorm (Zhang and Sennrich 2019)", by_study("norms_small")),
    "digits_100": Claim(
        "A ViT lacks the convolutional bias: 100 images (Dosovitskiy et al. 2021)", by_study("digits_100")
    ),
    "digits_1000": Claim("... and learns some of it: 1,000 images", by_study("digits_1000")),
    "order": Claim("Without positions an encoder is permutation-equivariant", equivariance),
    "swiglu": Claim(
        "SwiGLU against GELU, each at its best: less than three seeds can show (Shazeer 2020)",
        by_study("activations", TUNED),
    ),
    "slopes": Claim("Mixing costs n^2 for attention, n for linear attention and windows", slopes),
}


def lines(answers: dict[str, Answer]) -> Iterator[str]:
    yield "| claim | expected | found | |"
    yield "| --- | --- | --- | --- |"
    for name, answer in answers.items():
        outcome = "as expected" if answer.agrees else "**a finding**"
        yield f"| {CLAIMS[name].sentence} | {answer.expected} | {answer.result} | {outcome} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("claims", nargs="*", metavar="CLAIM", help=f"of {', '.join(CLAIMS)}; default: all")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0, help="seeds that no expectation was written from: 1000")
    provided = parser.parse_args()
    unknown = [claim for claim in provided.claims if claim not in CLAIMS]
    if unknown:
        parser.error(f"{unknown[0]} is not a claim: choose of {', '.join(CLAIMS)}")
    answers: dict[str, Answer] = {}
    for name in provided.claims or CLAIMS:
        sys.stdout.write(f"==> {CLAIMS[name].sentence}\n")
        sys.stdout.flush()
        answers[name] = CLAIMS[name].settle(provided)
        text = "\n".join(lines(answers)) + "\n"
        OUTPUT.parent.mkdir(parents=True, exist_ok=True)
        OUTPUT.write_text(text, encoding="utf-8")
    findings = [name for name, answer in answers.items() if not answer.agrees]
    message = f"{len(answers) - len(findings)} of {len(answers)} as expected"
    sys.stdout.write(f"{text}\n{message}{'; findings: ' + ', '.join(findings) if findings else ''}; {OUTPUT}\n")


if __name__ == "__main__":
    main()

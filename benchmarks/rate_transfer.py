"""Whether the best learning rate of one width is that of another: a grid of rates at each, standard and maximal update.

The loss is the mean over the last tenth of a short run of the tiny decoder, at a constant rate, over some seeds. The
optimum is read off a parabola through the best rate and its neighbours, in powers of 2.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from statistics import mean

import numpy as np
import torch

from headtohead.building.build import build_parts
from headtohead.building.configuration import compose_checked
from headtohead.examining.doctor.patient import Patient
from headtohead.training.parts import Parts
from headtohead.training.seeds import seeds_of

RUN = ["tracking=none", "data.num_train=4000", "data.context_length=32", "data.batch_size=16", "trainer.threads=1"]
SMALL = ["data.num_validation=10", "data.num_test=10"]
CLIP = 1.0


def loss_of(parts: Parts, steps: int, seed: int) -> float:
    """Of the last tenth; infinite where it diverges."""
    patient = Patient(replace(parts, identity=replace(parts.identity, seed=seed)))
    torch.manual_seed(seeds_of(seed).initialisation)
    model = patient.model.train()
    optimizer = parts.optimizer(model)
    parts.parametrisation.scale_rates(optimizer, model)
    losses = []
    for step in range(steps):
        loss = parts.task.loss(model, patient.batch(step)).mean
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    last = mean(losses[-max(1, steps // 10) :])
    return last if math.isfinite(last) else math.inf


def optimum(rates: list[int], losses: list[float]) -> str:
    """Of a parabola through the best and its neighbours; at an edge nothing is known beyond it."""
    best = min(range(len(losses)), key=lambda place: losses[place])
    if best in (0, len(losses) - 1) or not all(map(math.isfinite, losses[best - 1 : best + 2])):
        return f"2^{rates[best]} (edge)"
    square, slope, _ = np.polyfit(rates[best - 1 : best + 2], losses[best - 1 : best + 2], 2)
    return f"2^{-slope / (2 * square):.1f}"


def main() -> None:
    taken = argparse.ArgumentParser(description=__doc__)
    taken.add_argument("--widths", default="32,128")
    taken.add_argument("--exponents", default="-12,-11,-10,-9,-8,-7,-6,-5", help="rates, as powers of 2")
    taken.add_argument("--steps", type=int, default=150)
    taken.add_argument("--seeds", type=int, default=2)
    taken.add_argument("--optimizer", default="adamw")
    given = taken.parse_args()
    rates, widths = ([int(word) for word in text.split(",")] for text in (given.exponents, given.widths))
    base = [f"parametrisation.base_width={widths[0]}", f"parametrisation.base_head_width={widths[0]}"]
    torch.set_num_threads(1)
    print(f"{'':<20}" + "".join(f"{f'2^{rate}':>8}" for rate in rates) + f"{'optimum':>15}")
    for name, own in (("standard", []), ("mup", ["parametrisation=mup", *base])):
        for width in widths:
            losses = []
            for rate in rates:
                changed = [f"optimizer={given.optimizer}", f"optimizer.lr={2.0**rate}", f"model.d_model={width}", *own]
                parts = build_parts(compose_checked("train", [*RUN, *SMALL, *changed]))
                losses.append(mean(loss_of(parts, given.steps, seed) for seed in range(given.seeds)))
            row = "".join(f"{loss:8.3f}" for loss in losses)
            print(f"{name:<12}{width:>6}  {row}{optimum(rates, losses):>15}", flush=True)


if __name__ == "__main__":
    main()

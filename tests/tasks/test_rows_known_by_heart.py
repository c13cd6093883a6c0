"""A model that knows its rows by heart gets the best value of every metric of its task."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from headtohead.components.positions.absolute import Sinusoidal
from headtohead.metrics import own_metric
from task_cases import TASKS

pytestmark = pytest.mark.slow
ROWS, STEPS = 4, 300


@pytest.mark.parametrize("name", TASKS)
def test_rows_known_by_heart_score_the_best_of_every_metric(name: str) -> None:
    case = replace(TASKS[name], changes={"position": Sinusoidal, "d_model": 32})
    task, model = case.task(), case.model()
    view = task.view(case.rows(ROWS), seed=0, epoch=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(STEPS):
        optimizer.zero_grad()
        task.loss(model, view).mean.backward()
        optimizer.step()
    with torch.no_grad():
        task.measure("test", model.eval(), view)
    results = task.results("test")
    metrics = {name: metric for name in results if (metric := own_metric(name)) is not None}
    assert metrics.keys() == results.keys()
    for name, metric in metrics.items():
        if metric.best is not None:
            assert results[name] == pytest.approx(metric.best, abs=0.05), name

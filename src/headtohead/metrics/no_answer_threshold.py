"""The odds of no answer above which none is given: chosen on validation, and no quality."""

from __future__ import annotations

import math

from headtohead.metrics.metric import Metric

NO_ANSWER_THRESHOLD = Metric(
    name="no_answer_threshold", direction=None, best=None, over="questions", low=-math.inf, high=math.inf
)

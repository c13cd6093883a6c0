"""What training minimises: the mean over everything scored, in nats, or in squared units of a score."""

from __future__ import annotations

import math

from headtohead.metrics.metric import Metric

LOSS = Metric(name="loss", direction="min", best=0.0, over="targets", high=math.inf)
